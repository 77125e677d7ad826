//! Reading the transcript. It needs no sandbox, and no log that is still whole.

use std::collections::BTreeMap;

use model::{Id, Session, Timestamp};
use serde_json::Value;
use sqlx::FromRow;

use crate::columns::{count, from_json, maybe_count, maybe_time, millis, number, time};
use crate::connection::{changed, on};
use crate::limits;
use crate::log::Event;
use crate::projection::{self, Role};
use crate::tx::Reader;
use crate::{Error, Fenced, Result, Store};

/// A message with its parts, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub id: String,
    /// The number of the event that opened it: their order.
    pub position: u64,
    pub role: Role,
    pub channel: String,
    pub prompt_id: Option<String>,
    pub author: Option<Value>,
    pub agent_session: Option<String>,
    pub created_at: Timestamp,
    pub done: Option<Done>,
    /// It was taken back by this event, and is not shown.
    pub removed_seq: Option<u64>,
    /// It was undone, with what it did to files.
    pub reverted_seq: Option<u64>,
    /// It was said in the session that this one was forked from.
    pub inherited: bool,
    pub parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    pub at: Timestamp,
    /// `end_turn`, `error` or `canceled`.
    pub reason: String,
    pub error: Option<String>,
    pub usage: Option<Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub id: String,
    /// The number of the event that brought it first.
    pub position: u64,
    pub kind: String,
    pub content: Value,
}

/// An answer that is still being given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenMessage {
    pub id: String,
    pub prompt_id: Option<String>,
    pub channel: String,
}

/// What the agent asks and nobody has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub id: String,
    pub is_permission: bool,
    pub position: u64,
    pub channel: String,
    /// The event that asked.
    pub body: String,
    pub asked_at: Timestamp,
}

/// Values that an agent asked people for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvRequest {
    pub id: String,
    /// The event that asked.
    pub body: String,
}

#[derive(FromRow)]
struct MessageRow {
    id: String,
    position: i64,
    role: String,
    channel: String,
    prompt_id: Option<String>,
    author: Option<String>,
    agent_session: Option<String>,
    created_at: i64,
    done_at: Option<i64>,
    reason: Option<String>,
    error: Option<String>,
    usage: Option<String>,
    removed_seq: Option<i64>,
    reverted_seq: Option<i64>,
    inherited: i64,
}

#[derive(FromRow)]
struct PartRow {
    message_id: String,
    id: String,
    position: i64,
    kind: String,
    content: String,
}

impl Store {
    /// Messages after a position, in order, those that were taken back among them: as many as are
    /// asked for, and not many megabytes.
    pub async fn messages_after(
        &self,
        session: Id<Session>,
        position: u64,
        limit: u32,
    ) -> Result<Vec<Message>> {
        const SQL: &str = "SELECT id, position, role, channel, prompt_id, author, agent_session,
                created_at, done_at, reason, error, usage, removed_seq, reverted_seq, inherited
            FROM messages WHERE session_id = $1 AND position > $2 ORDER BY position LIMIT $3";
        let mut reader = Reader::acquire(&self.database).await?;
        let mut rows: Vec<MessageRow> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(session.to_string())
            .bind(number(position))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        fit(&mut reader, session, &mut rows).await?;
        with_parts(&mut reader, session, rows).await
    }

    /// The newest messages that were not taken back, in order, and not many megabytes.
    pub async fn last_messages(&self, session: Id<Session>, limit: u32) -> Result<Vec<Message>> {
        self.last_messages_until(session, Timestamp::MAX, limit)
            .await
    }

    /// The newest of those that were begun by then.
    pub async fn last_messages_until(
        &self,
        session: Id<Session>,
        until: Timestamp,
        limit: u32,
    ) -> Result<Vec<Message>> {
        const SQL: &str = "SELECT id, position, role, channel, prompt_id, author, agent_session,
                created_at, done_at, reason, error, usage, removed_seq, reverted_seq, inherited
            FROM messages WHERE session_id = $1 AND removed_seq IS NULL AND created_at <= $2
            ORDER BY position DESC LIMIT $3";
        let mut reader = Reader::acquire(&self.database).await?;
        let mut rows: Vec<MessageRow> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(session.to_string())
            .bind(millis(until))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        fit(&mut reader, session, &mut rows).await?;
        rows.reverse();
        with_parts(&mut reader, session, rows).await
    }

    /// Answers that are not done, in order.
    pub async fn open_messages(&self, session: Id<Session>) -> Result<Vec<OpenMessage>> {
        const SQL: &str = "SELECT id, prompt_id, channel FROM messages
            WHERE session_id = $1 AND done_at IS NULL AND removed_seq IS NULL
            ORDER BY position LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<(String, Option<String>, String)> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
                .bind(session.to_string())
                .bind(limits::page(limits::PAGE))
                .fetch_all(c)
                .await)?;
        Ok(rows
            .into_iter()
            .map(|(id, prompt_id, channel)| OpenMessage {
                id,
                prompt_id,
                channel,
            })
            .collect())
    }

    /// Questions and permissions that wait for a person.
    pub async fn open_questions(&self, session: Id<Session>) -> Result<Vec<Question>> {
        const SQL: &str = "SELECT id, kind, position, channel, body, asked_at FROM questions
            WHERE session_id = $1 AND closed_at IS NULL ORDER BY position LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<(String, String, i64, String, String, i64)> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
                .bind(session.to_string())
                .bind(limits::page(limits::PAGE))
                .fetch_all(c)
                .await)?;
        rows.into_iter()
            .map(|(id, kind, position, channel, body, asked_at)| {
                Ok(Question {
                    id,
                    is_permission: kind == "permission",
                    position: count(position)?,
                    channel,
                    body,
                    asked_at: time(asked_at)?,
                })
            })
            .collect()
    }
}

