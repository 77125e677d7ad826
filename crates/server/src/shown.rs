//! Records as clients see them.

use model::session::{Boot, Degraded, Lifecycle, State, Way};
use model::{Origin, SignedDuration, Timestamp};
use sessions::{Ask, Spec};
use store::phases::Phase;
use store::prompts::{Mode, Prompt, Status as PromptStatus};
use store::sessions::{Record, Status, Type};
use store::snapshots::Snapshot;
use store::transcript::Message;
use wire::v1;

use crate::Address;
use crate::app::read_spec;
use crate::problem::{Answer, Problem};

pub(crate) fn session(record: &Record, address: &Address) -> Answer<v1::Session> {
    let lifecycle = record.state.lifecycle()?;
    let spec = read_spec(record)?;
    let id = record.id.to_string();
    let state = &record.state;
    let is_up = state.sandbox_id.is_some();
    let (pause_reason, stop_reason) = match state.status {
        Status::Stopped => (None, state.reason.clone()),
        _ => (state.reason.clone(), None),
    };
    Ok(v1::Session {
        org_id: record.organisation.to_string(),
        created_by: record.created_by.map(|user| user.to_string()),
        title: record.title.clone(),
        status: status(state.status),
        client_status: client_status(lifecycle.client_status()),
        r#type: match record.r#type {
            Type::Coding => v1::SessionType::Coding,
            Type::Setup => v1::SessionType::Setup,
            Type::Cli => v1::SessionType::Cli,
        },
        channel: record.channel.as_str().to_owned(),
        provider: record.provider.clone(),
        agent: spec
            .boot
            .agent
            .agent
            .clone()
            .unwrap_or("opencode".to_owned()),
        model: spec.boot.agent.model.clone(),
        repos: repos(&spec),
        origin: Some(origin(&lifecycle, &spec).to_owned()),
        sandbox_id: state.sandbox_id.clone(),
        generation: state.generation,
        snapshot_id: state.snapshot_id.clone(),
        prebuild_id: None,
        parent_id: record.parent.map(|parent| parent.to_string()),
        degraded: degraded(&lifecycle).map(|degraded| v1::Degraded {
            kept: degraded.kept.as_ref().map(ToString::to_string),
            lost: degraded.lost.clone(),
            since: time(degraded.since),
        }),
        pause_reason,
        paused_at: state.paused_at.map(time),
        stop_reason,
        ended_at: state.ended_at.map(time),
        expires_at: state.expires_at.map(time),
        archived_at: record.archived_at.map(time),
        preview_url: is_up.then(|| address.preview(&id, "preview")),
        ssh: is_up.then(|| format!("nacre session ssh {id}")),
        error: fault(&lifecycle),
        created_at: time(record.created_at),
        last_active_at: time(record.last_active_at),
        last_seq: record.last_seq,
        phases: Vec::new(),
        id,
    })
}

pub(crate) fn time(at: Timestamp) -> String {
    at.to_string()
}

pub(crate) fn phase(phase: &Phase) -> v1::PhaseInfo {
    let took = phase.took_ms.and_then(|took| i64::try_from(took).ok());
    let took = SignedDuration::from_millis(took.unwrap_or(0));
    v1::PhaseInfo {
        name: phase.name.clone(),
        started_at: time(phase.at.checked_sub(took).unwrap_or(phase.at)),
        took_ms: phase.took_ms,
        state: phase.state.clone(),
        detail: phase.detail.clone(),
    }
}

fn repos(spec: &Spec) -> Vec<v1::NewRepo> {
    let repos = spec.boot.repos.iter();
    repos
        .map(|repo| v1::NewRepo {
            url: (!repo.url.is_empty()).then(|| repo.url.clone()),
            branch: repo.branch.clone(),
            r#ref: repo.reference.clone(),
            bundle: repo.bundle.clone(),
            path: repo.path.clone(),
        })
        .collect()
}

/// What its sandbox was started from, or would be.
fn origin(lifecycle: &Lifecycle, spec: &Spec) -> &'static str {
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
    } else if spec.base.is_some() {
        "base"
    } else {
        "bare"
    }
}

fn degraded(lifecycle: &Lifecycle) -> Option<&Degraded> {
    match &lifecycle.state {
        State::Paused(paused) => paused.resting.degraded.as_ref(),
        State::Suspended(suspended) => suspended.resting.degraded.as_ref(),
        _ => None,
    }
}

