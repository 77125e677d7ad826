//! The line is cut in every way there is, and nothing is missed or told twice.

use std::time::Duration;

use nacre_client::{
    Body, Client, ClientError, Follow, FollowOptions, Frame, Pace, Transcript, Update,
};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;
use tokio::time::timeout;
use wire::v1::NewPrompt;

use crate::server::{Plan, Then, Told};
use crate::world::{Step, World, steps};

const SOON: Duration = Duration::from_secs(20);

fn follow(client: &Client, since: Option<u64>) -> Follow {
    let pace = Pace {
        ping_after: Duration::from_millis(100),
        dead_after: Duration::from_millis(300),
        waits: vec![Duration::ZERO, Duration::from_millis(2)],
    };
    let options = FollowOptions {
        since,
        pace,
        ..FollowOptions::default()
    };
    client.follow_with("ses_1", options).unwrap()
}

async fn next_frame(follow: &mut Follow) -> Frame {
    loop {
        let update = timeout(SOON, follow.next()).await.expect("a frame in time");
        match update.expect("a follow that goes on") {
            Update::Frame(frame) => return frame,
            Update::Refused(error) => panic!("{error:?}"),
            Update::Online | Update::Offline { .. } => {}
        }
    }
}

/// The numbers of frames up to one, each exactly one more than the one before.
async fn numbers(follow: &mut Follow, upto: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.last() != Some(&upto) {
        numbers.extend(next_frame(follow).await.seq);
    }
    numbers
}

#[tokio::test]
async fn a_line_that_breaks_is_taken_up_where_it_was() {
    let plans = [
        Plan::Tell(3, Then::Break(2)),
        Plan::Refuse(503),
        Plan::Tell(2, Then::Close(0)),
    ];
    let told = Told::new(World::of_titles(12), plans);
    let server = told.run().await;
    let mut follow = follow(&server.client(), Some(0));
    let all: Vec<u64> = (1..=12).collect();
    assert_eq!(numbers(&mut follow, 12).await, all);
    assert_eq!(
        *told.since.lock().unwrap(),
        [Some(0), Some(3), Some(3), Some(7)]
    );
}

#[tokio::test]
async fn a_gap_is_asked_for_again() {
    let plans = [Plan::Tell(4, Then::Break(3)), Plan::LeaveOut];
    let told = Told::new(World::of_titles(9), plans);
    let server = told.run().await;
    let mut follow = follow(&server.client(), Some(0));
    assert_eq!(numbers(&mut follow, 9).await, (1..=9).collect::<Vec<_>>());
    assert_eq!(*told.since.lock().unwrap(), [Some(0), Some(4), Some(4)]);
}

#[tokio::test]
async fn a_gap_that_stays_ends_in_beginning_anew() {
    let plans = [
        Plan::Tell(4, Then::Break(3)),
        Plan::LeaveOut,
        Plan::LeaveOut,
        Plan::LeaveOut,
    ];
    let told = Told::new(World::of_titles(9), plans);
    let server = told.run().await;
    let mut follow = follow(&server.client(), Some(0));
    let mut transcript = Transcript::default();
    while transcript.seq < 9 {
        transcript.apply(&next_frame(&mut follow).await);
    }
    assert_eq!(transcript.title.as_deref(), Some("t9"));
    assert_eq!(told.since.lock().unwrap().last(), Some(&None));
}

#[tokio::test]
async fn a_silent_line_is_asked_and_then_given_up() {
    let plans = [Plan::Tell(2, Then::Mute)];
    let told = Told::new(World::of_titles(4), plans);
    let server = told.run().await;
    let mut follow = follow(&server.client(), None);
    while next_frame(&mut follow).await.seq != Some(4) {}
    let heard = told.heard.lock().unwrap();
    assert!(heard.iter().any(|command| command["type"] == "ping"));
}

#[tokio::test]
async fn an_idle_line_is_pinged_and_stays() {
    let told = Told::new(World::of_titles(1), []);
    let server = told.run().await;
    let mut follow = follow(&server.client(), Some(0));
    numbers(&mut follow, 1).await;
    // Longer than a line may be silent.
    let silence = timeout(Duration::from_millis(700), follow.next()).await;
    assert!(silence.is_err(), "{silence:?}");
    assert_eq!(told.since.lock().unwrap().len(), 1);
    assert!(told.heard.lock().unwrap().len() >= 3);
}

