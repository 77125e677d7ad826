//! The answer to one prompt, as it comes: what to print of each frame, and how it ended.

use std::collections::{HashMap, HashSet};

use client::{Body, Frame, HeldMessage, HeldPart, Transcript};
use serde_json::Value;
use wire::v1::{ClientStatus, Event, PromptStatus};

use super::phases::Phases;
use super::shortened;

/// Of what a tool is called with.
const LONGEST_CALL: usize = 100;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Of the answer itself.
    Text(String),
    /// Beside it, a line.
    Aside(String),
    /// What is waited for, while nothing is said yet.
    Waiting(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    Well,
    Cancelled,
    Failed(String),
    /// The session does not run, and the prompt waits.
    NotRunning(String),
}

#[derive(Debug)]
pub(super) struct Answer {
    prompt: String,
    transcript: Transcript,
    /// How much of each text was printed.
    printed: HashMap<String, usize>,
    /// Parts that had their line.
    told: HashSet<String>,
    ends_a_line: bool,
    phases: Phases,
    ending: Option<Ending>,
}

impl Answer {
    pub(super) fn to(prompt: &str) -> Self {
        Self {
            prompt: prompt.to_owned(),
            transcript: Transcript::default(),
            printed: HashMap::new(),
            told: HashSet::new(),
            ends_a_line: true,
            phases: Phases::default(),
            ending: None,
        }
    }

    pub(super) fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Whether the last line of what was printed is complete.
    pub(super) fn ends_a_line(&self) -> bool {
        self.ends_a_line
    }

    pub(super) fn hear(&mut self, frame: &Frame) -> Vec<Piece> {
        self.transcript.apply(frame);
        let mut pieces = Vec::new();
        let Body::Event(event) = &frame.body else {
            // Told anew: whatever is new in it is printed.
            self.print(None, &mut pieces);
            return pieces;
        };
        match &**event {
            Event::PartDelta { message_id, .. } | Event::MessageDone { message_id, .. } => {
                self.print(Some(message_id), &mut pieces);
            }
            Event::Part(part) => self.print(Some(&part.message_id), &mut pieces),
            Event::Prompt {
                id, status, reason, ..
            } if *id == self.prompt => {
                self.prompt_is(*status, reason.as_deref());
            }
            Event::Status {
                status,
                message,
                phase,
                ..
            } => match (status, phase) {
                (ClientStatus::Error | ClientStatus::Degraded | ClientStatus::Stopped, _) => {
                    let why = message.clone();
                    let why = why.unwrap_or_else(|| format!("it is {}", super::word(*status)));
                    self.ending.get_or_insert(Ending::NotRunning(why));
                }
                (_, Some(phase)) => {
                    self.phases.hear(phase);
                    let line = self.phases.line(super::word(*status));
                    pieces.push(Piece::Waiting(line));
                }
                _ => pieces.push(Piece::Waiting(super::word(*status).to_owned())),
            },
            Event::Question(question) => {
                for item in &question.items {
                    pieces.push(Piece::Aside(format!("? the agent asks: {}", item.text)));
                }
            }
            Event::Permission(permission) => pieces.push(Piece::Aside(format!(
                "? the agent asks whether it may use {}: {}",
                permission.tool,
                shortened(&permission.targets.join(" "), LONGEST_CALL)
            ))),
            Event::ActionApprovalRequest(action) => pieces.push(Piece::Aside(format!(
                "? the agent asks for {}: {}; decide in `nacre session attach` or the browser",
                action.integration, action.action
            ))),
            Event::EnvRequest { keys, .. } => {
                let names: Vec<&str> = keys.iter().map(|wanted| wanted.key.as_str()).collect();
                pieces.push(Piece::Aside(format!(
                    "? the agent asks for {}; give it in `nacre session attach` or the browser",
                    names.join(", ")
                )));
            }
            Event::ModelSwitched {
                from, to, reason, ..
            } => pieces.push(Piece::Aside(format!(
                "· the model is {to} now, not {from}: {reason}"
            ))),
            Event::Error(error) => {
                let is_ours = error.prompt_id.as_ref().is_none_or(|id| *id == self.prompt);
                if is_ours {
                    pieces.push(Piece::Aside(format!("! {}", error.message)));
                }
            }
            _ => {}
        }
        pieces
    }

