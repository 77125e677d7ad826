//! Recordings of the pinned release, whole and cut at every event.

use agent::opencode::Unhealthy;
use serde_json::Value;
use testkit::replay::{Cut, CutBy, Deed, Lost};

use crate::transcript::Transcript;
use crate::world::{Play, World, lines, recording};

/// Plays it whole, and compares what comes out with what is checked in.
async fn golden(name: &str, play: Play) {
    let world = World::connect(recording(name), play).await.unwrap();
    let events = world.play().await;
    Transcript::of(&events).value();
    insta::assert_snapshot!(name, lines(&events));
}

async fn transcript(name: &str, play: Play) -> Value {
    let world = World::connect(recording(name), play).await.unwrap();
    Transcript::of(&world.play().await).value()
}

/// Wherever the stream is cut, and whatever is lost of it, the transcript is the same.
async fn cut_everywhere(name: &str, play: Play) {
    let whole = transcript(name, play.clone()).await;
    for after in 1..recording(name).events() {
        for (by, lost) in [
            (CutBy::End, Lost::Events(0)),
            (CutBy::Error, Lost::Events(3)),
            (CutBy::End, Lost::AllThatCan),
        ] {
            let mut play = play.clone();
            play.cut = Some(Cut { after, by, lost });
            let cut = transcript(name, play).await;
            assert_eq!(cut, whole, "cut after event {after}, lost: {lost:?}");
        }
    }
}

macro_rules! recordings {
    ($($test:ident: $name:literal, $play:expr;)*) => {$(
        mod $test {
            use super::*;

            #[tokio::test(start_paused = true)]
            async fn gives_the_golden_events() {
                golden($name, $play).await;
            }

            #[tokio::test(start_paused = true)]
            async fn is_the_same_wherever_it_is_cut() {
                cut_everywhere($name, $play).await;
            }
        }
    )*};
}

fn canceled() -> Play {
    Play {
        canceled: true,
        ..Play::new()
    }
}

recordings! {
    a_text_turn: "01-text-turn", Play::new();
    a_tool_turn: "02-tool-turn", Play::new();
    permissions: "03-permission-asked", Play::new();
    a_permission_refused: "04-permission-rejected-stop", Play::new();
    permissions_by_rule: "05-permission-auto-by-session-rules", Play::new();
    a_question: "06-question", Play::new();
    a_question_that_expires: "07-question-rejected", Play::new();
    canceled_while_streaming: "08-abort-while-streaming", canceled();
    canceled_while_a_tool_runs: "09-abort-while-tool-runs", canceled();
    a_429_then_ok: "10-provider-429-then-ok", Play::new();
    a_401: "11-provider-401", Play::new();
    a_529_then_ok: "12-provider-529-then-ok", Play::new();
    a_dropped_stream: "13-stream-dropped", Play::new();
    a_stream_that_ends_early: "13-stream-ended-early", Play::new();
    an_error_in_the_stream: "14-stream-error-event", Play::new();
    a_402: "15-provider-402-billing", Play::new();
    canceled_during_a_retry: "16-abort-during-retry", canceled();
    an_endless_429: "17-provider-429-persistent", Play::new();
    text_that_is_dropped: "18-stream-dropped-after-partial-text", Play::new();
    a_subagent: "19-subagent", Play::new();
    two_prompts_at_once: "20-two-prompts-one-session", Play {
        foreign: |deed, place| matches!(deed, Deed::Other(_)) || place == 2,
        ..Play::new()
    };
    reverts: "21-diff-revert", Play::new();
    what_strangers_do: "22-shell-command-compaction", Play { foreign: |_, _| true, ..Play::new() };
    tools_over_mcp: "23-mcp-tools", Play::new();
    one_of_two_directories: "24-global-event-two-directories", Play {
        foreign: |_, place| place == 1,
        ..Play::new()
    };
    a_failover_after_a_revert: "26-failover-revert-reprompt", Play {
        models: vec!["fake/m-429", "fake/scripted"],
        foreign: |_, place| place == 3,
        ..Play::new()
    };
    a_failover: "25-failover-abort-reprompt", Play {
        models: vec!["fake/m-429", "fake/scripted"],
        ..Play::new()
    };
}

#[tokio::test(start_paused = true)]
async fn another_release_is_refused_plainly() {
    let old = recording("90-old-1.1.53-tool-turn");
    let Err(refused) = World::connect(old, Play::new()).await else {
        panic!("it was accepted");
    };
    assert!(matches!(refused, Unhealthy::Version { .. }));
    insta::assert_snapshot!(refused, @"this is OpenCode 1.1.53; this build of nacre knows 1.18.33, and others behave differently: install opencode-linux-x64@1.18.33");
}