impl Store {
    /// The events that asked for values which nobody has given, in order.
    pub async fn open_env_requests(&self, session: Id<Session>) -> Result<Vec<EnvRequest>> {
        const SQL: &str = "SELECT id, body FROM env_requests
            WHERE session_id = $1 AND answered_at IS NULL ORDER BY position LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<(String, String)> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(session.to_string())
            .bind(limits::page(limits::ENV_REQUESTS))
            .fetch_all(c)
            .await)?;
        let asked = rows.into_iter().map(|(id, body)| EnvRequest { id, body });
        Ok(asked.collect())
    }
}

/// Leaves as many, from the first on, as fit into a page, and one at least.
async fn fit(reader: &mut Reader, session: Id<Session>, rows: &mut Vec<MessageRow>) -> Result<()> {
    const SQL: &str = "SELECT m.position, CAST(sum(p.size) AS BIGINT)
        FROM messages m JOIN parts p ON p.session_id = m.session_id AND p.message_id = m.id
        WHERE m.session_id = $1 AND m.position >= $2 AND m.position <= $3 GROUP BY m.position";
    let positions = || rows.iter().map(|row| row.position);
    let (Some(first), Some(last)) = (positions().min(), positions().max()) else {
        return Ok(());
    };
    let sizes: Vec<(i64, i64)> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
        .bind(session.to_string())
        .bind(first)
        .bind(last)
        .fetch_all(c)
        .await)?;
    let sizes: BTreeMap<i64, i64> = sizes.into_iter().collect();
    let limit = i64::try_from(limits::PAGE_BYTES).unwrap_or(i64::MAX);
    let mut bytes = 0;
    let fitting = positions().take_while(|position| {
        bytes += sizes.get(position).copied().unwrap_or(0);
        bytes <= limit
    });
    let fitting = fitting.count().max(1);
    rows.truncate(fitting);
    Ok(())
}

async fn with_parts(
    reader: &mut Reader,
    session: Id<Session>,
    rows: Vec<MessageRow>,
) -> Result<Vec<Message>> {
    const SQL: &str = "SELECT p.message_id, p.id, p.position, p.kind, p.content
        FROM parts p JOIN messages m ON m.session_id = p.session_id AND m.id = p.message_id
        WHERE p.session_id = $1 AND m.position >= $2 AND m.position <= $3
        ORDER BY p.position, p.place";
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return Ok(Vec::new());
    };
    let (first, last) = (first.position, last.position);
    let found: Vec<PartRow> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
        .bind(session.to_string())
        .bind(first)
        .bind(last)
        .fetch_all(c)
        .await)?;
    let mut parts: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    for row in found {
        parts.entry(row.message_id).or_default().push(Part {
            id: row.id,
            position: count(row.position)?,
            kind: row.kind,
            content: from_json("part", &row.content)?,
        });
    }
    rows.into_iter()
        .map(|row| {
            let parts = parts.remove(&row.id).unwrap_or_default();
            row.with(parts)
        })
        .collect()
}

impl MessageRow {
    fn with(self, parts: Vec<Part>) -> Result<Message> {
        let document =
            |text: Option<String>| text.map(|text| from_json("message", &text)).transpose();
        let done = match (maybe_time(self.done_at)?, self.reason) {
            (Some(at), Some(reason)) => Some(Done {
                at,
                reason,
                error: self.error,
                usage: document(self.usage)?,
            }),
            _ => None,
        };
        Ok(Message {
            id: self.id,
            position: count(self.position)?,
            role: Role::read(&self.role)?,
            channel: self.channel,
            prompt_id: self.prompt_id,
            author: document(self.author)?,
            agent_session: self.agent_session,
            created_at: time(self.created_at)?,
            done,
            removed_seq: maybe_count(self.removed_seq)?,
            reverted_seq: maybe_count(self.reverted_seq)?,
            inherited: self.inherited != 0,
            parts,
        })
    }
}

impl Fenced<'_> {
    /// Tells the transcript again from the log, which must be whole.
    pub async fn rebuild_transcript(&mut self) -> Result<()> {
        const FORGET: [&str; 3] = [
            "DELETE FROM messages WHERE session_id = $1",
            "DELETE FROM env_requests WHERE session_id = $1",
            "DELETE FROM questions WHERE session_id = $1",
        ];
        const SQL: &str = "SELECT seq, at, kind, body FROM events
            WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT 64";
        if self.first_seq > 1 {
            return Err(Error::Forbidden {
                rule: "the beginning of the log is not kept any more".to_owned(),
            });
        }
        let id = self.id();
        for sql in FORGET {
            changed!(&mut self.connection(), sql, [&id])?;
        }
        let mut seen = 0;
        while seen < self.last_seq {
            let rows: Vec<(i64, i64, String, String)> = on!(&mut self.connection(), c => sqlx::query_as(SQL)
                    .bind(&id)
                    .bind(number(seen))
                    .fetch_all(c)
                    .await)?;
            if rows.is_empty() {
                return Err(Error::unreadable("log", "it has a gap"));
            }
            for (seq, at, kind, body) in rows {
                let event = Event {
                    seq: count(seq)?,
                    at: time(at)?,
                    kind,
                    body: body.into(),
                };
                seen = event.seq;
                projection::project(&mut self.connection(), &id, &event).await?;
            }
        }
        Ok(())
    }
}
