use model::ManualClock;
use serde_json::{Value, json};

use super::*;
use crate::agent::Failed;
use crate::event::{self, DecidedBy, Image, NewSession, Outcome, PermissionId, QuestionId};
use crate::opencode::wire::Event;
use crate::prompt::Attachment;

/// A conversation whose prompt is in the state in which most tests begin.
struct Talk {
    conversation: Conversation,
    now: Instant,
}

impl Talk {
    fn new(policy: PermissionPolicy) -> Talk {
        let clock = ManualClock::starting_at("2026-11-15T18:17:00Z".parse().unwrap());
        Talk {
            conversation: Conversation::new(ChannelKey::web(), Arc::new(clock), policy),
            now: Instant::now(),
        }
    }

    /// Taken by the agent, with these models to ask.
    fn running(models: &[&str]) -> Talk {
        let mut talk = Talk::new(PermissionPolicy::Ask);
        talk.start(models);
        talk.prepared();
        talk.act(|conversation, now, out| conversation.sent(1, Ok(()), now, out));
        talk
    }

    fn start(&mut self, models: &[&str]) -> Out {
        let mut prompt = Prompt::text("p", ChannelKey::web(), "hello");
        prompt.models = models.iter().map(|model| model.parse().unwrap()).collect();
        self.act(|conversation, now, out| conversation.start(prompt, now, out))
    }

    fn prepared(&mut self) -> Out {
        let prepared = Prepared {
            session: "ses_1".to_owned(),
            new: None,
            heard: Vec::new(),
        };
        let serial = self.conversation.serial;
        self.act(|conversation, now, out| conversation.prepared(serial, Ok(prepared), now, out))
    }

    fn act(&mut self, act: impl FnOnce(&mut Conversation, Instant, &mut Out)) -> Out {
        let mut out = Out::default();
        act(&mut self.conversation, self.now, &mut out);
        out
    }

    fn event(&mut self, kind: &str, properties: &Value) -> Out {
        let frame = json!({ "type": kind, "properties": properties }).to_string();
        let event = wire::event(&frame).unwrap();
        assert_ne!(event, Event::Other, "{frame}");
        self.act(|conversation, now, out| conversation.event(event, now, out))
    }

    fn wait(&mut self, seconds: u64) -> Out {
        self.now += Duration::from_secs(seconds);
        self.act(Conversation::tick)
    }

    /// Waits, and finds nothing new whenever it looks.
    fn wait_in_vain(&mut self, seconds: u64) -> Out {
        let end = self.now + Duration::from_secs(seconds);
        let mut all = Out::default();
        while let Some(next) = self.conversation.deadline().filter(|next| *next <= end) {
            self.now = next;
            let mut out = self.act(Conversation::tick);
            if out
                .calls
                .iter()
                .any(|call| matches!(call, Call::Look { .. }))
            {
                out.calls.clear();
                let busy = look(wire::Status::Busy, json!([]));
                self.looked(busy);
            }
            all.calls.append(&mut out.calls);
            all.happenings.append(&mut out.happenings);
        }
        self.now = end;
        all
    }

    fn looked(&mut self, look: Look) -> Out {
        let serial = self.conversation.serial;
        self.act(|conversation, now, out| conversation.looked(serial, Ok(look), now, out))
    }

    fn answer_begins(&mut self) {
        self.event("message.updated", &json!({ "info": message(json!({})) }));
        self.part(&json!({ "type": "step-start" }));
    }

    fn part(&mut self, body: &Value) -> Out {
        let mut part = json!({ "id": "prt_1", "messageID": ANSWER, "sessionID": "ses_1" });
        part.as_object_mut()
            .unwrap()
            .extend(body.as_object().unwrap().clone());
        self.event("message.part.updated", &json!({ "part": part }))
    }

    fn tool(&mut self, status: &str) -> Out {
        self.part(&json!({
            "type": "tool", "callID": "c", "tool": "bash", "state": { "status": status },
        }))
    }

