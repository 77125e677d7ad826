//! What a session remembers of each of its channels: the agent's own conversation there, and what
//! else its owner wants to know again after a restart.

use model::{Id, Session, Timestamp};

use crate::columns::millis;
use crate::connection::{changed, on};
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Fenced, Result, Store};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// As in `web:default`.
    pub name: String,
    pub agent_session: Option<String>,
    /// As JSON.
    pub body: String,
}

impl Fenced<'_> {
    pub async fn set_channel(&mut self, channel: &Channel, at: Timestamp) -> Result<()> {
        const SQL: &str = "INSERT INTO channels
            (session_id, channel, agent_session, body, updated_at) VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (session_id, channel) DO UPDATE SET
                agent_session = excluded.agent_session, body = excluded.body,
                updated_at = excluded.updated_at";
        within("a channel", &channel.name, limits::FOREIGN_ID)?;
        within("a channel's memory", &channel.body, limits::DOCUMENT)?;
        if let Some(agent_session) = &channel.agent_session {
            within("an agent's session", agent_session, limits::NAME)?;
        }
        let id = self.id();
        changed!(
            &mut self.connection(),
            SQL,
            [
                &id,
                &channel.name,
                &channel.agent_session,
                &channel.body,
                millis(at)
            ]
        )?;
        Ok(())
    }
}

impl Store {
    pub async fn channels(&self, session: Id<Session>) -> Result<Vec<Channel>> {
        const SQL: &str = "SELECT channel, agent_session, body FROM channels
            WHERE session_id = $1 ORDER BY channel LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<(String, Option<String>, String)> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
                .bind(session.to_string())
                .bind(limits::page(limits::PAGE))
                .fetch_all(c)
                .await)?;
        Ok(rows
            .into_iter()
            .map(|(name, agent_session, body)| Channel {
                name,
                agent_session,
                body,
            })
            .collect())
    }
}
