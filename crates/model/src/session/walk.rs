//! Long walks through the machine: commands, answers of this and of earlier sandboxes, deadlines.

use proptest::prelude::*;

use super::table::{place, snapshot, time};
use super::*;

/// An event before it is known which sandboxes there are.
#[derive(Debug, Clone)]
enum Move {
    Begin,
    /// An answer about one of the session's sandboxes, or one that is not its any more.
    Answer {
        of: usize,
        what: Answer,
    },
    Rest(Rest),
    Store,
    Migrate,
    Deadline,
    Recover,
    Cleared,
    Stop,
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Ready,
    BootFailed(FaultCode),
    RestedInPlace,
    RestedOnDisk,
    RestFailed,
    Sealed,
    SealedNothing,
    Taken,
    Captured,
    LostButSaved,
    Lost,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let answer = prop_oneof![
        6 => Just(Answer::Ready),
        1 => Just(Answer::BootFailed(FaultCode::Boot)),
        1 => Just(Answer::BootFailed(FaultCode::OriginGone)),
        2 => Just(Answer::RestedInPlace),
        2 => Just(Answer::RestedOnDisk),
        1 => Just(Answer::RestFailed),
        1 => Just(Answer::Sealed),
        1 => Just(Answer::SealedNothing),
        1 => Just(Answer::Taken),
        2 => Just(Answer::Captured),
        1 => Just(Answer::LostButSaved),
        1 => Just(Answer::Lost),
    ];
    let rest = prop_oneof![
        3 => Just(Rest::Paused(PauseReason::Manual)),
        1 => Just(Rest::Suspended(SuspendReason::CreditLimit)),
    ];
    let one = prop_oneof![
        4 => Just(Move::Begin),
        12 => (0usize..4, answer).prop_map(|(of, what)| Move::Answer { of, what }),
        2 => rest.prop_map(Move::Rest),
        1 => Just(Move::Store),
        2 => Just(Move::Migrate),
        1 => Just(Move::Deadline),
        1 => Just(Move::Recover),
        1 => Just(Move::Cleared),
        1 => Just(Move::Stop),
    ];
    prop::collection::vec(one, 1..60)
}

fn event(chosen: &Move, lifecycle: &Lifecycle, step: u64) -> Event {
    let now = time(i64::try_from(step).unwrap() * 1000);
    let until = time(i64::try_from(step).unwrap() * 1000 + 500);
    let fresh = snapshot(u128::from(step) + 1000);
    match *chosen {
        Move::Begin => Event::Begin {
            origin: Origin::Bare,
            until,
        },
        Move::Rest(to) => Event::Rest { to, at: now, until },
        Move::Store => Event::Store { until },
        Move::Migrate => Event::Migrate { until },
        Move::Deadline => Event::DeadlinePassed {
            at: lifecycle.deadline().unwrap_or(now),
        },
        Move::Recover => Event::Recover {
            origin: Origin::Bare,
            until,
        },
        Move::Cleared => Event::Cleared,
        Move::Stop => Event::Stop {
            reason: StopReason::Manual,
            at: now,
        },
        Move::Answer { of, what } => {
            let generations = lifecycle.generations();
            let generation = generations.get(of).copied().unwrap_or_default();
            match what {
                Answer::Ready => Event::Ready {
                    place: place(generation.0),
                    expires_at: None,
                },
                Answer::BootFailed(code) => Event::BootFailed {
                    generation,
                    fault: Fault {
                        code,
                        message: String::new(),
                    },
                    at: now,
                },
                Answer::RestedInPlace => Event::Rested {
                    generation,
                    snapshot: None,
                    at: now,
                },
                Answer::RestedOnDisk => Event::Rested {
                    generation,
                    snapshot: Some(fresh),
                    at: now,
                },
                Answer::RestFailed => Event::RestFailed { generation },
                Answer::Sealed => Event::Sealed {
                    generation,
                    snapshot: Some(fresh),
                    at: now,
                },
                Answer::SealedNothing => Event::Sealed {
                    generation,
                    snapshot: None,
                    at: now,
                },
                Answer::Taken => Event::SnapshotTaken {
                    generation,
                    snapshot: fresh,
                },
                Answer::Captured => Event::Captured {
                    generation,
                    snapshot: fresh,
                    until,
                },
                Answer::LostButSaved => Event::Lost {
                    generation,
                    recovered: Some(fresh),
                    at: now,
                },
                Answer::Lost => Event::Lost {
                    generation,
                    recovered: None,
                    at: now,
                },
            }
        }
    }
}