    fn status(&mut self, status: &Value) -> Out {
        self.event(
            "session.status",
            &json!({ "sessionID": "ses_1", "status": status }),
        )
    }
}

/// Later than any prompt of these tests.
const ANSWER: &str = "msg_ffffffffffff0000000000000001";

fn message(more: Value) -> Value {
    let mut info = json!({ "id": ANSWER, "sessionID": "ses_1", "role": "assistant" });
    if let (Some(info), Value::Object(more)) = (info.as_object_mut(), more) {
        info.extend(more);
    }
    info
}

fn look(status: wire::Status, messages: Value) -> Look {
    Look {
        begun: Instant::now(),
        status,
        messages: serde_json::from_value(messages).unwrap(),
        children: HashMap::new(),
        permissions: Vec::new(),
        questions: Vec::new(),
    }
}

/// What it calls for, in a word each.
fn calls(out: &Out) -> Vec<String> {
    let word = |call: &Call| match call {
        Call::Prepare { known, .. } => format!("prepare {known:?}"),
        Call::Send { model, .. } => {
            let model = model.as_ref().map_or("any".to_owned(), ToString::to_string);
            format!("send to {model}")
        }
        Call::Abort { .. } => "abort".to_owned(),
        Call::Look { .. } => "look".to_owned(),
        Call::Changes { .. } => "changes".to_owned(),
        Call::ReplyPermission { reply, .. } => format!("permission {reply}"),
        Call::ReplyQuestion { .. } => "answer".to_owned(),
        Call::RejectQuestion { .. } => "reject".to_owned(),
    };
    out.calls.iter().map(word).collect()
}