    /// What became of the prompt, if that was not told in a frame.
    pub(super) fn prompt_is(&mut self, status: PromptStatus, reason: Option<&str>) {
        if !status.is_over() || self.ending.is_some() {
            return;
        }
        let last = self.ours(None).last();
        let why = last.and_then(|message| message.error.clone());
        let why = why.or_else(|| reason.map(str::to_owned));
        let said = last.and_then(|message| message.reason.as_deref());
        let ending = match (status, said) {
            (PromptStatus::Finished, Some("canceled")) => Ending::Cancelled,
            (PromptStatus::Finished, Some("end_turn")) => Ending::Well,
            (PromptStatus::Finished, None) if reason.is_none() => Ending::Well,
            (PromptStatus::Interrupted, _) => Ending::Failed(why.unwrap_or_else(|| {
                "it was interrupted, and nobody knows how far it came".to_owned()
            })),
            _ => Ending::Failed(why.unwrap_or_else(|| "the agent did not say why".to_owned())),
        };
        self.ending = Some(ending);
    }

    fn ours(&self, only: Option<&str>) -> impl Iterator<Item = &HeldMessage> {
        let messages = self.transcript.messages().iter();
        messages.filter(move |message| {
            message.role == "assistant"
                && message.prompt_id.as_ref() == Some(&self.prompt)
                && only.is_none_or(|id| message.id == id)
        })
    }

    /// What is not printed yet of one message, or of all.
    fn print(&mut self, only: Option<&str>, pieces: &mut Vec<Piece>) {
        let parts: Vec<HeldPart> = self
            .ours(only)
            .flat_map(HeldMessage::parts)
            .filter(|part| self.has_news(part))
            .cloned()
            .collect();
        for part in parts {
            match part.kind() {
                "text" => self.print_text(&part, pieces),
                kind => {
                    if let Some(line) = aside(kind, &part.content) {
                        if !self.ends_a_line {
                            pieces.push(Piece::Text("\n".to_owned()));
                            self.ends_a_line = true;
                        }
                        pieces.push(Piece::Aside(line));
                        self.told.insert(part.part_id);
                    }
                }
            }
        }
    }

    fn has_news(&self, part: &HeldPart) -> bool {
        match part.kind() {
            "text" => {
                let printed = self.printed.get(&part.part_id).copied();
                part.text().len() > printed.unwrap_or(0)
            }
            _ => !self.told.contains(&part.part_id),
        }
    }

    fn print_text(&mut self, part: &HeldPart, pieces: &mut Vec<Piece>) {
        let is_new = !self.printed.contains_key(&part.part_id);
        let printed = self.printed.entry(part.part_id.clone()).or_insert(0);
        // A text that was changed behind what was printed cannot be taken back.
        let Some(more) = part.text().get(*printed..).filter(|more| !more.is_empty()) else {
            return;
        };
        *printed = part.text().len();
        if is_new && !self.ends_a_line {
            pieces.push(Piece::Text("\n".to_owned()));
        }
        pieces.push(Piece::Text(more.to_owned()));
        self.ends_a_line = more.ends_with('\n');
    }
}

/// A line for what is no text, once it is over.
fn aside(kind: &str, content: &Value) -> Option<String> {
    match kind {
        "tool" => tool(content),
        "error" => Some(format!("! {}", content["message"].as_str()?)),
        "image" | "screenshot" => {
            Some(format!("· an {kind}").replace("an screenshot", "a screenshot"))
        }
        _ => None,
    }
}

pub(super) fn tool(content: &Value) -> Option<String> {
    let status = content["status"].as_str()?;
    if !matches!(status, "completed" | "error") {
        return None;
    }
    let name = content["name"].as_str().unwrap_or("tool");
    let call = shortened(&called_with(&content["args"]), LONGEST_CALL);
    let line = format!("› {name} {call}");
    let line = line.trim_end();
    let exit = content["exit_code"].as_i64().filter(|code| *code != 0);
    Some(match (exit, status, content["error"].as_str()) {
        (Some(code), ..) => format!("{line} (exit {code})"),
        (None, "error", Some(error)) => format!("{line} (failed: {})", shortened(error, 80)),
        (None, "error", None) => format!("{line} (failed)"),
        _ => line.to_owned(),
    })
}

