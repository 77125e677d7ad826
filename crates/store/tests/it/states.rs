//! What the state machine forbids, the tables forbid.

use model::session::{Event, Lifecycle, PauseReason, Place, Rest, StopReason};
use model::{Id, Origin, SystemClock};
use nacre_store::sessions::Status;
use nacre_store::{Error, StateColumns};

use crate::world::{World, seconds};

stories! {
    a_state_is_read_as_it_was_written,
    what_contradicts_itself_is_refused,
    a_generation_only_rises,
    what_is_stopped_stays_so,
    overdue_sessions_are_found_the_longest_overdue_first,
}

fn running(world: &World) -> Lifecycle {
    let begin = Event::Begin {
        origin: Origin::Bare,
        until: world.soon(),
    };
    let (starting, _) = Lifecycle::new().apply(begin).unwrap();
    let place = Place {
        sandbox: Id::new(&SystemClock),
        generation: starting.generation,
    };
    let ready = Event::Ready {
        place,
        expires_at: Some(world.now() + seconds(3600)),
    };
    starting.apply(ready).unwrap().0
}

async fn a_state_is_read_as_it_was_written(world: World) {
    let fence = world.session().await;
    let running = running(&world);
    let generation = running.generation;
    let rest = Event::Rest {
        to: Rest::Paused(PauseReason::Manual),
        at: world.now(),
        until: world.soon(),
    };
    let leaving = running.clone().apply(rest).unwrap().0;
    let rested = Event::Rested {
        generation,
        snapshot: None,
        at: world.now(),
    };
    let paused = leaving.clone().apply(rested).unwrap().0;
    let stop = Event::Stop {
        reason: StopReason::Manual,
        at: world.now(),
    };
    let stopped = paused.clone().apply(stop).unwrap().0;
    let mut seen = [Status::Starting; 4];
    for (seen, state) in seen.iter_mut().zip([running, leaving, paused, stopped]) {
        let write = world.write(fence).state(&state);
        world.store.append(write).await.unwrap();
        let record = world.store.load_session(fence.session).await.unwrap();
        assert_eq!(record.state, StateColumns::from(&state));
        assert_eq!(record.state.lifecycle().unwrap(), state);
        *seen = record.state.status;
    }
    let expected = ["running", "running", "paused", "stopped"];
    assert_eq!(seen.map(Status::as_str), expected);
}

async fn what_contradicts_itself_is_refused(world: World) {
    type Spoil = fn(&mut StateColumns);
    let good = StateColumns::from(running(&world));
    let at = Some(world.now());
    let spoilt: [(&str, Spoil); 7] = [
        ("a_sandbox_serves_exactly_who_runs", |s| s.sandbox_id = None),
        ("a_sandbox_serves_exactly_who_runs", |s| {
            s.status = Status::Starting;
        }),
        ("a_sandbox_has_a_generation", |s| s.generation = 0),
        ("a_migration_has_a_deadline", |s| {
            s.status = Status::Migrating;
        }),
        ("rest_has_a_reason", |s| s.reason = Some("manual".into())),
        ("only_those_at_rest_are_degraded", |s| s.degraded = true),
        ("rest_has_a_beginning", |s| s.paused_at = s.expires_at),
    ];
    for (rule, spoil) in spoilt {
        let fence = world.session().await;
        let mut state = good.clone();
        spoil(&mut state);
        let refused = world.store.append(world.write(fence).state(state)).await;
        let Err(Error::Forbidden { rule: broken }) = &refused else {
            panic!("{rule}: {refused:?}");
        };
        assert!(broken.contains(rule), "{broken} instead of {rule}");
        let record = world.store.load_session(fence.session).await.unwrap();
        assert_eq!(record.state.status, Status::Starting);
    }
    let fence = world.session().await;
    let ended = StateColumns {
        ended_at: at,
        ..good
    };
    let refused = world.store.append(world.write(fence).state(ended)).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })));
}

async fn a_generation_only_rises(world: World) {
    let fence = world.session().await;
    let first = StateColumns::from(running(&world));
    let second = StateColumns {
        generation: 2,
        ..first.clone()
    };
    world
        .store
        .append(world.write(fence).state(second))
        .await
        .unwrap();
    let refused = world.store.append(world.write(fence).state(first)).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })));
}

async fn what_is_stopped_stays_so(world: World) {
    let fence = world.session().await;
    let stop = Event::Stop {
        reason: StopReason::Manual,
        at: world.now(),
    };
    let stopped = Lifecycle::new().apply(stop).unwrap().0;
    let write = || world.write(fence).state(&stopped);
    world.store.append(write()).await.unwrap();
    let refused = world
        .store
        .append(world.write(fence).state(running(&world)))
        .await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })));
    world.store.append(write()).await.unwrap();
}

async fn overdue_sessions_are_found_the_longest_overdue_first(world: World) {
    let mut fences = Vec::new();
    for late in [1, 3, 2] {
        let fence = world.session().await;
        let begin = Event::Begin {
            origin: Origin::Bare,
            until: world.now() + seconds(10 - late),
        };
        let starting = Lifecycle::new().apply(begin).unwrap().0;
        world
            .store
            .append(world.write(fence).state(starting))
            .await
            .unwrap();
        fences.push(fence.session);
    }
    let _quiet = world.session().await;
    let at = world.now() + seconds(8);
    let found = world.store.overdue_sessions(at, 10).await.unwrap();
    let found: Vec<_> = found.into_iter().map(|session| session.id).collect();
    assert_eq!(found, [fences[1], fences[2]]);
}
