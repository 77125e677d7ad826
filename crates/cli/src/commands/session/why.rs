//! Tells the story of a session that is not well, with the next command to type.

use std::fmt::Write as _;

use client::Frame;
use serde_json::{Value, json};
use wire::link::Reason;
use wire::v1::{ClientStatus, Event, FaultInfo, Next, PromptStatus, Session};

use super::{find, logs, shortened, standing, took};
use crate::app::App;
use crate::commands::remote;
use crate::error::CommandError;

/// How far back to look for what went wrong.
const BACK: u64 = 500;
const MOST_ERRORS: usize = 5;
/// The whole of it is in the log.
const LONGEST_DETAIL: usize = 120;

pub(super) async fn run(app: &App, id: &str) -> Result<(), CommandError> {
    let client = remote::connect()?;
    let session = find(&client, id).await?;
    let progress = app.output.progress("reading the log");
    let mut errors = Vec::new();
    let since = session.last_seq.saturating_sub(BACK);
    logs::read(&client, id, since, Some(session.last_seq), |frame| {
        if is_error(frame) {
            errors.push(frame.clone());
        }
        Ok(())
    })
    .await?;
    drop(progress);
    let errors = errors.split_off(errors.len().saturating_sub(MOST_ERRORS));
    let told = json!({
        "session": session,
        "errors": errors.iter().map(Frame::value).collect::<Vec<Value>>(),
        "next": next(&session),
    });
    app.output.result(&told, || story(&session, &errors))
}

fn is_error(frame: &Frame) -> bool {
    match frame.event() {
        Some(Event::Error(_)) => true,
        Some(Event::MessageDone { reason, .. }) => *reason == Reason::Error,
        Some(Event::Prompt { status, .. }) => {
            matches!(status, PromptStatus::Failed | PromptStatus::Interrupted)
        }
        Some(Event::Status { status, .. }) => {
            matches!(status, ClientStatus::Error | ClientStatus::Degraded)
        }
        _ => false,
    }
}