fn check(before: &Lifecycle, event: &Event, after: &Lifecycle, effects: &[Effect]) {
    assert!(after.generation >= before.generation, "a number comes back");
    for new in after.generations() {
        assert!(
            before.generations().contains(&new) || new > before.generation,
            "{new:?} is neither old nor newly numbered"
        );
    }
    for gone in before.generations() {
        let told = effects.iter().any(|effect| {
            matches!(effect, Effect::End { generation } | Effect::Discard { generation }
                if *generation == gone)
        });
        let by_itself = matches!(
            event,
            Event::Lost { .. } | Event::Sealed { .. } | Event::Rested { .. }
        );
        assert!(
            after.generations().contains(&gone) || told || by_itself,
            "{gone:?} is forgotten"
        );
    }
    if before.snapshot().is_some() && !matches!(event, Event::Recover { .. }) {
        assert!(after.snapshot().is_some(), "work is forgotten");
    }
    if matches!(before.state, State::Stopped(_)) {
        assert!(matches!(after.state, State::Stopped(_)), "it came back");
    }
    // A sandbox that runs is only looked at.
    let is_waited_for = |effect: &Effect| !matches!(effect, Effect::Thaw { .. });
    let waits = after.owed().iter().any(is_waited_for) && !matches!(after.state, State::Stopped(_));
    assert_eq!(waits, after.deadline().is_some(), "a wait without an end");
    let text = serde_json::to_string(after).unwrap();
    let read: Lifecycle = serde_json::from_str(&text).unwrap();
    assert_eq!(&read, after, "what is written is not what is read");
}

proptest! {
    #[test]
    fn nothing_is_forgotten_on_any_walk(moves in moves()) {
        let mut lifecycle = Lifecycle::new();
        for (step, chosen) in (1u64..).zip(&moves) {
            let event = event(chosen, &lifecycle, step);
            let Ok((after, effects)) = lifecycle.clone().apply(event.clone()) else { continue };
            check(&lifecycle, &event, &after, &effects);
            lifecycle = after;
        }
    }

    #[test]
    fn an_answer_that_comes_twice_changes_nothing_the_second_time(moves in moves()) {
        let mut lifecycle = Lifecycle::new();
        for (step, chosen) in (1u64..).zip(&moves) {
            let event = event(chosen, &lifecycle, step);
            let Ok((after, _)) = lifecycle.apply(event.clone()) else { return Ok(()) };
            if matches!(chosen, Move::Answer { .. }) {
                let (again, _) = after.clone().apply(event).expect("answers are never refused");
                prop_assert_eq!(&again, &after);
            }
            lifecycle = after;
        }
    }

    #[test]
    fn whatever_waits_ends_when_its_deadlines_pass(moves in moves()) {
        let mut lifecycle = Lifecycle::new();
        for (step, chosen) in (1u64..).zip(&moves) {
            let event = event(chosen, &lifecycle, step);
            if let Ok((after, _)) = lifecycle.clone().apply(event) {
                lifecycle = after;
            }
        }
        // A disk that cannot be sealed is tried for ever, each time with a later deadline.
        while let Some(deadline) = lifecycle.deadline() {
            let (after, effects) = lifecycle
                .clone()
                .apply(Event::DeadlinePassed { at: deadline })
                .expect("a deadline is never refused");
            prop_assert_ne!(&after, &lifecycle);
            lifecycle = after;
            if lifecycle.deadline().is_some_and(|next| next > deadline) {
                prop_assert!(!effects.is_empty());
                break;
            }
        }
    }
}
