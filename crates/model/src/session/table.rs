//! Every state by every event: each line is a decision.

use std::fmt::Write as _;

use uuid::Uuid;

use super::*;
use crate::SnapshotKind;

pub(super) fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(super) fn snapshot(number: u128) -> SnapshotId {
    SnapshotId {
        provider: "local".to_owned(),
        kind: SnapshotKind::Disk,
        id: Id::from_uuid(Uuid::from_u128(number)),
    }
}

pub(super) fn place(generation: u64) -> Place {
    Place {
        sandbox: Id::from_uuid(Uuid::from_u128(u128::from(generation))),
        generation: Generation(generation),
    }
}

fn at(generation: u64, events: impl IntoIterator<Item = Event>) -> Lifecycle {
    let before = Lifecycle {
        generation: Generation(generation),
        ..Lifecycle::new()
    };
    events.into_iter().fold(before, |lifecycle, event| {
        lifecycle.apply(event).expect("a legal move").0
    })
}

fn begin() -> Event {
    Event::Begin {
        origin: Origin::Base(snapshot(100)),
        until: time(60),
    }
}

fn ready(generation: u64) -> Event {
    Event::Ready {
        place: place(generation),
        expires_at: Some(time(3600)),
    }
}

fn pause(reason: PauseReason) -> Event {
    Event::Rest {
        to: Rest::Paused(reason),
        at: time(10),
        until: time(70),
    }
}

fn suspend() -> Event {
    Event::Rest {
        to: Rest::Suspended(SuspendReason::CreditLimit),
        at: time(10),
        until: time(70),
    }
}

fn rested(snapshot: Option<SnapshotId>) -> Event {
    Event::Rested {
        generation: Generation(1),
        snapshot,
        at: time(20),
    }
}

fn boot_failed(generation: u64, code: FaultCode) -> Event {
    Event::BootFailed {
        generation: Generation(generation),
        fault: Fault {
            code,
            message: "why".to_owned(),
        },
        at: time(30),
    }
}

fn lost(generation: u64, recovered: Option<SnapshotId>) -> Event {
    Event::Lost {
        generation: Generation(generation),
        recovered,
        at: time(40),
    }
}

fn taken() -> Event {
    Event::SnapshotTaken {
        generation: Generation(1),
        snapshot: snapshot(7),
    }
}

fn migrate() -> Event {
    Event::Migrate { until: time(90) }
}

fn captured() -> Event {
    Event::Captured {
        generation: Generation(1),
        snapshot: snapshot(8),
        until: time(95),
    }
}

fn manual() -> Event {
    pause(PauseReason::Manual)
}

fn states() -> Vec<(&'static str, Lifecycle)> {
    let running = || [begin(), ready(1)];
    let and = |more: Vec<Event>| running().into_iter().chain(more);
    vec![
        ("new", Lifecycle::new()),
        ("booting", at(0, [begin()])),
        (
            "boot failed",
            at(0, [begin(), boot_failed(1, FaultCode::Boot)]),
        ),
        ("running", at(0, running())),
        ("running, snapshot taken", at(0, and(vec![taken()]))),
        ("pausing", at(0, and(vec![manual()]))),
        ("suspending", at(0, and(vec![suspend()]))),
        ("capturing", at(0, and(vec![taken(), migrate()]))),
        ("moving", at(0, and(vec![migrate(), captured()]))),
        ("paused in place", at(0, and(vec![manual(), rested(None)]))),
        (
            "paused in place, going to disk",
            at(
                0,
                and(vec![
                    manual(),
                    rested(None),
                    Event::Store { until: time(80) },
                ]),
            ),
        ),
        (
            "paused on disk",
            at(0, and(vec![manual(), rested(Some(snapshot(9)))])),
        ),
        ("waking", at(0, and(vec![manual(), rested(None), begin()]))),
        (
            "starting from its disk",
            at(0, and(vec![manual(), rested(Some(snapshot(9))), begin()])),
        ),
        ("degraded", at(0, and(vec![taken(), lost(1, None)]))),
        (
            "suspended",
            at(0, and(vec![suspend(), rested(Some(snapshot(9)))])),
        ),
        (
            "suspended in place",
            at(0, and(vec![suspend(), rested(None)])),
        ),
        (
            "stopping",
            at(
                0,
                and(vec![Event::Stop {
                    reason: StopReason::Manual,
                    at: time(50),
                }]),
            ),
        ),
    ]
}

fn events() -> Vec<(&'static str, Event)> {
    vec![
        ("begin", begin()),
        ("ready", ready(1)),
        ("ready, the second", ready(2)),
        ("ready, a stranger", ready(0)),
        ("boot failed", boot_failed(1, FaultCode::Boot)),
        ("boot failed, the second", boot_failed(2, FaultCode::Boot)),
        (
            "boot failed, its origin gone",
            boot_failed(2, FaultCode::OriginGone),
        ),
        ("pause", pause(PauseReason::Inactivity)),
        ("suspend", suspend()),
        ("rested in place", rested(None)),
        ("rested on disk", rested(Some(snapshot(9)))),
        (
            "rest failed",
            Event::RestFailed {
                generation: Generation(1),
            },
        ),
        ("store", Event::Store { until: time(99) }),
        (
            "sealed",
            Event::Sealed {
                generation: Generation(1),
                snapshot: Some(snapshot(6)),
                at: time(45),
            },
        ),
        (
            "sealed, nothing saved",
            Event::Sealed {
                generation: Generation(1),
                snapshot: None,
                at: time(45),
            },
        ),
        ("snapshot taken", taken()),
        (
            "extended",
            Event::Extended {
                generation: Generation(1),
                expires_at: time(7200),
            },
        ),
        ("migrate", migrate()),
        ("captured", captured()),
        ("lost, disk saved", lost(1, Some(snapshot(5)))),
        ("lost", lost(1, None)),
        ("lost, the second", lost(2, None)),
        ("deadline passed", Event::DeadlinePassed { at: time(1000) }),
        (
            "too early for the deadline",
            Event::DeadlinePassed { at: time(1) },
        ),
        (
            "recover",
            Event::Recover {
                origin: Origin::Session(snapshot(7)),
                until: time(110),
            },
        ),
        ("cleared", Event::Cleared),
        (
            "stop",
            Event::Stop {
                reason: StopReason::Manual,
                at: time(55),
            },
        ),
    ]
}

