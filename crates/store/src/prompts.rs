//! Prompts: each is run at most once.
//!
//! ```text
//!           dispatch             accept
//!  queued ───────────► dispatched ──────► accepted ──► finished · failed · interrupted
//!    ▲  ◄── give back ──────┴────────────────┘
//!    └──► finished (withdrawn) · failed
//! ```
//!
//! A move names where the prompt is, and changes nothing when it is elsewhere.

use std::collections::BTreeMap;

use model::session::Work;
use model::{Id, Session, Timestamp};
use sqlx::FromRow;

use crate::columns::{count, id, json, maybe_count, maybe_time, millis, number, time, words};
use crate::connection::{Connection, changed, on};
use crate::dialect;
use crate::limits::{self, cut, within};
use crate::tx::Reader;
use crate::{Error, Fenced, Result, Store};

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, position, channel, mode, status, generation, boot, reason, body,
                created_at, dispatched_at, accepted_at, ended_at
             FROM prompts ",
            $rest
        )
    };
}

words! {
    Status ("status of a prompt") {
        Queued = "queued",
        Dispatched = "dispatched",
        Accepted = "accepted",
        Finished = "finished",
        Failed = "failed",
        Interrupted = "interrupted",
    }
}

words! {
    /// What a prompt does while another runs on its channel.
    Mode ("mode of a prompt") {
        /// Waits.
        Followup = "followup",
        /// Ends the running one.
        Steer = "steer",
        /// Waits for others to be sent with.
        Collect = "collect",
    }
}

/// How a prompt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Also when it was cancelled, or withdrawn before it ran.
    Finished,
    Failed,
    /// Nobody knows how far it came. It is not sent again.
    Interrupted,
}

impl End {
    pub fn status(self) -> Status {
        match self {
            Self::Finished => Status::Finished,
            Self::Failed => Status::Failed,
            Self::Interrupted => Status::Interrupted,
        }
    }
}

/// Where a prompt was sent: to one boot of one generation, and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    pub generation: u64,
    pub boot: String,
}

#[derive(Debug, Clone)]
pub struct NewPrompt {
    /// The client's own, so that a prompt sent twice is one.
    pub id: String,
    pub channel: String,
    pub mode: Mode,
    /// All else, as JSON.
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    pub id: String,
    /// The order in which they were asked.
    pub position: u64,
    pub channel: String,
    pub mode: Mode,
    pub status: Status,
    pub destination: Option<Destination>,
    pub reason: Option<String>,
    pub body: String,
    pub created_at: Timestamp,
    pub dispatched_at: Option<Timestamp>,
    pub accepted_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Queued {
    New(Prompt),
    /// The same id was sent before: this is what became of it.
    Known(Prompt),
}

impl Fenced<'_> {
    pub async fn queue_prompt(&mut self, new: &NewPrompt, at: Timestamp) -> Result<Queued> {
        const WAITING: &str =
            "SELECT count(*) FROM prompts WHERE session_id = $1 AND status = 'queued'";
        const INSERT: &str = "INSERT INTO prompts
            (session_id, id, position, channel, mode, status, body, created_at)
            VALUES ($1, $2, $3, $4, $5, 'queued', $6, $7)";
        const COUNT: &str = "UPDATE sessions SET last_prompt = $3 WHERE id = $1 AND term = $2";
        within("a prompt's id", &new.id, limits::FOREIGN_ID)?;
        within("a channel", &new.channel, limits::FOREIGN_ID)?;
        within("a prompt", &new.body, limits::DOCUMENT)?;
        let (id, term) = (self.id(), number(self.fence.term));
        if let Some(known) = find(&mut self.connection(), &id, &new.id).await? {
            return Ok(Queued::Known(known));
        }
        let waiting: i64 = on!(&mut self.connection(), c => sqlx::query_scalar(WAITING)
            .bind(&id)
            .fetch_one(c)
            .await)?;
        if count(waiting)? >= limits::QUEUED_PROMPTS {
            return Err(Error::Full("the queue of prompts"));
        }
        self.last_prompt += 1;
        let position = number(self.last_prompt);
        changed!(
            &mut self.connection(),
            INSERT,
            [
                &id,
                &new.id,
                position,
                &new.channel,
                new.mode.as_str(),
                &new.body,
                millis(at)
            ]
        )?;
        let counted = changed!(&mut self.connection(), COUNT, [&id, term, position])?;
        self.one(counted)?;
        Ok(Queued::New(self.load_prompt(&new.id).await?))
    }