fn done(out: &Out) -> Option<(Reason, Option<String>)> {
    out.happenings.iter().find_map(|happening| match happening {
        Happening::TurnDone { reason, error, .. } => {
            Some((*reason, error.as_ref().map(|error| error.message.clone())))
        }
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn a_model_that_does_not_begin_within_90_s_is_given_up_for_the_next() {
    let mut talk = Talk::running(&["a/one", "a/two"]);
    let sent = talk.conversation.running.as_ref().unwrap().mark.clone();
    assert!(talk.wait_in_vain(89).calls.is_empty());
    assert_eq!(calls(&talk.wait(1)), ["abort"]);
    let out = talk.act(|conversation, now, out| conversation.aborted(1, Ok(()), now, out));
    assert_eq!(calls(&out), ["look"]);
    let out = talk.looked(look(wire::Status::Idle, json!([])));
    assert_eq!(calls(&out), ["send to a/two"]);
    let Call::Send { sending, .. } = &out.calls[0] else {
        panic!("nothing is sent");
    };
    assert_eq!(sending.message, sent, "under the same id");
}

#[tokio::test(start_paused = true)]
async fn the_last_model_that_does_not_begin_ends_the_turn() {
    let mut talk = Talk::running(&["a/one"]);
    talk.wait_in_vain(89);
    assert_eq!(calls(&talk.wait(1)), ["abort"]);
    talk.act(|conversation, now, out| conversation.aborted(1, Ok(()), now, out));
    let out = talk.looked(look(wire::Status::Idle, json!([])));
    let (reason, error) = done(&out).unwrap();
    assert_eq!(reason, Reason::Error);
    assert_eq!(
        error.unwrap(),
        "a/one: no answer in time (no answer began within 90 s)"
    );
}

#[tokio::test(start_paused = true)]
async fn activity_gives_an_answer_300_s_more() {
    let mut talk = Talk::running(&[]);
    talk.answer_begins();
    assert!(talk.wait_in_vain(299).calls.is_empty());
    talk.part(&json!({ "type": "reasoning", "text": "" }));
    assert!(talk.wait_in_vain(299).calls.is_empty());
    assert_eq!(calls(&talk.wait(1)), ["abort"]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_may_run_in_silence_for_hours() {
    let mut talk = Talk::running(&[]);
    talk.answer_begins();
    talk.tool("running");
    assert!(talk.wait_in_vain(7200).calls.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_last_turns_idle_does_not_end_this_one() {
    let mut talk = Talk::running(&[]);
    let out = talk.event("session.idle", &json!({ "sessionID": "ses_1" }));
    assert_eq!(calls(&out), ["look"]);
    let out = talk.looked(look(wire::Status::Idle, json!([])));
    assert_eq!(done(&out), None);
    assert!(talk.conversation.is_busy());
}

#[tokio::test(start_paused = true)]
async fn an_earlier_turns_messages_are_not_this_ones() {
    let mut talk = Talk::running(&[]);
    let early = "msg_000000000000aaaaaaaaaaaaaaaa";
    let info = json!({ "id": early, "sessionID": "ses_1", "role": "assistant" });
    talk.event("message.updated", &json!({ "info": info }));
    let part = json!({
        "id": "prt_9", "messageID": early, "sessionID": "ses_1",
        "type": "text", "text": "late", "time": { "end": 1 },
    });
    let out = talk.event("message.part.updated", &json!({ "part": part }));
    assert!(out.happenings.is_empty(), "{:?}", out.happenings);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_is_canceled_at_once_never_reaches_the_agent() {
    let mut talk = Talk::new(PermissionPolicy::Allow);
    talk.start(&[]);
    let out = talk.act(Conversation::cancel);
    assert_eq!(done(&out).unwrap().0, Reason::Canceled);
    assert!(talk.prepared().calls.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_was_prepared_for_a_canceled_prompt_is_not_the_session_of_the_next() {
    let mut talk = Talk::new(PermissionPolicy::Allow);
    talk.start(&[]);
    talk.act(Conversation::cancel);
    talk.start(&[]);
    talk.prepared();
    let late = Prepared {
        session: "ses_of_the_first".to_owned(),
        new: Some(NewSession::First),
        heard: Vec::new(),
    };
    let out = talk.act(|conversation, now, out| conversation.prepared(1, Ok(late), now, out));
    assert!(out.happenings.is_empty() && out.calls.is_empty());
    assert!(talk.conversation.owns("ses_1"));
    assert!(!talk.conversation.owns("ses_of_the_first"));
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_is_canceled_on_its_way_is_aborted_when_it_arrived() {
    let mut talk = Talk::new(PermissionPolicy::Allow);
    talk.start(&[]);
    talk.prepared();
    let out = talk.act(Conversation::cancel);
    assert!(out.calls.is_empty() && done(&out).is_none());
    let out = talk.act(|conversation, now, out| conversation.sent(1, Ok(()), now, out));
    assert_eq!(calls(&out), ["abort"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_gone_is_made_anew_once() {
    let mut talk = Talk::new(PermissionPolicy::Allow);
    let gone = || {
        Err(HttpError {
            operation: "send a prompt",
            status: 404,
            message: "no such session".to_owned(),
        })
    };
    talk.start(&[]);
    talk.prepared();
    let out = talk.act(|conversation, now, out| conversation.sent(1, gone(), now, out));
    assert_eq!(calls(&out), [r#"prepare Some("ses_1")"#]);
    assert_eq!(calls(&talk.prepared()), ["send to any"]);
    let out = talk.act(|conversation, now, out| conversation.sent(1, gone(), now, out));
    assert_eq!(done(&out).unwrap().0, Reason::Error);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_may_have_arrived_is_sent_again_under_the_same_id() {
    let mut talk = Talk::new(PermissionPolicy::Allow);
    let lost = || {
        Err(HttpError {
            operation: "send a prompt",
            status: 0,
            message: "connection reset".to_owned(),
        })
    };
    talk.start(&[]);
    talk.prepared();
    let mark = talk.conversation.running.as_ref().unwrap().mark.clone();
    for _ in 0..2 {
        let out = talk.act(|conversation, now, out| conversation.sent(1, lost(), now, out));
        let [Call::Send { sending, .. }] = &out.calls[..] else {
            panic!("it is not sent again: {:?}", out.calls);
        };
        assert_eq!(sending.message, mark);
    }
    let out = talk.act(|conversation, now, out| conversation.sent(1, lost(), now, out));
    assert_eq!(done(&out).unwrap().0, Reason::Error);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_was_not_sent_outlives_the_process() {
    let mut talk = Talk::new(PermissionPolicy::Allow);
    talk.start(&[]);
    let out = talk.act(|conversation, now, out| conversation.process_ended("killed", now, out));
    assert_eq!(done(&out), None);
    let out = talk.act(|conversation, now, out| conversation.process_given_up("five", now, out));
    assert_eq!(done(&out).unwrap().0, Reason::Error);
}

#[tokio::test(start_paused = true)]
async fn the_fifth_retry_of_the_only_model_is_the_end() {
    let mut talk = Talk::running(&["a/one"]);
    for attempt in 1..=4 {
        let out = talk.status(&json!({ "type": "retry", "attempt": attempt, "message": "429" }));
        assert!(out.calls.is_empty());
    }
    let out = talk.status(&json!({ "type": "retry", "attempt": 5, "message": "429" }));
    assert_eq!(calls(&out), ["abort"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_retry_is_enough_when_another_model_waits() {
    let mut talk = Talk::running(&["a/one", "a/two"]);
    let retry = json!({ "type": "retry", "attempt": 1, "message": "429" });
    assert_eq!(calls(&talk.status(&retry)), ["abort"]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_a_tool_has_run_is_the_agents_own_matter() {
    let mut talk = Talk::running(&["a/one", "a/two"]);
    talk.answer_begins();
    talk.tool("completed");
    let retry = json!({ "type": "retry", "attempt": 1, "message": "429" });
    assert!(talk.status(&retry).calls.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_picture_of_a_tool_is_shown_once_and_nothing_else_that_it_brought() {
    let mut talk = Talk::running(&["a/one"]);
    talk.answer_begins();
    let file = |mime: &str, url: &str| json!({ "type": "file", "mime": mime, "url": url });
    let too_large = format!("data:image/png;base64,{}", "A".repeat(800_001));
    let call = json!({
        "type": "tool", "callID": "c", "tool": "browser_screenshot", "state": {
            "status": "completed", "title": "The start page", "attachments": [
                file("image/png", "data:image/png;base64,YWJj"),
                file("text/plain", "data:text/plain;base64,YWJj"),
                file("image/png", "file:///etc/passwd"),
                file("image/png", &too_large),
            ],
        },
    });
    let images = |out: Out| -> Vec<Image> {
        let images = out
            .happenings
            .into_iter()
            .filter_map(|happening| match happening {
                Happening::Image { image, .. } => Some(image),
                _ => None,
            });
        images.collect()
    };
    let shown = Image {
        media_type: "image/png".to_owned(),
        data: "YWJj".to_owned(),
        description: "The start page".to_owned(),
    };
    assert_eq!(images(talk.part(&call)), [shown]);
    assert_eq!(images(talk.part(&call)), []);
    // One turn shows only so much.
    let large = format!("data:image/png;base64,{}", "A".repeat(799_000));
    let mut count = 0;
    for number in 2..10 {
        let call = json!({
            "id": format!("prt_{number}"), "type": "tool", "callID": "c", "tool": "screenshot",
            "state": { "status": "completed", "attachments": [file("image/png", &large)] },
        });
        count += images(talk.part(&call)).len();
    }
    assert_eq!(count, 5);
}

#[tokio::test(start_paused = true)]
async fn a_call_with_strange_additions_is_a_call_all_the_same() {
    for (title, attachments) in [
        (json!(5), json!(null)),
        (json!(null), json!({})),
        (json!(["x"]), json!([{ "mime": null, "url": 7 }, 3])),
    ] {
        let mut talk = Talk::running(&["a/one"]);
        talk.answer_begins();
        let out = talk.part(&json!({
            "type": "tool", "callID": "c", "tool": "bash",
            "state": { "status": "completed", "title": title, "attachments": attachments },
        }));
        let is_closed = |happening: &Happening| matches!(happening, Happening::PartWhole { content: event::Content::Tool(tool), .. } if tool.state == event::ToolState::Completed);
        assert!(out.happenings.iter().any(is_closed), "{:?}", out.happenings);
    }
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_policy_allows_is_on_record() {
    let mut talk = Talk::new(PermissionPolicy::Allow);
    talk.start(&[]);
    talk.prepared();
    let out = talk.event(
        "permission.asked",
        &json!({ "id": "per_1", "sessionID": "ses_1", "permission": "bash", "patterns": ["ls"] }),
    );
    assert_eq!(calls(&out), ["permission once"]);
    let [
        Happening::PermissionClosed {
            action,
            by,
            outcome,
            ..
        },
    ] = &out.happenings[..]
    else {
        panic!("{:?}", out.happenings);
    };
    assert_eq!(
        (action.as_str(), *by, outcome),
        ("bash", DecidedBy::Policy, &Outcome::Allowed)
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_must_fit_its_question() {
    let mut talk = Talk::running(&[]);
    talk.event(
        "question.asked",
        &json!({ "id": "que_1", "sessionID": "ses_1", "questions": [
            { "question": "Which?", "options": [{ "label": "A" }, { "label": "B" }], "custom": false },
        ]}),
    );
    let mut answer = |id: &str, item: usize, chosen: &[&str]| {
        let chosen = chosen.iter().map(|label| (*label).to_owned()).collect();
        let id = QuestionId(id.to_owned());
        let mut result = Ok(());
        let out = talk.act(|conversation, _, out| {
            result = conversation.answer_item(&id, item, chosen, out);
        });
        result.map(|()| calls(&out))
    };
    assert!(matches!(
        answer("made-up", 0, &["A"]),
        Err(Failed::NotOpen(_))
    ));
    assert!(matches!(
        answer("que_1", 1, &["A"]),
        Err(Failed::BadAnswer(_))
    ));
    assert!(matches!(
        answer("que_1", 0, &["A", "B"]),
        Err(Failed::BadAnswer(_))
    ));
    assert!(matches!(
        answer("que_1", 0, &["C"]),
        Err(Failed::BadAnswer(_))
    ));
    assert_eq!(answer("que_1", 0, &["B"]).unwrap(), ["answer"]);
}

#[tokio::test(start_paused = true)]
async fn files_are_sent_before_the_text() {
    let mut talk = Talk::new(PermissionPolicy::Allow);
    let mut prompt = Prompt::text("p", ChannelKey::web(), "look");
    prompt.attachments.push(Attachment {
        name: "a.png".to_owned(),
        media_type: "image/png".to_owned(),
        data: "QUJD".to_owned(),
    });
    talk.act(|conversation, now, out| conversation.start(prompt, now, out));
    let out = talk.prepared();
    let Call::Send { sending, .. } = &out.calls[0] else {
        panic!("nothing is sent");
    };
    assert_eq!(sending.parts[0]["url"], "data:image/png;base64,QUJD");
    assert_eq!(sending.parts[1]["text"], "[Channel: web:default]\nlook");
}

#[tokio::test(start_paused = true)]
async fn a_permission_whose_answer_was_lost_is_asked_for_again() {
    let mut talk = Talk::running(&[]);
    let asked = json!({
        "id": "per_1", "sessionID": "ses_1", "permission": "bash", "patterns": ["ls"],
    });
    talk.event("permission.asked", &asked);
    let id = PermissionId("per_1".to_owned());
    talk.act(|conversation, _, out| {
        conversation.decide(&id, Outcome::Allowed, out).unwrap();
    });
    talk.act(|conversation, now, _| conversation.look_soon(now));
    assert_eq!(calls(&talk.wait(5)), ["look"]);
    let mut still = look(wire::Status::Busy, json!([]));
    still.permissions = vec![serde_json::from_value(asked).unwrap()];
    let out = talk.looked(still);
    assert!(matches!(out.happenings[0], Happening::Permission(_)));
}