#[tokio::test]
async fn a_session_that_is_not_there_is_the_end() {
    let told = Told::new(World::default(), [Plan::Refuse(404)]);
    let server = told.run().await;
    let mut follow = follow(&server.client(), None);
    let update = timeout(SOON, follow.next()).await.unwrap();
    let Some(Update::Refused(error)) = update else {
        panic!("{update:?}");
    };
    assert_eq!(error.code(), Some("not_now"));
    assert!(follow.next().await.is_none());
    let late = follow.commands().pause().await;
    assert!(matches!(late, Err(ClientError::Ended)));
}

#[tokio::test]
async fn a_prompt_that_may_be_lost_is_sent_again_under_its_name() {
    let plans = [
        Plan::Tell(1, Then::BreakAtAPrompt),
        Plan::Tell(0, Then::BreakAtAPrompt),
    ];
    let told = Told::new(World::of_titles(1), plans);
    let server = told.run().await;
    let mut follow = follow(&server.client(), Some(0));
    numbers(&mut follow, 1).await;
    let prompt = NewPrompt {
        content: "go".to_owned(),
        ..NewPrompt::default()
    };
    let id = follow.commands().prompt(prompt).await.unwrap();
    let frame = next_frame(&mut follow).await;
    assert_eq!(frame.value()["id"], id);
    let heard = told.heard.lock().unwrap();
    let heard: Vec<&Value> = heard
        .iter()
        .filter(|said| said["type"] == "prompt")
        .collect();
    assert_eq!(heard.len(), 3);
    assert!(heard.iter().all(|said| said["id"] == id));
}

#[tokio::test]
async fn without_a_line_a_prompt_waits_and_a_cancel_does_not() {
    let plans = (0..40).map(|_| Plan::Refuse(503));
    let told = Told::new(World::of_titles(1), plans);
    let server = told.run().await;
    let mut follow = follow(&server.client(), Some(0));
    let commands = follow.commands();
    let late = commands.cancel(None).await;
    assert!(matches!(late, Err(ClientError::NotConnected)), "{late:?}");
    let id = commands.prompt(NewPrompt::default()).await.unwrap();
    loop {
        let frame = next_frame(&mut follow).await;
        if frame.value()["id"] == *id {
            break;
        }
    }
}

#[tokio::test]
async fn whoever_does_not_read_can_still_speak() {
    let told = Told::new(World::of_titles(2000), []);
    let server = told.run().await;
    let mut follow = follow(&server.client(), Some(0));
    let commands = follow.commands();
    let prompt = commands.prompt(NewPrompt::default());
    timeout(SOON, prompt).await.expect("an answer").unwrap();
    assert_eq!(numbers(&mut follow, 2000).await.len(), 2000);
}

/// Of what is shown.
fn shown(transcript: &Transcript) -> (u64, Value) {
    let value = serde_json::to_value(transcript).unwrap();
    (transcript.seq, value["messages"].clone())
}

#[tokio::test]
async fn whatever_happens_to_the_line_the_transcript_comes_out_right() {
    for seed in 0..24u8 {
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let mut steps = steps().new_tree(&mut runner).unwrap().current();
        steps.push(Step::Title("the end".to_owned()));
        let world = World::of(&steps);
        let mut chance = fastrand::Rng::with_seed(seed.into());
        let plans: Vec<Plan> = (0..chance.usize(1..8))
            .map(|_| a_plan(&mut chance))
            .collect();
        let mut expected = Transcript::default();
        for told in &world.told {
            expected.apply(&Frame::read(&told.text).unwrap());
        }
        let told = Told::new(world, plans.clone());
        let server = told.run().await;
        let since = chance.bool().then_some(0);
        let mut follow = follow(&server.client(), since);
        let mut transcript = Transcript::default();
        let mut last = since;
        while shown(&transcript) != shown(&expected) {
            let frame = next_frame(&mut follow).await;
            if let Body::Init(init) = &frame.body {
                last = Some(init.seq);
            } else if let Some(seq) = frame.seq {
                assert_eq!(Some(seq - 1), last, "seed {seed}, {plans:?}");
                last = Some(seq);
            }
            transcript.apply(&frame);
        }
    }
}

fn a_plan(chance: &mut fastrand::Rng) -> Plan {
    let (frames, lost) = (chance.usize(0..10), chance.usize(0..6));
    match chance.usize(0..12) {
        0 => Plan::Refuse(500),
        1 => Plan::Refuse(429),
        2 => Plan::LeaveOut,
        3 => Plan::Tell(frames, Then::Mute),
        4 | 5 => Plan::Tell(frames, Then::Resync(lost)),
        6 | 7 => Plan::Tell(frames, Then::Close(lost)),
        _ => Plan::Tell(frames, Then::Break(lost)),
    }
}