/// What of its arguments says most.
fn called_with(args: &Value) -> String {
    const TELLING: [&str; 9] = [
        "command",
        "filePath",
        "file_path",
        "path",
        "pattern",
        "url",
        "query",
        "description",
        "name",
    ];
    let telling = TELLING.iter().find_map(|key| args.get(key)?.as_str());
    match (telling, args) {
        (Some(text), _) => text.to_owned(),
        (None, Value::Object(map)) if map.is_empty() => String::new(),
        (None, Value::Null) => String::new(),
        _ => args.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hear(answer: &mut Answer, frame: &Value) -> Vec<Piece> {
        answer.hear(&Frame::read(&frame.to_string()).unwrap())
    }

    fn opened(seq: u64, prompt: &str) -> Value {
        json!({"seq": seq, "type": "message", "message_id": format!("m{seq}"), "channel": "c",
            "prompt_id": prompt})
    }

    fn text(piece: &str) -> Piece {
        Piece::Text(piece.to_owned())
    }

    #[test]
    fn text_is_printed_once_however_it_comes() {
        let mut answer = Answer::to("p");
        hear(&mut answer, &opened(1, "p"));
        let delta = json!({"type": "part.delta", "message_id": "m1", "part_id": "a", "offset": 0,
            "text": "Pea"});
        assert_eq!(hear(&mut answer, &delta), [text("Pea")]);
        assert_eq!(hear(&mut answer, &delta), []);
        let whole = json!({"seq": 2, "type": "part", "message_id": "m1", "part_id": "a",
            "content": {"kind": "text", "text": "Pearl"}});
        assert_eq!(hear(&mut answer, &whole), [text("rl")]);
        assert!(!answer.ends_a_line());
    }

    #[test]
    fn what_others_asked_is_not_printed() {
        let mut answer = Answer::to("p");
        hear(&mut answer, &opened(1, "other"));
        let whole = json!({"seq": 2, "type": "part", "message_id": "m1", "part_id": "a",
            "content": {"kind": "text", "text": "Hello"}});
        assert_eq!(hear(&mut answer, &whole), []);
    }

    #[test]
    fn a_tool_has_one_line_when_it_is_over() {
        let mut answer = Answer::to("p");
        hear(&mut answer, &opened(1, "p"));
        let call = |seq: u64, status: &str| {
            json!({"seq": seq, "type": "part", "message_id": "m1", "part_id": "t", "content":
                {"kind": "tool", "call_id": "c", "name": "bash", "status": status,
                 "args": {"command": "ls\n -la"}, "exit_code": 2}})
        };
        assert_eq!(hear(&mut answer, &call(2, "running")), []);
        let line = Piece::Aside("› bash ls -la (exit 2)".to_owned());
        assert_eq!(hear(&mut answer, &call(3, "completed")), [line]);
        assert_eq!(hear(&mut answer, &call(4, "completed")), []);
    }

    #[test]
    fn what_waits_for_a_person_says_where_they_answer() {
        let mut answer = Answer::to("p");
        let action = json!({"seq": 1, "type": "action_approval_request", "id": "a",
            "integration": "person", "action": "allow", "risk": "danger", "status": "pending",
            "created_at": "", "expires_at": ""});
        let values = json!({"seq": 2, "type": "env_request", "id": "e",
            "keys": [{"key": "API_KEY"}, {"key": "REGION"}]});
        for (frame, asks) in [
            (action, "person: allow; decide"),
            (values, "API_KEY, REGION; give it"),
        ] {
            let line =
                format!("? the agent asks for {asks} in `nacre session attach` or the browser");
            assert_eq!(hear(&mut answer, &frame), [Piece::Aside(line)]);
        }
    }

    fn ended(reason: &str, status: &str) -> Option<Ending> {
        let mut answer = Answer::to("p");
        hear(&mut answer, &opened(1, "p"));
        let done = json!({"seq": 2, "type": "message.done", "message_id": "m1", "reason": reason,
            "error": (reason == "error").then_some("no key")});
        hear(&mut answer, &done);
        let prompt = json!({"seq": 3, "type": "prompt", "id": "p", "status": status});
        hear(&mut answer, &prompt);
        answer.ending().cloned()
    }

    #[test]
    fn a_turn_ends_well_or_says_why_not() {
        assert_eq!(ended("end_turn", "accepted"), None);
        assert_eq!(ended("end_turn", "finished"), Some(Ending::Well));
        assert_eq!(ended("canceled", "finished"), Some(Ending::Cancelled));
        let failed = Some(Ending::Failed("no key".to_owned()));
        assert_eq!(ended("error", "finished"), failed);
        assert_eq!(ended("error", "failed"), failed);
    }

    #[test]
    fn a_session_that_does_not_start_is_not_waited_for() {
        let mut answer = Answer::to("p");
        let broken = json!({"seq": 1, "type": "status", "status": "error", "message": "no disk"});
        hear(&mut answer, &broken);
        let ending = Ending::NotRunning("no disk".to_owned());
        assert_eq!(answer.ending(), Some(&ending));
    }
}
