//! Sandboxes of sessions: one row per generation, written before the provider is asked.

use model::{Id, Session, Timestamp};
use sqlx::FromRow;

use crate::columns::{count, id, maybe_time, millis, number, time, words};
use crate::connection::{changed, on};
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Error, Fenced, Result, Store};

words! {
    Status ("status of a sandbox") {
        Requested = "requested",
        Booting = "booting",
        Ready = "ready",
        Draining = "draining",
        /// It was ended.
        Gone = "gone",
        /// It ended by itself.
        Lost = "lost",
    }
}

impl Status {
    fn is_over(self) -> bool {
        matches!(self, Self::Gone | Self::Lost)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    pub session: Id<Session>,
    pub generation: u64,
    /// The provider's name for it, or the one it will have.
    pub id: String,
    pub provider: String,
    pub status: Status,
    pub created_at: Timestamp,
    pub ready_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

impl Fenced<'_> {
    /// A generation has one sandbox, ever.
    pub async fn request_sandbox(
        &mut self,
        generation: u64,
        sandbox: &str,
        provider: &str,
        at: Timestamp,
    ) -> Result<()> {
        const SQL: &str = "INSERT INTO sandboxes
            (session_id, generation, id, provider, status, created_at)
            VALUES ($1, $2, $3, $4, 'requested', $5)";
        within("a sandbox's id", sandbox, limits::FOREIGN_ID)?;
        within("the provider's name", provider, limits::NAME)?;
        let id = self.id();
        changed!(
            &mut self.connection(),
            SQL,
            [&id, number(generation), sandbox, provider, millis(at)]
        )?;
        Ok(())
    }

    /// One that is over stays over.
    pub async fn move_sandbox(
        &mut self,
        generation: u64,
        status: Status,
        at: Timestamp,
    ) -> Result<()> {
        const SQL: &str = "UPDATE sandboxes SET status = $3,
                ready_at = CASE WHEN $3 = 'ready' THEN coalesce(ready_at, $4) ELSE ready_at END,
                ended_at = $5
            WHERE session_id = $1 AND generation = $2 AND (ended_at IS NULL OR status = $3)";
        let id = self.id();
        match changed!(
            &mut self.connection(),
            SQL,
            [
                &id,
                number(generation),
                status.as_str(),
                millis(at),
                status.is_over().then(|| millis(at))
            ]
        )? {
            0 => Err(Error::NotFound("sandbox that could be in this state")),
            _ => Ok(()),
        }
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT session_id, generation, id, provider, status, created_at, ready_at, ended_at
             FROM sandboxes ",
            $rest
        )
    };
}

impl Store {
    pub async fn session_sandboxes(&self, session: Id<Session>) -> Result<Vec<Sandbox>> {
        let sql = select!("WHERE session_id = $1 ORDER BY generation DESC LIMIT $2");
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(session.to_string())
            .bind(limits::page(limits::PAGE))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_sandbox).collect()
    }

    /// What the provider must have, by our records; whatever else carries our label is an orphan.
    pub async fn live_sandboxes(
        &self,
        provider: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Sandbox>> {
        let sql =
            select!("WHERE provider = $1 AND ended_at IS NULL AND id > $2 ORDER BY id LIMIT $3");
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(provider)
            .bind(after.unwrap_or_default())
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_sandbox).collect()
    }

    pub async fn find_sandbox(&self, provider: &str, sandbox: &str) -> Result<Option<Sandbox>> {
        let sql = select!("WHERE provider = $1 AND id = $2");
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Option<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(provider)
            .bind(sandbox)
            .fetch_optional(c)
            .await)?;
        row.map(Row::into_sandbox).transpose()
    }
}

#[derive(FromRow)]
struct Row {
    session_id: String,
    generation: i64,
    id: String,
    provider: String,
    status: String,
    created_at: i64,
    ready_at: Option<i64>,
    ended_at: Option<i64>,
}

impl Row {
    fn into_sandbox(self) -> Result<Sandbox> {
        Ok(Sandbox {
            session: id(&self.session_id)?,
            generation: count(self.generation)?,
            id: self.id,
            provider: self.provider,
            status: Status::read(&self.status)?,
            created_at: time(self.created_at)?,
            ready_at: maybe_time(self.ready_at)?,
            ended_at: maybe_time(self.ended_at)?,
        })
    }
}
