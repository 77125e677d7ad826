//! Records as clients see them.

use model::session::{Boot, Held, Lifecycle, Resting, State, Way, Work};
use model::{Origin, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use store::actions::{ActionRecord, Risk, Status};
use store::sessions::Record;
use wire::v1;

use crate::next;
use crate::preview::{Site, Target};

/// A session as `GET /v1/sessions/{id}` shows it.
pub fn session(record: &Record, work: Work, site: Option<&Site>) -> v1::Session {
    let state = &record.state;
    let lifecycle = state.lifecycle().ok();
    let spec: Value = serde_json::from_str(&record.spec).unwrap_or_default();
    let reason = |status| state.reason.clone().filter(|_| state.status == status);
    let runtime = runtime(record, site);
    v1::Session {
        id: record.id.to_string(),
        org_id: record.organisation.to_string(),
        created_by: record.created_by.map(|id| id.to_string()),
        title: record.title.clone(),
        status: same_word(state.status.as_str()).unwrap_or(v1::Status::Starting),
        client_status: lifecycle.as_ref().map_or(v1::ClientStatus::Error, |it| {
            client_status(it.client_status())
        }),
        agent_state: lifecycle
            .as_ref()
            .and_then(|it| it.agent_state(work))
            .and_then(|state| same_word(&word(&state))),
        r#type: same_word(record.r#type.as_str()).unwrap_or_default(),
        channel: record.channel.as_str().to_owned(),
        provider: record.provider.clone(),
        agent: "opencode".to_owned(),
        model: text(&spec, "/boot/agent/model"),
        repos: repos(&spec),
        origin: lifecycle.as_ref().map(|it| origin(it, &spec).to_owned()),
        sandbox_id: state.sandbox_id.clone(),
        generation: state.generation,
        snapshot_id: state.snapshot_id.clone(),
        prebuild_id: None,
        parent_id: record.parent.map(|id| id.to_string()),
        origin_snapshot_id: record.origin_snapshot.clone(),
        kept: lifecycle.as_ref().and_then(kept).map(str::to_owned),
        degraded: lifecycle.as_ref().and_then(degraded),
        pause_reason: reason(store::sessions::Status::Paused)
            .or_else(|| reason(store::sessions::Status::Suspended)),
        paused_at: state.paused_at.map(|at| at.to_string()),
        stop_reason: reason(store::sessions::Status::Stopped),
        ended_at: state.ended_at.map(|at| at.to_string()),
        expires_at: runtime.expires_at,
        archived_at: record.archived_at.map(|at| at.to_string()),
        preview_url: runtime.preview_url,
        ssh: runtime.ssh,
        error: lifecycle
            .as_ref()
            .and_then(|it| Some(it.fault()?.message.clone())),
        created_at: record.created_at.to_string(),
        last_active_at: record.last_active_at.to_string(),
        last_seq: record.last_seq,
        phases: Vec::new(),
        faults: Vec::new(),
        next: lifecycle
            .as_ref()
            .map(|it| next::step(record.id, it, state.generation)),
        usage: None,
    }
}

/// Where a live session is reached.
pub fn runtime(record: &Record, site: Option<&Site>) -> v1::Runtime {
    v1::Runtime {
        preview_url: site
            .filter(|_| record.state.status != store::sessions::Status::Stopped)
            .map(|site| site.url(Target::Exposed, record.id)),
        expires_at: record.state.expires_at.map(|at| at.to_string()),
        ssh: record
            .state
            .sandbox_id
            .as_ref()
            .map(|_| format!("nacre session ssh {}", record.id)),
    }
}

/// What its sandbox was started from, or would be.
fn origin(lifecycle: &Lifecycle, spec: &Value) -> &'static str {
    if let State::Starting(starting) = &lifecycle.state
        && let Boot::UnderWay {
            way: Way::New { origin },
            ..
        } = &starting.boot
    {
        return match origin {
            Origin::Session(_) => "session",
            Origin::Prebuild(_) | Origin::DefaultPrebuild(_) => "prebuild",
            Origin::Repo(_) => "repo",
            Origin::Base(_) => "base",
            Origin::Bare => "bare",
        };
    }
    if lifecycle.snapshot().is_some() {
        "session"
    } else if spec["base"].is_string() {
        "base"
    } else {
        "bare"
    }
}