fn story(session: &Session, errors: &[Frame]) -> String {
    let mut text = String::new();
    let status = standing(session);
    let _ = writeln!(
        text,
        "Session {} ({}) is {status}: {}",
        session.id,
        session.title,
        means(session)
    );
    if let Some(error) = &session.error {
        let _ = writeln!(text, "Its last start failed: {error}");
    }
    // The newest that tells more than that something failed.
    let told = session.faults.iter().find(|fault| fault.phase.is_some());
    if let Some(fault) = told.or(session.faults.first()) {
        let _ = writeln!(text, "At {}: {}", fault.at, particulars(fault));
    }
    if let Some(degraded) = &session.degraded {
        let _ = writeln!(
            text,
            "Since {} it is less than it was. Lost: {}",
            degraded.since, degraded.lost
        );
        let _ = match &degraded.kept {
            Some(kept) => writeln!(text, "Kept: the snapshot {kept}, and all that was said."),
            None => writeln!(text, "Kept: all that was said; no files."),
        };
    }
    if !session.phases.is_empty() {
        text.push_str("\nThe last start:\n");
        for phase in &session.phases {
            let time = phase.took_ms.map_or_else(|| "-".to_owned(), took);
            let detail = shortened(phase.detail.as_deref().unwrap_or(""), LONGEST_DETAIL);
            let line = format!(
                "  {:<20}  {:>12}  {:<8} {detail}",
                phase.name, time, phase.state
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    if !errors.is_empty() {
        text.push_str("\nWhat went wrong last:\n");
        for line in errors.iter().filter_map(logs::line) {
            let _ = writeln!(text, "{line}");
        }
    }
    let _ = writeln!(text, "\nNext: {}", next(session));
    text
}

/// The status in words.
fn means(session: &Session) -> String {
    let because = |reason: &Option<String>| {
        reason
            .as_ref()
            .map_or_else(String::new, |reason| format!(" ({reason})"))
    };
    match session.client_status {
        ClientStatus::Creating if session.generation == 0 => {
            "it was not started yet; the first prompt starts it".to_owned()
        }
        ClientStatus::Creating => "it is starting".to_owned(),
        ClientStatus::Resuming => "it is starting again".to_owned(),
        ClientStatus::Running => "it is well".to_owned(),
        ClientStatus::Migrating => "it is moving to another sandbox".to_owned(),
        ClientStatus::Paused => {
            format!(
                "it rests, with everything kept{}",
                because(&session.pause_reason)
            )
        }
        ClientStatus::Suspended => {
            format!(
                "it is held back until somebody acts{}",
                because(&session.pause_reason)
            )
        }
        ClientStatus::Degraded => "its sandbox died, and not everything was kept".to_owned(),
        ClientStatus::Stopped => {
            format!("it ended for good{}", because(&session.stop_reason))
        }
        ClientStatus::Error => "it could not be started".to_owned(),
        ClientStatus::Unknown => "the server is newer than this program".to_owned(),
    }
}

/// Its sandbox was made of something that is no base.
pub(super) fn lacks_agent(error: Option<&str>) -> bool {
    error.is_some_and(|error| error.contains("there is no program \"opencode\""))
}

/// The command to type, as the server says it.
fn next(session: &Session) -> String {
    match &session.next {
        Some(Next {
            command,
            why: Some(why),
        }) => format!("{command}    # {why}"),
        Some(Next { command, why: None }) => command.clone(),
        // A server that is older than this program.
        None => format!("nacre session logs {}", session.id),
    }
}

/// What a fault is, where it happened, and by what it is found in the server's log and in traces.
fn particulars(fault: &FaultInfo) -> String {
    let named = |name: &str, value: &Option<String>| {
        let value = value.as_ref()?;
        Some(format!("{name} {value}"))
    };
    let all = [
        Some(format!("fault {}", fault.code)),
        named("in phase", &fault.phase),
        named("prompt", &fault.prompt_id),
        named("request", &fault.request_id),
        named("trace", &fault.trace_id),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(change: &Value) -> Session {
        let mut session = json!({
            "id": "ses_1", "org_id": "org_1", "title": "login", "status": "paused",
            "client_status": "error", "type": "coding", "channel": "cli", "provider": "local",
            "agent": "opencode", "generation": 1, "created_at": "2026-01-01T00:00:00Z",
            "last_active_at": "2026-01-01T00:00:00Z", "last_seq": 9,
        });
        for (key, value) in change.as_object().unwrap() {
            session[key] = value.clone();
        }
        serde_json::from_value(session).unwrap()
    }

    #[test]
    fn a_failed_start_is_told_with_its_phases_and_errors() {
        let session = session(&json!({
            "error": "the clone failed",
            "faults": [{"seq": 8, "at": "2026-01-01T00:00:03Z", "code": "boot", "message": "the clone failed",
                "phase": "clone", "request_id": "req_1", "trace_id": "0af7651916cd43dd8448eb211c80319c"}],
            "next": {"command": "nacre session resume ses_1",
                "why": "tries again; `nacre doctor` looks at the machine"},
            "phases": [
                {"name": "sandbox", "started_at": "2026-01-01T00:00:00Z", "took_ms": 80, "state": "done"},
                {"name": "clone", "started_at": "2026-01-01T00:00:00Z", "took_ms": 2100, "state": "failed",
                 "detail": "no such host"},
            ],
        }));
        let error = json!({"seq": 8, "type": "error", "code": "clone", "message": "no such host"});
        let errors = [Frame::read(&error.to_string()).unwrap()];
        insta::assert_snapshot!(story(&session, &errors), @r"
        Session ses_1 (login) is error: it could not be started
        Its last start failed: the clone failed
        At 2026-01-01T00:00:03Z: fault boot, in phase clone, request req_1, trace 0af7651916cd43dd8448eb211c80319c

        The last start:
          sandbox                      80 ms  done
          clone                        2.1 s  failed   no such host

        What went wrong last:
            8  error            clone: no such host

        Next: nacre session resume ses_1    # tries again; `nacre doctor` looks at the machine
        ");
    }

    #[test]
    fn what_was_kept_and_lost_is_told() {
        let session = session(&json!({
            "client_status": "degraded",
            "next": {"command": "nacre session recover ses_1 --accept", "why": "goes on from what was kept"},
            "degraded": {"kept": "snp_1", "lost": "2 minutes of files", "since": "2026-01-01T00:00:00Z"},
        }));
        insta::assert_snapshot!(story(&session, &[]), @r"
        Session ses_1 (login) is degraded: its sandbox died, and not everything was kept
        Since 2026-01-01T00:00:00Z it is less than it was. Lost: 2 minutes of files
        Kept: the snapshot snp_1, and all that was said.

        Next: nacre session recover ses_1 --accept    # goes on from what was kept
        ");
    }

    #[test]
    fn only_what_went_wrong_is_an_error() {
        let is = |frame: &Value| is_error(&Frame::read(&frame.to_string()).unwrap());
        assert!(is(
            &json!({"seq": 1, "type": "prompt", "id": "p", "status": "interrupted"})
        ));
        assert!(!is(
            &json!({"seq": 1, "type": "prompt", "id": "p", "status": "finished"})
        ));
        assert!(is(&json!({"seq": 1, "type": "status", "status": "error"})));
    }
}
