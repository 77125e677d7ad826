//! Actions that wait for a person, and values that the agent asks for.

use std::collections::BTreeMap;

use crossterm::event::{Event, KeyCode};
use nacre_attach::Deed;
use serde_json::{Value, json};
use wire::v1::EnvValues;

use crate::Seat;

fn action(id: &str, params: &Value) -> Value {
    json!({"type": "action_approval_request", "id": id, "integration": "linear",
        "action": "create_issue", "params": params, "risk": "write", "status": "pending",
        "created_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T00:05:00Z"})
}

fn decided(id: &str, approve: bool, why: Option<&str>) -> Deed {
    Deed::Action {
        id: id.to_owned(),
        approve,
        why: why.map(str::to_owned),
    }
}

fn given(values: &[(&str, &str)], persist: &[&str]) -> Deed {
    let values = values.iter();
    let values = values.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Deed::Env(EnvValues {
        id: Some("e".to_owned()),
        values: values.collect::<BTreeMap<_, _>>(),
        persist: persist.iter().map(|name| (*name).to_owned()).collect(),
    })
}

fn request() -> Value {
    json!({"type": "env_request", "id": "e", "keys": [
        {"key": "API_KEY", "description": "Of the shop", "secret": true, "required": true},
        {"key": "REGION", "suggestions": [{"label": "Frankfurt", "value": "eu-1"}]}]})
}

#[test]
fn an_action_is_approved_in_place() {
    let mut seat = Seat::new();
    seat.asked("p1", "file it");
    let params = json!({"title": "a pearl is\u{1b}[2J lost", "labels": ["bug"]});
    seat.log(action("a", &params));
    insta::assert_snapshot!(seat.shown());
    assert_eq!(
        seat.press(KeyCode::Char('y')),
        Some(decided("a", true, None))
    );
    assert_eq!(seat.press(KeyCode::Char('y')), None);
    seat.log(json!({"type": "action_approval_result", "id": "a", "status": "completed"}));
    let shown = seat.shown();
    assert!(shown.contains("linear: create issue is done"), "{shown}");
}

#[test]
fn an_action_is_refused_with_a_reason() {
    let mut seat = Seat::new();
    seat.log(action("a", &json!({"title": "pearls"})));
    seat.press(KeyCode::Down);
    assert_eq!(seat.press(KeyCode::Enter), None);
    seat.write("not yet, 1 thing");
    insta::assert_snapshot!(seat.shown());
    let refused = Some(decided("a", false, Some("not yet, 1 thing")));
    assert_eq!(seat.press(KeyCode::Enter), refused);
}

#[test]
fn an_enter_that_was_meant_for_a_prompt_approves_nothing() {
    let mut seat = Seat::new();
    seat.write("wh");
    seat.log(action("a", &json!({})));
    assert_eq!(seat.press(KeyCode::Char('y')), None);
    assert_eq!(seat.press(KeyCode::Enter), None);
    assert!(seat.shown().contains("> why"), "{}", seat.shown());
    seat.control('u');
    assert_eq!(seat.press(KeyCode::Enter), Some(decided("a", false, None)));
    // Nor does it permit anything.
    seat.write("go on");
    seat.log(json!({"type": "permission", "id": "m", "channel": "main", "tool": "bash"}));
    assert_eq!(seat.press(KeyCode::Enter), None);
}

#[test]
fn an_action_that_somebody_else_decides_is_not_asked_any_more() {
    let mut seat = Seat::new();
    seat.log(action("a", &json!({})));
    assert!(seat.shown().contains("The agent asks for linear"));
    seat.log(
        json!({"type": "action_approval_result", "id": "a", "status": "denied",
        "message": "no"}),
    );
    let shown = seat.shown();
    assert!(!shown.contains("The agent asks for linear"), "{shown}");
    assert!(
        shown.contains("linear: create issue is refused: no"),
        "{shown}"
    );
}

#[test]
fn an_answer_that_does_not_arrive_is_asked_for_again() {
    let mut seat = Seat::new();
    seat.log(action("a", &json!({})));
    seat.press(KeyCode::Char('y'));
    assert!(!seat.shown().contains("The agent asks"));
    seat.screen.not_answered("a", false);
    assert_eq!(
        seat.press(KeyCode::Char('n')),
        Some(decided("a", false, None))
    );
    seat.screen.not_answered("a", true);
    assert!(!seat.shown().contains("The agent asks"));
}

