//! How the last start of a session went, as its log tells it.

use model::{Id, Session, Timestamp};
use serde::Deserialize;

use crate::columns::time;
use crate::connection::on;
use crate::limits;
use crate::tx::Reader;
use crate::{Result, Store};

/// One step of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    pub name: String,
    /// `started`, `done`, `failed` or `skipped`.
    pub state: String,
    pub took_ms: Option<u64>,
    pub detail: Option<String>,
    /// When it was told, which is at its end if it has one.
    pub at: Timestamp,
}

/// What every start tells first.
const FIRST: &str = "context";
/// What a session is at when a start begins.
const BEGINNINGS: [&str; 3] = ["creating", "resuming", "migrating"];

#[derive(Deserialize)]
struct Told {
    status: String,
    #[serde(default)]
    phase: Option<ToldPhase>,
}

#[derive(Deserialize)]
struct ToldPhase {
    name: String,
    state: String,
    #[serde(default)]
    took_ms: Option<u64>,
    #[serde(default)]
    detail: Option<String>,
}

impl Store {
    /// In the order in which they were told first, each as it was told last. None while a start has
    /// told nothing yet, or when the log of it is forgotten.
    pub async fn last_phases(&self, session: Id<Session>) -> Result<Vec<Phase>> {
        const SQL: &str = "SELECT at, body FROM events
            WHERE session_id = $1 AND kind = 'status' ORDER BY seq DESC LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<(i64, String)> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(session.to_string())
            .bind(limits::page(limits::PHASES))
            .fetch_all(c)
            .await)?;
        let mut newest_first: Vec<Phase> = Vec::new();
        for (at, body) in rows {
            // Others may write status events of their own kind; they are no phases.
            let Ok(told) = serde_json::from_str::<Told>(&body) else {
                continue;
            };
            let Some(phase) = told.phase else {
                if BEGINNINGS.contains(&told.status.as_str()) {
                    break;
                }
                continue;
            };
            let is_first = phase.name == FIRST;
            newest_first.push(Phase {
                name: phase.name,
                state: phase.state,
                took_ms: phase.took_ms,
                detail: phase.detail,
                at: time(at)?,
            });
            if is_first {
                break;
            }
        }
        let mut phases: Vec<Phase> = Vec::with_capacity(newest_first.len());
        for phase in newest_first.into_iter().rev() {
            match phases.iter_mut().find(|known| known.name == phase.name) {
                Some(known) => *known = phase,
                None => phases.push(phase),
            }
        }
        Ok(phases)
    }
}