fn fault(lifecycle: &Lifecycle) -> Option<String> {
    let fault = match &lifecycle.state {
        State::Starting(starting) => match &starting.boot {
            Boot::Failed { fault, .. } => Some(fault),
            Boot::Unasked | Boot::UnderWay { .. } => None,
        },
        State::Paused(paused) => paused.resting.fault.as_ref(),
        State::Suspended(suspended) => suspended.resting.fault.as_ref(),
        _ => None,
    };
    fault.map(|fault| fault.message.clone())
}

pub(crate) fn status(status: Status) -> v1::Status {
    match status {
        Status::Starting => v1::Status::Starting,
        Status::Running => v1::Status::Running,
        Status::Migrating => v1::Status::Migrating,
        Status::Paused => v1::Status::Paused,
        Status::Suspended => v1::Status::Suspended,
        Status::Stopped => v1::Status::Stopped,
    }
}

fn client_status(status: model::session::ClientStatus) -> v1::ClientStatus {
    use model::session::ClientStatus as C;
    match status {
        C::Creating => v1::ClientStatus::Creating,
        C::Resuming => v1::ClientStatus::Resuming,
        C::Running => v1::ClientStatus::Running,
        C::Migrating => v1::ClientStatus::Migrating,
        C::Paused => v1::ClientStatus::Paused,
        C::Suspended => v1::ClientStatus::Suspended,
        C::Degraded => v1::ClientStatus::Degraded,
        C::Stopped => v1::ClientStatus::Stopped,
        C::Error => v1::ClientStatus::Error,
    }
}

pub(crate) fn prompt(prompt: &Prompt) -> Answer<v1::Prompt> {
    let ask: Ask = serde_json::from_str(&prompt.body).map_err(Problem::internal)?;
    Ok(v1::Prompt {
        id: prompt.id.clone(),
        status: match prompt.status {
            PromptStatus::Queued => v1::PromptStatus::Queued,
            PromptStatus::Dispatched => v1::PromptStatus::Dispatched,
            PromptStatus::Accepted => v1::PromptStatus::Accepted,
            PromptStatus::Finished => v1::PromptStatus::Finished,
            PromptStatus::Failed => v1::PromptStatus::Failed,
            PromptStatus::Interrupted => v1::PromptStatus::Interrupted,
        },
        channel: prompt.channel.clone(),
        mode: match prompt.mode {
            Mode::Followup => v1::PromptMode::Followup,
            Mode::Steer => v1::PromptMode::Steer,
            Mode::Collect => v1::PromptMode::Collect,
        },
        content: ask.content,
        reason: prompt.reason.clone(),
        created_at: time(prompt.created_at),
        ended_at: prompt.ended_at.map(time),
    })
}

pub(crate) fn message(message: Message) -> v1::Message {
    let (done_at, reason, error, usage) = match message.done {
        Some(done) => (
            Some(time(done.at)),
            Some(done.reason),
            done.error,
            done.usage,
        ),
        None => (None, None, None, None),
    };
    let parts = message.parts.into_iter().map(|part| v1::MessagePart {
        part_id: part.id,
        content: part.content,
    });
    v1::Message {
        id: message.id,
        position: message.position,
        role: message.role.as_str().to_owned(),
        channel: message.channel,
        prompt_id: message.prompt_id,
        author: message.author,
        created_at: time(message.created_at),
        done_at,
        reason,
        error,
        usage,
        reverted: message.reverted_seq.is_some(),
        parts: parts.collect(),
    }
}

pub(crate) fn receipt(snapshot: &Snapshot) -> v1::Receipt {
    let sizes = snapshot.sizes.as_ref();
    v1::Receipt {
        snapshot: snapshot.id.clone(),
        digest: sizes.map(|sizes| sizes.digest.clone()),
        bytes: sizes.map(|sizes| sizes.bytes),
        files: sizes.map(|sizes| sizes.files),
        kept: snapshot.kept.as_str().to_owned(),
        took_ms: snapshot.took_ms,
        frozen_ms: snapshot.frozen_ms,
    }
}

pub(crate) fn snapshot(snapshot: &Snapshot) -> v1::SnapshotInfo {
    v1::SnapshotInfo {
        id: snapshot.id.clone(),
        session_id: snapshot.session.map(|session| session.to_string()),
        generation: snapshot.generation,
        provider: snapshot.provider.clone(),
        kind: snapshot.kind.as_str().to_owned(),
        recovered: snapshot.recovered,
        message: snapshot.message.clone(),
        created_at: time(snapshot.created_at),
        receipt: receipt(snapshot),
    }
}