    /// Puts another text in the place of one that still waits.
    pub async fn edit_prompt(&mut self, prompt: &str, body: &str) -> Result<()> {
        const SQL: &str = "UPDATE prompts SET body = $3
            WHERE session_id = $1 AND id = $2 AND status = 'queued'";
        within("a prompt", body, limits::DOCUMENT)?;
        let id = self.id();
        let moved = changed!(&mut self.connection(), SQL, [&id, prompt, body])?;
        self.moved(prompt, moved).await
    }

    /// Written before it is sent. Refused while another is under way on its channel.
    pub async fn dispatch_prompt(
        &mut self,
        prompt: &str,
        to: &Destination,
        at: Timestamp,
    ) -> Result<()> {
        const SQL: &str = "UPDATE prompts
            SET status = 'dispatched', generation = $3, boot = $4, dispatched_at = $5
            WHERE session_id = $1 AND id = $2 AND status = 'queued'";
        within("a boot's name", &to.boot, limits::FOREIGN_ID)?;
        let id = self.id();
        let moved = changed!(
            &mut self.connection(),
            SQL,
            [&id, prompt, number(to.generation), &to.boot, millis(at)]
        )?;
        self.moved(prompt, moved).await
    }

    pub async fn accept_prompt(
        &mut self,
        prompt: &str,
        from: &Destination,
        at: Timestamp,
    ) -> Result<()> {
        const SQL: &str = "UPDATE prompts SET status = 'accepted', accepted_at = $5
            WHERE session_id = $1 AND id = $2 AND status = 'dispatched'
              AND generation = $3 AND boot = $4";
        let id = self.id();
        let moved = changed!(
            &mut self.connection(),
            SQL,
            [&id, prompt, number(from.generation), &from.boot, millis(at)]
        )?;
        self.moved(prompt, moved).await
    }

    /// The very runner it was sent to says that its agent never got it.
    pub async fn give_back_prompt(&mut self, prompt: &str, from: &Destination) -> Result<()> {
        const SQL: &str = "UPDATE prompts
            SET status = 'queued', generation = NULL, boot = NULL, dispatched_at = NULL,
                accepted_at = NULL
            WHERE session_id = $1 AND id = $2 AND status IN ('dispatched', 'accepted')
              AND generation = $3 AND boot = $4";
        let id = self.id();
        let moved = changed!(
            &mut self.connection(),
            SQL,
            [&id, prompt, number(from.generation), &from.boot]
        )?;
        self.moved(prompt, moved).await
    }

    /// From wherever it is, but what never ran cannot have been interrupted.
    pub async fn end_prompt(
        &mut self,
        prompt: &str,
        end: End,
        reason: Option<&str>,
        at: Timestamp,
    ) -> Result<()> {
        const SQL: &str = "UPDATE prompts SET status = $3, reason = $4, ended_at = $5
            WHERE session_id = $1 AND id = $2
              AND (status IN ('dispatched', 'accepted')
                   OR (status = 'queued' AND $3 <> 'interrupted'))";
        let id = self.id();
        let moved = changed!(
            &mut self.connection(),
            SQL,
            [
                &id,
                prompt,
                end.status().as_str(),
                reason.map(|reason| cut(reason, limits::REASON)),
                millis(at)
            ]
        )?;
        self.moved(prompt, moved).await
    }

