use client::{Client, FollowOptions, Frame, Update};
use wire::link::Outcome;
use wire::v1::Event;

use super::answer::tool;
use super::{find, of_session, shortened, took, word};
use crate::app::App;
use crate::commands::remote;
use crate::error::CommandError;

const LONGEST: usize = 160;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session logs ID
  nacre session logs ID --since 120 --follow
  nacre session logs ID --json | jq -c 'select(.type == \"error\")'

A session is not woken by it.")]
pub(crate) struct Arguments {
    /// The session's id
    #[arg(value_name = "ID")]
    session: String,
    /// Go on, as things happen
    #[arg(long, short)]
    follow: bool,
    /// Only what came after the event of this number
    #[arg(long, value_name = "N", default_value_t = 0)]
    since: u64,
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<(), CommandError> {
    let client = remote::connect()?;
    let session = find(&client, &arguments.session).await?;
    let until = (!arguments.follow).then_some(session.last_seq);
    read(&client, &session.id, arguments.since, until, |frame| {
        if app.output.is_json() {
            return app.output.raw(format!("{}\n", frame.text()).as_bytes());
        }
        match line(frame) {
            Some(line) => app.output.piece(&format!("{line}\n")),
            None => Ok(()),
        }
    })
    .await
}

/// Every frame after one, up to another or for ever.
pub(super) async fn read(
    client: &Client,
    session: &str,
    since: u64,
    until: Option<u64>,
    mut each: impl FnMut(&Frame) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    if until.is_some_and(|until| since >= until) {
        return Ok(());
    }
    let options = FollowOptions {
        since: Some(since),
        wake: false,
        ..FollowOptions::default()
    };
    let mut follow = client.follow_with(session, options)?;
    loop {
        let frame = match follow.next().await {
            Some(Update::Frame(frame)) => frame,
            Some(Update::Refused(error)) => return Err(of_session(error)),
            // Who waits for things to happen waits for the line, too.
            Some(Update::Offline { why, .. }) if until.is_some() => return Err(why.into()),
            Some(Update::Online | Update::Offline { .. }) => continue,
            None => return Err(client::ClientError::Ended.into()),
        };
        if until.is_none() || frame.seq.is_some() {
            each(&frame)?;
        }
        if let (Some(until), Some(seq)) = (until, frame.seq)
            && seq >= until
        {
            return Ok(());
        }
    }
}

/// What a numbered frame says to a person.
pub(super) fn line(frame: &Frame) -> Option<String> {
    let seq = frame.seq?;
    let event = frame.event()?;
    let value = frame.value();
    let kind = value["type"].as_str().unwrap_or("?");
    let said = said(event).unwrap_or_else(|| {
        let mut rest = value.clone();
        if let Some(rest) = rest.as_object_mut() {
            rest.remove("seq");
            rest.remove("type");
        }
        rest.to_string()
    });
    let line = format!("{seq:>5}  {kind:<15}  {}", shortened(&said, LONGEST));
    Some(line.trim_end().to_owned())
}

fn said(event: &Event) -> Option<String> {
    Some(match event {
        Event::Status {
            status,
            message,
            phase,
            ..
        } => {
            let mut said = word(*status).to_owned();
            if let Some(phase) = phase {
                let state = serde_json::to_value(phase.state).unwrap_or_default();
                said = format!("{said}: {} {}", phase.name, state.as_str().unwrap_or(""));
                if let Some(milliseconds) = phase.took_ms {
                    said = format!("{said} in {}", took(milliseconds));
                }
                if let Some(detail) = &phase.detail {
                    said = format!("{said}; {detail}");
                }
            }
            match message {
                Some(message) => format!("{said}: {message}"),
                None => said,
            }
        }
        Event::Title { title } => title.clone(),
        Event::Message(opened) => {
            let texts = opened.parts.iter();
            let texts: Vec<_> = texts
                .filter_map(|part| part.content["text"].as_str())
                .collect();
            format!("{}  {}", opened.role, texts.join(" "))
        }
        Event::Part(part) => match part.content["kind"].as_str().unwrap_or("") {
            "tool" => match tool(&part.content) {
                Some(line) => line,
                None => format!(
                    "{} {}",
                    part.content["name"].as_str().unwrap_or("tool"),
                    part.content["status"].as_str().unwrap_or("")
                ),
            },
            kind @ ("text" | "reasoning") => {
                let text = part.content["text"].as_str().unwrap_or("");
                format!("{kind}  {text}")
            }
            _ => return None,
        },
        Event::MessageDone { reason, error, .. } => {
            let reason = serde_json::to_value(reason).unwrap_or_default();
            let reason = reason.as_str().unwrap_or("").to_owned();
            match error {
                Some(error) => format!("{reason}: {error}"),
                None => reason,
            }
        }
        Event::Prompt {
            id, status, reason, ..
        } => {
            let status = serde_json::to_value(status).unwrap_or_default();
            let said = format!("{id} {}", status.as_str().unwrap_or(""));
            match reason {
                Some(reason) => format!("{said}: {reason}"),
                None => said,
            }
        }
        Event::AgentStatus { status, detail, .. } => {
            let status = serde_json::to_value(status).unwrap_or_default();
            let detail = detail.as_deref().unwrap_or("");
            format!("{} {detail}", status.as_str().unwrap_or(""))
        }
        Event::Question(question) => {
            let items: Vec<_> = question
                .items
                .iter()
                .map(|item| item.text.as_str())
                .collect();
            items.join(" / ")
        }
        Event::Permission(permission) => {
            format!("{}: {}", permission.tool, permission.targets.join(" "))
        }
        Event::QuestionClosed { outcome, .. } | Event::PermissionClosed { outcome, .. } => {
            match outcome {
                Outcome::Answered { answers } => answers.concat().join(", "),
                Outcome::Allowed => "allowed".to_owned(),
                Outcome::Refused => "refused".to_owned(),
                Outcome::Expired => "nobody answered in time".to_owned(),
                Outcome::Gone | Outcome::Unknown => "not needed any more".to_owned(),
            }
        }
        Event::Error(error) => format!("{}: {}", error.code, error.message),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(frame: &Value) -> Option<String> {
        line(&Frame::read(&frame.to_string()).unwrap())
    }

    #[test]
    fn an_event_is_a_line() {
        let frames = [
            json!({"seq": 1, "type": "status", "status": "creating", "phase":
                {"name": "sandbox", "state": "done", "took_ms": 1234}}),
            json!({"seq": 2, "type": "prompt", "id": "p", "status": "failed", "reason": "no key"}),
            json!({"seq": 3, "type": "message", "message_id": "m", "role": "user", "channel": "c",
                "parts": [{"part_id": "a", "content": {"kind": "text", "text": "go\non"}}]}),
            json!({"seq": 4, "type": "weather", "sun": true}),
            json!({"type": "part.delta", "message_id": "m", "part_id": "a", "offset": 0, "text": "x"}),
        ];
        let lines: Vec<_> = frames.iter().filter_map(told).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        1  status           creating: sandbox done in 1.2 s
        2  prompt           p failed: no key
        3  message          user go on
        4  weather          {"sun":true}
        "#);
    }
}