/// The snapshots of these tests, by their numbers.
fn short(text: &str) -> String {
    let mut text = text.to_owned();
    for number in 0..=100 {
        text = text.replace(&snapshot(number).to_string(), &format!("snapshot {number}"));
    }
    text
}

fn numbered(generation: Generation) -> String {
    format!("sandbox {}", generation.0)
}

fn shown_effect(effect: &Effect) -> String {
    match effect {
        Effect::Boot {
            generation, way, ..
        } => {
            let way = match way {
                Way::Wake => "awake".to_owned(),
                Way::New { origin } => match origin.snapshot() {
                    Some(snapshot) => format!("from {snapshot}"),
                    None => "bare".to_owned(),
                },
            };
            format!("boot {} {way}", numbered(*generation))
        }
        Effect::Rest { generation, .. } => format!("rest {}", numbered(*generation)),
        Effect::Thaw { generation } => format!("thaw {}", numbered(*generation)),
        Effect::Capture { generation, .. } => format!("capture {}", numbered(*generation)),
        Effect::End { generation } => format!("end {}", numbered(*generation)),
        Effect::Discard { generation } => format!("discard {}", numbered(*generation)),
    }
}

fn shown_state(lifecycle: &Lifecycle) -> String {
    let mut text = serde_json::to_string(&lifecycle.client_status())
        .unwrap()
        .replace('"', "");
    let sandboxes: Vec<String> = lifecycle.generations().into_iter().map(numbered).collect();
    if !sandboxes.is_empty() {
        write!(text, " [{}]", sandboxes.join(", ")).unwrap();
    }
    if let Some(snapshot) = lifecycle.snapshot() {
        write!(text, " holding {snapshot}").unwrap();
    }
    if let Some(deadline) = lifecycle.deadline() {
        write!(text, " until {}", deadline.as_second()).unwrap();
    }
    text
}

#[test]
fn every_state_by_every_event() {
    let mut table = String::new();
    for (name, state) in states() {
        writeln!(table, "{name}: {}", shown_state(&state)).unwrap();
        for (event_name, event) in events() {
            let answer = match state.clone().apply(event) {
                Err(refused) => format!("refused: {}", refused.code()),
                Ok((next, effects)) => {
                    let effects: Vec<String> = effects.iter().map(shown_effect).collect();
                    match (next == state, effects.is_empty()) {
                        (true, true) => "·".to_owned(),
                        (true, false) => effects.join(", "),
                        (false, true) => shown_state(&next),
                        (false, false) => {
                            format!("{} | {}", shown_state(&next), effects.join(", "))
                        }
                    }
                }
            };
            writeln!(table, "    {event_name:<28} {answer}").unwrap();
        }
    }
    insta::assert_snapshot!(short(&table));
}

#[test]
fn the_agent_of_every_state_by_what_there_is_to_do() {
    let queued = Work {
        is_queued: true,
        ..Work::default()
    };
    let under_way = Work {
        is_under_way: true,
        ..queued
    };
    let asked = Work {
        is_asked: true,
        ..under_way
    };
    let mut table = String::new();
    for (name, state) in states() {
        write!(table, "{name:<31}").unwrap();
        for work in [Work::default(), queued, under_way, asked] {
            let agent = state.agent_state(work);
            let word = agent.map_or("–".to_owned(), |it| serde_json::to_string(&it).unwrap());
            write!(table, " {:<8}", word.replace('"', "")).unwrap();
        }
        table.truncate(table.trim_end().len());
        table.push('\n');
    }
    insta::assert_snapshot!(table, @"
    new                             sleeping queued   queued   queued
    booting                         waking   waking   waking   waking
    boot failed                     sleeping queued   queued   queued
    running                         idle     queued   busy     waiting
    running, snapshot taken         idle     queued   busy     waiting
    pausing                         idle     queued   busy     waiting
    suspending                      idle     queued   busy     waiting
    capturing                       waking   waking   busy     waiting
    moving                          waking   waking   busy     waiting
    paused in place                 sleeping queued   queued   queued
    paused in place, going to disk  sleeping queued   queued   queued
    paused on disk                  sleeping queued   queued   queued
    waking                          waking   waking   waking   waking
    starting from its disk          waking   waking   waking   waking
    degraded                        sleeping queued   queued   queued
    suspended                       sleeping queued   queued   queued
    suspended in place              sleeping queued   queued   queued
    stopping                        –        –        –        –
    ");
}