    pub async fn find_prompt(&mut self, prompt: &str) -> Result<Option<Prompt>> {
        let id = self.id();
        find(&mut self.connection(), &id, prompt).await
    }

    async fn load_prompt(&mut self, prompt: &str) -> Result<Prompt> {
        self.find_prompt(prompt)
            .await?
            .ok_or(Error::NotFound("prompt"))
    }

    async fn moved(&mut self, prompt: &str, moved: u64) -> Result<()> {
        if moved == 1 {
            return Ok(());
        }
        let prompt = self.load_prompt(prompt).await?;
        Err(Error::PromptMoved(prompt.status))
    }
}

impl Store {
    pub async fn find_prompt(&self, session: Id<Session>, prompt: &str) -> Result<Option<Prompt>> {
        let mut reader = Reader::acquire(&self.database).await?;
        find(&mut reader.connection(), &session.to_string(), prompt).await
    }

    /// Those that wait or are under way, in order.
    pub async fn open_prompts(&self, session: Id<Session>) -> Result<Vec<Prompt>> {
        let sql = select!(
            "WHERE session_id = $1 AND status IN ('queued', 'dispatched', 'accepted')
             ORDER BY position"
        );
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(session.to_string())
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_prompt).collect()
    }

    /// Of each that has something to do now.
    pub async fn work_of(
        &self,
        sessions: &[Id<Session>],
        now: Timestamp,
    ) -> Result<BTreeMap<Id<Session>, Work>> {
        let ids: Vec<String> = sessions.iter().map(ToString::to_string).collect();
        let mut reader = Reader::acquire(&self.database).await?;
        let mut connection = reader.connection();
        let sql = dialect::WORK_OF_SESSIONS.on(&connection);
        let rows: Vec<(String, String)> = on!(&mut connection, c => sqlx::query_as(sql)
            .bind(json(&ids))
            .bind(millis(now))
            .fetch_all(c)
            .await)?;
        let mut all: BTreeMap<_, Work> = BTreeMap::new();
        for (session, what) in rows {
            let work = all.entry(id(&session)?).or_default();
            match &*what {
                "queued" => work.is_queued = true,
                "under_way" => work.is_under_way = true,
                _ => work.is_asked = true,
            }
        }
        Ok(all)
    }
}

async fn find(
    connection: &mut Connection<'_>,
    session: &str,
    prompt: &str,
) -> Result<Option<Prompt>> {
    let sql = select!("WHERE session_id = $1 AND id = $2");
    let row: Option<Row> = on!(connection, c => sqlx::query_as(sql)
        .bind(session)
        .bind(prompt)
        .fetch_optional(c)
        .await)?;
    row.map(Row::into_prompt).transpose()
}

#[derive(FromRow)]
struct Row {
    id: String,
    position: i64,
    channel: String,
    mode: String,
    status: String,
    generation: Option<i64>,
    boot: Option<String>,
    reason: Option<String>,
    body: String,
    created_at: i64,
    dispatched_at: Option<i64>,
    accepted_at: Option<i64>,
    ended_at: Option<i64>,
}

impl Row {
    fn into_prompt(self) -> Result<Prompt> {
        let destination = match (maybe_count(self.generation)?, self.boot) {
            (Some(generation), Some(boot)) => Some(Destination { generation, boot }),
            _ => None,
        };
        Ok(Prompt {
            id: self.id,
            position: count(self.position)?,
            channel: self.channel,
            mode: Mode::read(&self.mode)?,
            status: Status::read(&self.status)?,
            destination,
            reason: self.reason,
            body: self.body,
            created_at: time(self.created_at)?,
            dispatched_at: maybe_time(self.dispatched_at)?,
            accepted_at: maybe_time(self.accepted_at)?,
            ended_at: maybe_time(self.ended_at)?,
        })
    }
}