/// A message as `GET /v1/sessions/{id}/messages` shows it.
pub fn message(message: store::transcript::Message) -> v1::Message {
    let done = message.done;
    v1::Message {
        id: message.id,
        position: message.position,
        role: message.role.as_str().to_owned(),
        channel: message.channel,
        prompt_id: message.prompt_id,
        author: message.author,
        created_at: message.created_at.to_string(),
        done_at: done.as_ref().map(|done| done.at.to_string()),
        reason: done.as_ref().map(|done| done.reason.clone()),
        error: done.as_ref().and_then(|done| done.error.clone()),
        usage: done.and_then(|done| done.usage),
        reverted: message.reverted_seq.is_some(),
        inherited: message.inherited,
        parts: message
            .parts
            .into_iter()
            .map(|part| v1::MessagePart {
                part_id: part.id,
                content: part.content,
            })
            .collect(),
    }
}

/// A prompt as `GET /v1/sessions/{id}/prompts/{prompt}` shows it. None if it cannot be read.
pub fn prompt(prompt: &store::prompts::Prompt) -> Option<v1::Prompt> {
    let ask: sessions::Ask = serde_json::from_str(&prompt.body).ok()?;
    Some(v1::Prompt {
        id: prompt.id.clone(),
        status: same_word(prompt.status.as_str())?,
        channel: prompt.channel.clone(),
        mode: same_word(prompt.mode.as_str())?,
        content: ask.content,
        reason: prompt.reason.clone(),
        created_at: prompt.created_at.to_string(),
        ended_at: prompt.ended_at.map(|at| at.to_string()),
        usage: None,
    })
}

/// Something that an agent asked for, as it is now.
pub fn action(action: &ActionRecord, now: Timestamp) -> v1::Action {
    let json = |text: &str| serde_json::from_str(text).unwrap_or_default();
    v1::Action {
        id: action.id.to_string(),
        integration: action.integration.clone(),
        action: action.action.clone(),
        params: json(&action.params),
        risk: risk(action.risk),
        status: match action.status {
            _ if action.is_over_time(now) => v1::ActionStatus::Expired,
            Status::Pending => v1::ActionStatus::Pending,
            Status::Approved => v1::ActionStatus::Approved,
            Status::Completed => v1::ActionStatus::Completed,
            Status::Denied => v1::ActionStatus::Denied,
            Status::Failed => v1::ActionStatus::Failed,
        },
        result: action.result.as_deref().map(json),
        message: action.message.clone(),
        decided_by: action.decided_by.clone(),
        created_at: action.created_at.to_string(),
        expires_at: action.expires_at.to_string(),
        decided_at: action.decided_at.map(|at| at.to_string()),
    }
}

pub fn risk(risk: Risk) -> v1::ActionRisk {
    match risk {
        Risk::Read => v1::ActionRisk::Read,
        Risk::Write => v1::ActionRisk::Write,
        Risk::Danger => v1::ActionRisk::Danger,
    }
}

pub fn client_status(status: model::session::ClientStatus) -> v1::ClientStatus {
    same_word(&word(&status)).unwrap_or(v1::ClientStatus::Error)
}

fn repos(spec: &Value) -> Vec<v1::NewRepo> {
    let repos = spec.pointer("/boot/repos").and_then(Value::as_array);
    let repo = |repo: &Value| v1::NewRepo {
        url: text(repo, "/url"),
        branch: text(repo, "/branch"),
        r#ref: text(repo, "/ref"),
        bundle: None,
        path: text(repo, "/path"),
    };
    repos
        .map(|repos| repos.iter().map(repo).collect())
        .unwrap_or_default()
}

fn text(value: &Value, at: &str) -> Option<String> {
    value.pointer(at)?.as_str().map(str::to_owned)
}

fn resting(lifecycle: &Lifecycle) -> Option<&Resting> {
    match &lifecycle.state {
        State::Paused(paused) => Some(&paused.resting),
        State::Suspended(suspended) => Some(&suspended.resting),
        _ => None,
    }
}

fn kept(lifecycle: &Lifecycle) -> Option<&'static str> {
    match resting(lifecycle)?.held {
        Held::InPlace { .. } => Some("memory"),
        Held::Stored { .. } => Some("disk"),
        Held::Nothing => None,
    }
}

fn degraded(lifecycle: &Lifecycle) -> Option<v1::Degraded> {
    let degraded = resting(lifecycle)?.degraded.as_ref()?;
    let field = serde_json::to_value(degraded).ok()?;
    Some(v1::Degraded {
        kept: field["kept"].as_str().map(str::to_owned),
        lost: field["lost"].as_str().unwrap_or_default().to_owned(),
        since: field["since"].as_str().unwrap_or_default().to_owned(),
    })
}

/// Both sides of the wire have the same words.
fn same_word<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(Value::String(word.to_owned())).ok()
}

pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}
