//! The hub is away, comes back, or pretends.

use std::time::Duration;

use testkit::hub::{Cut, Manners, When};
use wire::link::{AgentStatus, Close, ErrorFrame, FromHub, FromRunner, HealthKind, PromptState};
use workplace::link::journal::{Limits, Room};
use workplace::link::{AskError, Who};

use super::world::{
    Road, World, delta, health, nothing_is_lost_or_doubled, prompt, soon, title, titles, types,
    whole_part,
};

#[tokio::test(start_paused = true)]
async fn what_was_said_while_the_hub_was_away_arrives_in_order() {
    let mut world = World::new();
    world.road(Road::Closed);
    let runner = world.start();
    for n in 0..100 {
        runner.say_title(&n.to_string()).await;
    }
    tokio::time::sleep(Duration::from_mins(5)).await;
    world.road(Road::Open);
    soon(runner.handle.drain()).await.unwrap();
    let expected: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(titles(&world.hub), expected);
    nothing_is_lost_or_doubled(&world.hub);
}

#[tokio::test(start_paused = true)]
async fn the_first_try_is_at_once_and_the_others_follow_the_plan() {
    let mut world = World::new();
    world.road(Road::Closed);
    let started = tokio::time::Instant::now();
    let _runner = world.start();
    tokio::time::sleep(Duration::from_mins(2)).await;
    let waited: Vec<f64> = world
        .dial_times()
        .iter()
        .map(|time| (*time - started).as_secs_f64().round())
        .collect();
    assert_eq!(waited, [0.0, 1.0, 3.0, 8.0, 18.0, 48.0, 78.0, 108.0]);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_refuses_for_an_hour_loses_nothing() {
    let mut world = World::new();
    world.road(Road::Refused);
    let runner = world.start();
    runner.say_title("kept").await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    world.road(Road::Open);
    soon(runner.handle.drain()).await.unwrap();
    assert_eq!(titles(&world.hub), ["kept"]);
    let health = health(&world.hub).await;
    assert_eq!(health.kind, HealthKind::UpgradeRefused);
    assert!(health.count > 100, "{}", health.count);
}

#[tokio::test(start_paused = true)]
async fn after_a_reconnect_come_hello_the_journal_open_parts_the_models_the_uses_and_the_status() {
    let mut world = World::new();
    let runner = world.start();
    runner.connected(1).await;
    let models = FromRunner::Models {
        providers: Vec::new(),
    };
    let idle = FromRunner::AgentStatus {
        status: AgentStatus::Idle,
        detail: None,
        prompt_id: None,
        channel: None,
    };
    let activity = FromRunner::Activity {
        uses: vec![wire::link::Use::Terminal],
    };
    runner.handle.say(idle.clone()).await.unwrap();
    runner.handle.say(models.clone()).await.unwrap();
    runner.handle.say(activity).await.unwrap();
    soon(runner.handle.drain()).await.unwrap();
    runner.handle.say(delta("p", 0, "open")).await.unwrap();
    world.road(Road::Closed);
    world.hub.die_and_come_back();
    runner.handle.wait_until(|state| !state.is_connected).await;
    runner.say_title("journalled").await;
    let before = world.hub.heard().len();
    world.road(Road::Open);
    soon(runner.connected(2)).await;
    soon(runner.handle.drain()).await.unwrap();
    soon(
        world
            .hub
            .wait_until(|ledger| ledger.open_text("m", "p") == Some("open")),
    )
    .await;
    let heard = world.hub.heard();
    assert_eq!(
        types(&heard[before..]),
        [
            "hello",
            "title",
            "models",
            "activity",
            "agent_status",
            "part"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_dies_in_the_middle_of_an_answer_has_its_text_whole() {
    let mut world = World::new();
    let runner = world.start();
    let mut text = String::new();
    for n in 0..200 {
        let piece = format!("{n} é ");
        runner
            .handle
            .say(delta("p", text.len(), &piece))
            .await
            .unwrap();
        text.push_str(&piece);
        if n % 50 == 25 {
            soon(runner.handle.wait_until(|state| state.is_connected)).await;
            world.hub.die_and_come_back();
        }
    }
    soon(
        world
            .hub
            .wait_until(|ledger| ledger.open_text("m", "p") == Some(&text)),
    )
    .await;
    runner.handle.say(whole_part("p", &text)).await.unwrap();
    soon(runner.handle.drain()).await.unwrap();
    world.hub.look(|ledger| {
        assert_eq!(ledger.text("m", "p"), Some(&*text));
        assert_eq!(ledger.misfits, 0);
    });
}

#[tokio::test(start_paused = true)]
async fn a_hundred_quick_drops_leave_one_connection() {
    let mut world = World::new();
    let runner = world.start();
    runner.connected(1).await;
    for n in 0..100 {
        world.hub.die_and_come_back();
        runner.say_title(&n.to_string()).await;
    }
    soon(runner.handle.drain()).await.unwrap();
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(world.hub.open(), 1);
    assert_eq!(titles(&world.hub).len(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_answers_nothing_is_left_within_two_intervals() {
    let mut world = World::new();
    let runner = world.start();
    runner.connected(1).await;
    world.hub.behave(Manners {
        is_silent: true,
        ..Manners::default()
    });
    let silent_since = tokio::time::Instant::now();
    let dialled = world.dialled();
    while world.dialled() == dialled {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let took = silent_since.elapsed().as_secs();
    assert!((58..=62).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn a_ping_goes_out_every_half_minute_and_keeps_the_link() {
    let mut world = World::new();
    let runner = world.start();
    runner.connected(1).await;
    tokio::time::sleep(Duration::from_secs(301)).await;
    let pings = types(&world.hub.heard());
    assert_eq!(pings.iter().filter(|kind| *kind == "ping").count(), 10);
    assert_eq!(world.dialled(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_thaw_is_not_taken_for_a_dead_hub() {
    let mut world = World::new();
    let runner = world.start();
    runner.connected(1).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.clock.freeze(Duration::from_hours(1));
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(world.dialled(), 1);
    assert!(runner.handle.state().is_connected);
}

#[tokio::test(start_paused = true)]
async fn after_a_thaw_a_hub_that_went_is_dialled_without_delay() {
    let mut world = World::new();
    let runner = world.start();
    runner.connected(1).await;
    world.road(Road::Closed);
    world.hub.die_and_come_back();
    tokio::time::sleep(Duration::from_mins(1)).await;
    world.road(Road::Open);
    // In the middle of a wait of half a minute.
    world.clock.freeze(Duration::from_hours(1));
    let thawed = tokio::time::Instant::now();
    runner.say_title("awake").await;
    soon(runner.connected(2)).await;
    assert!(thawed.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_full_journal_takes_no_work_says_so_and_drops_nothing() {
    let mut world = World::new();
    world.limits = Limits {
        records: 160,
        ..Limits::USUAL
    };
    let mut runner = world.start();
    runner.connected(1).await;
    world.hub.behave(Manners {
        withholds_acks: true,
        ..Manners::default()
    });
    let speaker = runner.handle.clone();
    let speaking = async {
        for n in 0..400 {
            speaker.say(title(&n.to_string())).await.unwrap();
        }
    };
    let watching = async {
        runner
            .handle
            .wait_until(|state| state.room == Room::Full)
            .await;
        let asked = runner
            .handle
            .ask_for("verify", serde_json::Value::Null, Who::default());
        assert_eq!(asked.await, Err(AskError::JournalFull));
        world.hub.say(FromHub::Prompt(prompt("refused")));
        let busy = soon(
            world
                .hub
                .wait_for(|body| matches!(body, FromRunner::Busy { .. })),
        )
        .await;
        let FromRunner::Busy {
            reason, prompt_id, ..
        } = busy.body
        else {
            panic!("{busy:?}");
        };
        assert_eq!(prompt_id, "refused");
        assert_eq!(reason.as_deref(), Some(ErrorFrame::JOURNAL_FULL));
        world.hub.behave(Manners::default());
    };
    tokio::join!(speaking, watching);
    soon(runner.handle.drain()).await.unwrap();
    let expected: Vec<String> = (0..400).map(|n| n.to_string()).collect();
    assert_eq!(titles(&world.hub), expected);
    let told = world.hub.look(|ledger| {
        ledger.bodies().any(|body| {
            matches!(body, FromRunner::RunnerHealth(health) if health.kind == HealthKind::JournalFull)
        })
    });
    assert!(told);
    // It was never seen, so it may come again, and is taken.
    world.hub.say(FromHub::Prompt(prompt("refused")));
    loop {
        if let FromHub::Prompt(prompt) = soon(runner.hears.recv()).await.unwrap() {
            assert_eq!(prompt.id, "refused");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn killed_with_unsent_frames_they_arrive_once_after_the_next_start() {
    let mut world = World::on_disk();
    world.road(Road::Closed);
    let runner = world.start();
    for n in 0..50 {
        runner.say_title(&n.to_string()).await;
    }
    runner.handle.accept("p1", "web:default").await.unwrap();
    let boot = runner.boot.clone();
    runner.kill().await;

    let second = world.start();
    world.road(Road::Open);
    second.say_title("after").await;
    soon(second.handle.drain()).await.unwrap();
    let mut expected: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    expected.push("after".to_owned());
    assert_eq!(titles(&world.hub), expected);
    world.hub.look(|ledger| {
        assert_eq!(ledger.seen(&boot), Some(51));
        assert_eq!((ledger.gaps, ledger.repeated), (0, 0));
    });
    second.kill().await;

    let third = world.start();
    soon(third.connected(1)).await;
    soon(third.handle.drain()).await.unwrap();
    assert_eq!(titles(&world.hub).len(), 51);
    assert_eq!(world.hub.look(|ledger| ledger.repeated), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cut_before_the_commit_brings_the_frame_again_and_after_it_does_not_double_it() {
    for when in [When::BeforeCommit, When::AfterCommit] {
        let mut world = World::new();
        let runner = world.start();
        runner.connected(1).await;
        for n in 0..20 {
            world.hub.behave(Manners {
                cut_after: Some(Cut { frames: 3, when }),
                ..Manners::default()
            });
            runner.say_title(&n.to_string()).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        world.hub.behave(Manners::default());
        soon(runner.handle.drain()).await.unwrap();
        let expected: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        assert_eq!(titles(&world.hub), expected, "{when:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn shutting_down_says_goodbye_and_answers_whoever_waits() {
    let mut world = World::new();
    let runner = world.start();
    runner.connected(1).await;
    world.hub.answer_with(Box::new(|_| None));
    let asking = runner
        .handle
        .ask_for("verify", serde_json::Value::Null, Who::default());
    let ending = async {
        world
            .hub
            .wait_for(|body| matches!(body, FromRunner::Request(_)))
            .await;
        runner.handle.shut_down().await;
    };
    let (answer, ()) = soon(async { tokio::join!(asking, ending) }).await;
    assert_eq!(answer, Err(AskError::ShuttingDown));
    let close = soon(
        world
            .hub
            .wait_for(|body| matches!(body, FromRunner::Close(_))),
    )
    .await;
    assert_eq!(
        close.body,
        FromRunner::Close(Close::normal(Close::SHUTTING_DOWN))
    );
    assert!(runner.handle.say(title("late")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_full_journal_does_not_keep_us_from_shutting_down_and_loses_nothing_by_it() {
    let mut world = World::on_disk();
    world.limits = Limits {
        records: 40,
        ..Limits::USUAL
    };
    world.road(Road::Closed);
    let runner = world.start();
    let speaker = runner.handle.clone();
    let mut said = Vec::new();
    // Beyond the journal's limit what is said waits in the queue.
    for n in 0..100 {
        speaker.say(title(&n.to_string())).await.unwrap();
        said.push(n.to_string());
    }
    soon(runner.handle.shut_down()).await;
    world.road(Road::Open);
    world.limits = Limits::USUAL;
    let next = world.start();
    soon(next.connected(1)).await;
    soon(next.handle.drain()).await.unwrap();
    assert_eq!(titles(&world.hub), said);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_is_asked_about_after_a_reconnect() {
    let mut world = World::new();
    let runner = world.start();
    runner.connected(1).await;
    world.hub.say(FromHub::Prompt(prompt("p1")));
    runner.handle.accept("p1", "web:default").await.unwrap();
    world.hub.die_and_come_back();
    for (id, state) in [
        ("p1", PromptState::Accepted),
        ("p2", PromptState::NeverSeen),
    ] {
        world.hub.say(FromHub::PromptState {
            prompt_id: id.to_owned(),
        });
        let told = soon(world.hub.wait_for(
            |body| matches!(body, FromRunner::PromptState { prompt_id, .. } if prompt_id == id),
        ))
        .await;
        let prompt_id = id.to_owned();
        assert_eq!(told.body, FromRunner::PromptState { prompt_id, state });
    }
}