#[test]
fn what_there_is_to_choose_is_shown_below_a_long_action() {
    let mut seat = Seat::new();
    let long: Vec<String> = (1..=40).map(|line| format!("line {line}")).collect();
    seat.log(action("a", &json!({"body": long.join("\n")})));
    let shown = seat.shown();
    assert!(shown.contains("more lines"), "{shown}");
    assert!(shown.contains("3 refuse, and say why"), "{shown}");
}

#[test]
fn values_are_typed_unseen_and_given_together() {
    let mut seat = Seat::new();
    seat.log(request());
    seat.write("1 pearl");
    insta::assert_snapshot!(seat.shown());
    assert_eq!(seat.press(KeyCode::Enter), None);
    // The second has something to choose from.
    assert!(seat.shown().contains("Frankfurt"), "{}", seat.shown());
    assert_eq!(seat.press(KeyCode::Enter), None);
    insta::assert_snapshot!("values_are_given", seat.shown());
    assert!(!format!("{:?}", seat.screen).contains("pearl\""));
    let deed = seat.press(KeyCode::Enter);
    assert!(!format!("{deed:?}").contains("1 pearl"));
    let values = [("API_KEY", "1 pearl"), ("REGION", "eu-1")];
    assert_eq!(deed, Some(given(&values, &["API_KEY", "REGION"])));
    assert!(!seat.shown().contains("Give API_KEY"));
    // It did not arrive: nothing is typed again.
    seat.screen.not_answered("e", false);
    seat.press(KeyCode::Up);
    assert_eq!(seat.press(KeyCode::Enter), Some(given(&values, &[])));
    // Nor does a value come back as something that was asked.
    seat.log(json!({"type": "env_answered", "id": "e"}));
    seat.press(KeyCode::Up);
    assert!(!seat.shown().contains("pearl\n"), "{}", seat.shown());
    assert!(!format!("{:?}", seat.screen).contains("1 pearl"));
}

#[test]
fn a_value_is_no_prompt_when_somebody_else_gives_it() {
    let mut seat = Seat::new();
    seat.write("my draft");
    seat.log(request());
    seat.screen.typed(&Event::Paste("hunter2".to_owned()));
    assert!(!seat.shown().contains("hunter2"), "{}", seat.shown());
    seat.log(json!({"type": "env_answered", "id": "e"}));
    let shown = seat.shown();
    assert!(shown.contains("> my draft"), "{shown}");
    let prompt = Some(Deed::Prompt("my draft".to_owned()));
    assert_eq!(seat.press(KeyCode::Enter), prompt);
}

#[test]
fn a_prompt_that_was_begun_waits_until_values_are_given() {
    let mut seat = Seat::new();
    seat.write("my draft");
    seat.log(request());
    seat.write("x");
    seat.press(KeyCode::Enter);
    seat.press(KeyCode::Down);
    seat.press(KeyCode::Enter);
    seat.write("zz");
    assert!(seat.shown().contains("Give API_KEY to the sandbox?"));
    seat.write("1");
    assert_eq!(
        seat.press(KeyCode::Enter),
        Some(given(&[("API_KEY", "x")], &[]))
    );
    assert!(seat.shown().contains("> my draft"), "{}", seat.shown());
}

#[test]
fn a_value_that_is_typed_is_not_interrupted_by_a_question() {
    let mut seat = Seat::new();
    seat.log(request());
    seat.write("hun");
    seat.log(
        json!({"type": "question", "question_id": "q", "channel": "main", "items": [
        {"text": "Which one?", "free_text": true}]}),
    );
    seat.write("ter2");
    let shown = seat.shown();
    assert!(shown.contains("> •••••••\n"), "{shown}");
}

#[test]
fn a_value_that_is_needed_is_not_left_out_but_can_wait() {
    let mut seat = Seat::new();
    seat.log(request());
    assert_eq!(seat.press(KeyCode::Enter), None);
    assert!(seat.shown().contains("type the value, then Enter"));
    assert_eq!(seat.press(KeyCode::Esc), None);
    assert!(!seat.shown().contains("API_KEY"), "{}", seat.shown());
    seat.write("later");
    let prompt = Some(Deed::Prompt("later".to_owned()));
    assert_eq!(seat.press(KeyCode::Enter), prompt);
}
