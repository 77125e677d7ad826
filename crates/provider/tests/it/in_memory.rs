use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{Clock as _, ManualClock, SystemClock};
use nacre_provider::contract::Harness;
use nacre_provider::fake::Fake;
use nacre_provider::{Alive, Origin, Provider, ProviderError, SandboxSpec, SandboxState};

struct InMemory(Fake);

#[async_trait]
impl Harness for InMemory {
    async fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.0.clone())
    }

    async fn origin(&self) -> Origin {
        Origin::Bare
    }
}

nacre_provider::contract_suite!(InMemory(Fake::default()));

fn bare() -> SandboxSpec {
    SandboxSpec::from(Origin::Bare)
}

#[tokio::test]
async fn a_planned_failure_happens_once_and_in_order() {
    let fake = Fake::default();
    fake.fail_next("create", ProviderError::refused("quota"));
    fake.fail_next("create", ProviderError::Throttled { retry_after: None });
    assert!(matches!(
        fake.create(&bare()).await,
        Err(ProviderError::Refused { .. })
    ));
    assert!(matches!(
        fake.create(&bare()).await,
        Err(ProviderError::Throttled { .. })
    ));
    fake.create(&bare()).await.unwrap();
    assert_eq!(fake.list(&[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_outage_answers_unavailable_and_ends_nothing() {
    let fake = Fake::default();
    let sandbox = fake.create(&bare()).await.unwrap();
    fake.outage(true);
    let answer = fake.alive(&[sandbox.id]).await;
    assert!(matches!(answer, Err(ProviderError::Unavailable { .. })));
    assert!(!fake.health().await.ok);
    fake.outage(false);
    assert_eq!(
        fake.alive(&[sandbox.id]).await.unwrap(),
        [(sandbox.id, Alive::Running)]
    );
}

#[tokio::test]
async fn calls_are_recorded_and_an_empty_liveness_check_is_none() {
    let fake = Fake::default();
    let id = fake.create(&bare()).await.unwrap().id;
    fake.alive(&[]).await.unwrap();
    fake.pause(id).await.unwrap();
    let calls: Vec<_> = fake
        .calls()
        .into_iter()
        .map(|call| (call.operation, call.sandbox))
        .collect();
    assert_eq!(calls, [("create", None), ("pause", Some(id))]);
}

#[tokio::test]
async fn a_sandbox_ends_when_its_time_is_up_and_not_before() {
    let clock = Arc::new(ManualClock::starting_at(SystemClock.now()));
    let half_an_hour = Duration::from_mins(30);
    let fake = Fake::builder()
        .expiring_in(half_an_hour)
        .clock(clock.clone())
        .build();
    let sandbox = fake.create(&bare()).await.unwrap();
    assert_eq!(sandbox.expires_at, Some(sandbox.created_at + half_an_hour));
    clock.advance("PT29m".parse().unwrap());
    assert_eq!(
        fake.alive(&[sandbox.id]).await.unwrap()[0].1,
        Alive::Running
    );
    clock.advance("PT1m".parse().unwrap());
    assert_eq!(fake.alive(&[sandbox.id]).await.unwrap()[0].1, Alive::Dead);
    assert_eq!(fake.list(&[]).await.unwrap()[0].state, SandboxState::Ended);
}

#[tokio::test]
async fn nobody_lives_longer_than_the_longest_life() {
    let hour = Duration::from_hours(1);
    let fake = Fake::builder()
        .expiring_in(hour / 2)
        .max_lifetime(hour)
        .build();
    let sandbox = fake.create(&bare()).await.unwrap();
    let given = fake
        .extend(sandbox.id, sandbox.created_at + hour * 5)
        .await
        .unwrap();
    assert_eq!(given, sandbox.created_at + hour);
}
