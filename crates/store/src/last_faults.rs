//! What went wrong in a session last, as its log tells it.

use model::{Id, Session, Timestamp};
use serde::Deserialize;

use crate::columns::{count, number, time};
use crate::connection::on;
use crate::limits;
use crate::tx::Reader;
use crate::{Result, Store};

/// One thing that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastFault {
    /// Of the event that tells it.
    pub seq: u64,
    pub at: Timestamp,
    pub code: String,
    pub message: String,
    pub phase: Option<String>,
    pub prompt_id: Option<String>,
    pub request_id: Option<String>,
    pub trace_id: Option<String>,
}

/// What the events that may tell of one have in common.
#[derive(Deserialize)]
struct Told {
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    prompt_id: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    fault: Option<ToldFault>,
    #[serde(default)]
    phase: Option<ToldPhase>,
}

#[derive(Deserialize)]
struct ToldFault {
    code: String,
    #[serde(default)]
    phase: Option<String>,
    #[serde(default)]
    request_id: Option<String>,
    #[serde(default)]
    trace_id: Option<String>,
}

#[derive(Deserialize)]
struct ToldPhase {
    name: String,
    state: String,
    #[serde(default)]
    detail: Option<String>,
}

impl Store {
    /// The newest first, among the last events up to `last_seq`, and no more than a person reads.
    pub async fn last_faults(&self, session: Id<Session>, last_seq: u64) -> Result<Vec<LastFault>> {
        const SQL: &str = "SELECT seq, at, kind, body FROM events
            WHERE session_id = $1 AND seq > $2 AND kind IN ('status', 'error', 'prompt')
            ORDER BY seq DESC LIMIT $3";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<(i64, i64, String, String)> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(session.to_string())
            .bind(number(last_seq.saturating_sub(limits::FAULTS_WITHIN)))
            .bind(limits::page(limits::FAULTS_AMONG))
            .fetch_all(c)
            .await)?;
        let mut faults = Vec::new();
        for (seq, at, kind, body) in rows {
            let Ok(told) = serde_json::from_str::<Told>(&body) else {
                continue;
            };
            if let Some(fault) = told.fault_of(&kind, count(seq)?, time(at)?) {
                faults.push(fault);
            }
            if faults.len() == limits::FAULTS {
                break;
            }
        }
        Ok(faults)
    }
}

impl Told {
    fn fault_of(self, kind: &str, seq: u64, at: Timestamp) -> Option<LastFault> {
        let mut fault = LastFault {
            seq,
            at,
            code: String::new(),
            message: self.message.unwrap_or_default(),
            phase: None,
            prompt_id: None,
            request_id: None,
            trace_id: None,
        };
        match (kind, self.status.as_deref(), self.fault, self.phase) {
            ("status", _, Some(told), _) => {
                fault.code = told.code;
                fault.phase = told.phase;
                fault.request_id = told.request_id;
                fault.trace_id = told.trace_id;
            }
            ("status", _, None, Some(phase)) if phase.state == "failed" => {
                "phase".clone_into(&mut fault.code);
                fault.message = phase.detail.unwrap_or_default();
                fault.phase = Some(phase.name);
            }
            ("status", Some(status @ ("error" | "degraded")), None, None) => {
                status.clone_into(&mut fault.code);
            }
            ("error", ..) => {
                fault.code = self.code.unwrap_or_default();
                fault.prompt_id = self.prompt_id;
            }
            ("prompt", Some(status @ ("failed" | "interrupted")), ..) => {
                status.clone_into(&mut fault.code);
                fault.message = self.reason.unwrap_or_default();
                fault.prompt_id = self.id;
            }
            _ => return None,
        }
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: &str, body: &str) -> Option<LastFault> {
        let told: Told = serde_json::from_str(body).unwrap();
        told.fault_of(kind, 7, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_start_that_failed_is_told_with_its_phase_and_who_asked() {
        let body = r#"{"type":"status","status":"error","message":"no","fault":{"code":"boot",
            "phase":"clone","request_id":"req_1","trace_id":"0af7"}}"#;
        let fault = read("status", body).unwrap();
        assert_eq!(
            (fault.code.as_str(), fault.message.as_str()),
            ("boot", "no")
        );
        assert_eq!(fault.phase.as_deref(), Some("clone"));
        assert_eq!(fault.request_id.as_deref(), Some("req_1"));
        assert_eq!(fault.trace_id.as_deref(), Some("0af7"));
    }

    #[test]
    fn only_what_went_wrong_is_a_fault() {
        for (kind, body) in [
            ("status", r#"{"status":"running"}"#),
            (
                "status",
                r#"{"status":"creating","phase":{"name":"clone","state":"done"}}"#,
            ),
            ("prompt", r#"{"id":"p","status":"finished"}"#),
        ] {
            assert_eq!(read(kind, body), None, "{body}");
        }
        let failed = read(
            "prompt",
            r#"{"id":"p","status":"interrupted","reason":"gone"}"#,
        );
        assert_eq!(failed.unwrap().prompt_id.as_deref(), Some("p"));
        let phase = r#"{"status":"running","phase":{"name":"editor","state":"failed"}}"#;
        assert_eq!(
            read("status", phase).unwrap().phase.as_deref(),
            Some("editor")
        );
    }
}
