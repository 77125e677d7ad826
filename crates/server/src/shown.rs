//! Records as clients see them.

use model::{SignedDuration, Timestamp};
use store::last_faults::LastFault;
use store::phases::Phase;
use store::prompts::Prompt;
use store::snapshots::Snapshot;
use store::usage::{SessionSum, Sum};
use wire::v1;

use crate::problem::{Answer, Problem};

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

pub(crate) fn fault(fault: LastFault) -> v1::FaultInfo {
    v1::FaultInfo {
        seq: fault.seq,
        at: time(fault.at),
        code: fault.code,
        message: fault.message,
        phase: fault.phase,
        prompt_id: fault.prompt_id,
        request_id: fault.request_id,
        trace_id: fault.trace_id,
    }
}

pub(crate) fn prompt(prompt: &Prompt) -> Answer<v1::Prompt> {
    gateway::shown::prompt(prompt).ok_or_else(|| Problem::internal("a prompt that cannot be read"))
}

pub(crate) fn usage(sum: &Sum) -> v1::Usage {
    let is_known = sum.requests == 0 || sum.unpriced < sum.requests;
    v1::Usage {
        requests: sum.requests,
        input_tokens: sum.tokens.input,
        output_tokens: sum.tokens.output,
        reasoning_tokens: sum.tokens.reasoning,
        cache_read_tokens: sum.tokens.cache_read,
        cache_write_tokens: sum.tokens.cache_write,
        cost_micros: is_known.then_some(sum.cost_micros),
        unpriced_requests: sum.unpriced,
        incomplete_requests: sum.incomplete,
    }
}

pub(crate) fn session_usage(sum: &SessionSum) -> v1::SessionUsage {
    v1::SessionUsage {
        total: usage(&sum.total),
        unattributed: usage(&sum.unattributed),
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
