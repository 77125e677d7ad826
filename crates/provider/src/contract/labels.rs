//! Finding sandboxes again.

use model::{Id, SystemClock};

use super::wait::soon;
use super::world::World;
use crate::{Alive, Capability, SandboxId, SandboxSpec};

/// Labels to ask for, and who carries them.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a [SandboxId]);

pub async fn a_listed_sandbox_carries_all_the_labels_asked_for(world: &World<'_>) {
    let labelled = |colour: &str, size: &str| {
        let mut spec = world.spec();
        spec.labels.insert("colour".into(), colour.into());
        spec.labels.insert("size".into(), size.into());
        spec
    };
    let first = world.create(&labelled("white", "small")).await;
    let second = world.create(&labelled("white", "large")).await;
    let third = world.create(&labelled("black", "large")).await;
    let cases: [Case; 6] = [
        (&[], &[first.id, second.id, third.id]),
        (&[("colour", "white")], &[first.id, second.id]),
        (&[("size", "large")], &[second.id, third.id]),
        (&[("colour", "white"), ("size", "large")], &[second.id]),
        (&[("colour", "white"), ("colour", "black")], &[]),
        (&[("colour", "")], &[]),
    ];
    for (labels, wanted) in cases {
        let mut asked = vec![world.tag()];
        asked.extend(
            labels
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let listed = soon("list", world.provider().await.list(&asked))
            .await
            .expect("list answers");
        let mut found: Vec<SandboxId> = listed.iter().map(|sandbox| sandbox.id).collect();
        let mut wanted = wanted.to_vec();
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{labels:?}");
    }
    assert_eq!(
        second.listed().await.expect("listed").labels,
        labelled("white", "large").labels
    );
}

pub async fn listing_by_no_label_includes_ours(world: &World<'_>) {
    let guest = world.sandbox().await;
    let all = soon("list", world.provider().await.list(&[]))
        .await
        .expect("list answers");
    assert!(all.iter().any(|sandbox| sandbox.id == guest.id));
}

pub async fn labels_key_and_name_survive_everything_but_removal(world: &World<'_>) {
    let mut spec = SandboxSpec {
        name: Some(world.name("lasting")),
        key: Some(world.name("key")),
        ..world.spec()
    };
    spec.labels
        .insert("odd".into(), "a=b, \"c\" \\ \u{1f9aa}\n".into());
    let guest = world.create(&spec).await;
    let is_as_made = async |when: &str| {
        let listed = guest.listed().await.expect("listed");
        assert_eq!(listed.labels, spec.labels, "{when}");
        assert_eq!(
            (listed.name, listed.key),
            (spec.name.clone(), spec.key.clone()),
            "{when}"
        );
    };
    is_as_made("made").await;
    if world.can(Capability::Pause).await {
        guest.pause().await;
        is_as_made("paused").await;
        guest.resume().await;
        is_as_made("resumed").await;
    }
    guest.terminate().await;
    is_as_made("ended").await;
    guest.stop().await;
    is_as_made("stopped").await;
}

pub async fn liveness_of_nobody_is_nothing(world: &World<'_>) {
    assert_eq!(
        world
            .provider()
            .await
            .alive(&[])
            .await
            .expect("alive answers"),
        []
    );
}

pub async fn liveness_of_many_comes_back_for_each(world: &World<'_>) {
    let running = world.sandbox().await;
    let ended = world.sandbox().await;
    ended.terminate().await;
    let nobody: SandboxId = Id::new(&SystemClock);
    let asked = [nobody, ended.id, running.id];
    let answer = soon("alive", world.provider().await.alive(&asked))
        .await
        .expect("alive answers");
    assert_eq!(answer.len(), 3, "{answer:?}");
    for wanted in [
        (nobody, Alive::Dead),
        (ended.id, Alive::Dead),
        (running.id, Alive::Running),
    ] {
        assert!(answer.contains(&wanted), "{wanted:?} is not in {answer:?}");
    }
}

pub async fn health_answers(world: &World<'_>) {
    let health = soon("health", world.provider().await.health()).await;
    assert!(health.ok, "{}", health.detail);
}
