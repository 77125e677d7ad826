//! What a session's sandboxes asked for and did not get, as its log tells it.

use model::{Id, Session};

use crate::columns::{count, time};
use crate::connection::on;
use crate::limits;
use crate::log::Event;
use crate::tx::Reader;
use crate::{Result, Store};

impl Store {
    /// Events of the kind `egress_blocked`, the newest first.
    pub async fn blocked_events(&self, session: Id<Session>, limit: u32) -> Result<Vec<Event>> {
        const SQL: &str = "SELECT seq, at, kind, body FROM events
            WHERE session_id = $1 AND kind = 'egress_blocked' ORDER BY seq DESC LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<(i64, i64, String, String)> = on!(&mut reader.connection(), c => {
            sqlx::query_as(SQL)
                .bind(session.to_string())
                .bind(limits::page(limit))
                .fetch_all(c)
                .await
        })?;
        rows.into_iter()
            .map(|(seq, at, kind, body)| {
                Ok(Event {
                    seq: count(seq)?,
                    at: time(at)?,
                    kind,
                    body: body.into(),
                })
            })
            .collect()
    }
}
