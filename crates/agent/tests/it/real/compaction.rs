//! Conversations that outgrow their model.

use agent::event::{Happening, Reason};
use agent::failure::FailureKind;

use super::office::{self, Office, Wants, reason_of, text_of};

/// As a model's provider says it.
fn too_long(times: &str) -> String {
    format!(
        "go on\n!!{{\"error\": 400, \"message\": \"prompt is too long: 210000 tokens > 200000 maximum\"{times}}}\n\
         !!{{\"text\": \"answered all the same\"}}"
    )
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_summed_up_and_the_prompt_answered() {
    let mut office = office!(Wants::default());
    office.ask(r#"!!{"text": "a first answer"}"#).await;
    let events = office.ask(&too_long(", \"times\": 1")).await;
    assert_eq!(reason_of(&events), Reason::EndTurn);
    assert_eq!(text_of(&events), "answered all the same");
    let asked = office.model.shown();
    let [_, refused, summary, answered] = &asked[..] else {
        panic!("{asked:#?}");
    };
    let said = |request: &serde_json::Value| request["body"]["messages"].to_string();
    assert!(said(refused).contains("go on"));
    assert!(said(summary).contains("conversation so far"), "{summary:#}");
    assert!(said(answered).contains("go on"));
    office.close().await;
}

#[tokio::test]
async fn what_stays_too_long_is_summed_up_once() {
    let mut office = office!(Wants::default());
    office.ask(r#"!!{"text": "a first answer"}"#).await;
    let events = office.ask(&too_long("")).await;
    assert_eq!(reason_of(&events), Reason::Error);
    let error = events.iter().find_map(|event| match &event.happening {
        Happening::TurnDone { error, .. } => error.clone(),
        _ => None,
    });
    let tried = error.unwrap().tried;
    assert_eq!(tried[0].failure.kind, FailureKind::ContextLength);
    assert!(office.model.count() <= 5, "{}", office.model.count());
    office.close().await;
}

#[tokio::test]
async fn a_model_with_more_room_is_asked_before_anything_is_summed_up() {
    super::fails_over_from("bad-long").await;
}

#[tokio::test]
async fn a_model_for_which_even_the_summary_is_too_long_ends_the_turn() {
    let mut office = office!(Wants::default());
    office.start_with(&["llm/bad-long"], "hello").await;
    let events = office.until_done().await;
    assert_eq!(reason_of(&events), Reason::Error);
    assert!(office.model.count() <= 4, "{}", office.model.count());
    office.close().await;
}
