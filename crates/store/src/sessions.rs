//! Sessions: records that outlive their sandboxes.

use model::{Id, Organisation, Session, Timestamp, User};
use sqlx::FromRow;

use crate::columns::{count, id, maybe_id, maybe_millis, maybe_time, millis, number, time, words};
use crate::connection::{Connection, changed, on};
use crate::limits::{self, within};
use crate::snapshots::Needed;
use crate::tx::Reader;
use crate::{Error, Fence, Fenced, Result, StateColumns, Store, Tx};

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, organisation_id, created_by, parent_id, title, type, channel, provider,
                spec, status, state, generation, sandbox_id, snapshot_id, reason, degraded,
                deadline_at, expires_at, paused_at, ended_at, term, last_seq, first_seq,
                created_at, last_active_at, archived_at, origin_snapshot_id
             FROM sessions ",
            $rest
        )
    };
}

mod listing;
pub use listing::{Archived, Listing};

words! {
    /// What a session is at.
    Status ("status of a session") {
        Starting = "starting",
        Running = "running",
        Migrating = "migrating",
        Paused = "paused",
        Suspended = "suspended",
        Stopped = "stopped",
    }
}

words! {
    /// What a session is for.
    Type ("type of a session") {
        Coding = "coding",
        Setup = "setup",
        Cli = "cli",
    }
}

words! {
    /// From where a session was made.
    Channel ("channel of a session") {
        Web = "web",
        Cli = "cli",
        Api = "api",
        Slack = "slack",
        Discord = "discord",
        Telegram = "telegram",
        Automation = "automation",
    }
}

#[derive(Debug, Clone)]
pub struct NewSession {
    pub id: Id<Session>,
    pub organisation: Id<Organisation>,
    pub created_by: Option<Id<User>>,
    pub parent: Option<Id<Session>>,
    pub title: String,
    pub r#type: Type,
    pub channel: Channel,
    pub provider: String,
    /// What it was asked to be, as JSON: repositories, agent, models.
    pub spec: String,
    pub state: StateColumns,
    pub at: Timestamp,
}

/// A session as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub id: Id<Session>,
    pub organisation: Id<Organisation>,
    pub created_by: Option<Id<User>>,
    pub parent: Option<Id<Session>>,
    pub title: String,
    pub r#type: Type,
    pub channel: Channel,
    pub provider: String,
    pub spec: String,
    pub state: StateColumns,
    pub term: u64,
    /// The number of the newest event.
    pub last_seq: u64,
    /// The number of the oldest event that is kept, or of the next.
    pub first_seq: u64,
    pub created_at: Timestamp,
    pub last_active_at: Timestamp,
    pub archived_at: Option<Timestamp>,
    /// Which snapshot it was forked from.
    pub origin_snapshot: Option<String>,
}

impl Tx {
    /// The fence of a session that has no owner yet: whoever makes it may write to it in the same
    /// transaction, and until somebody takes it over.
    pub async fn create_session(&mut self, new: &NewSession) -> Result<Fence> {
        const SQL: &str = "INSERT INTO sessions
            (id, organisation_id, created_by, parent_id, title, type, channel, provider, spec,
             status, state, generation, sandbox_id, snapshot_id, reason, degraded,
             deadline_at, expires_at, paused_at, ended_at,
             term, last_seq, first_seq, last_prompt, created_at, last_active_at,
             origin_snapshot_id)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
                    $17, $18, $19, $20, 0, 0, 1, 0, $21, $21, $22)";
        within("the title", &new.title, limits::NAME)?;
        within("the provider's name", &new.provider, limits::NAME)?;
        within("the specification", &new.spec, limits::DOCUMENT)?;
        new.state.check()?;
        let state = &new.state;
        if let Some(snapshot) = &state.snapshot_id {
            self.begin_from(snapshot).await?;
        }
        // What a fork has before it ever ran is its parent's.
        let origin = new.parent.and(state.snapshot_id.as_ref());
        changed!(
            &mut self.connection(),
            SQL,
            [
                new.id.to_string(),
                new.organisation.to_string(),
                new.created_by.map(|id| id.to_string()),
                new.parent.map(|id| id.to_string()),
                &new.title,
                new.r#type.as_str(),
                new.channel.as_str(),
                &new.provider,
                &new.spec,
                state.status.as_str(),
                &state.state,
                number(state.generation),
                &state.sandbox_id,
                &state.snapshot_id,
                &state.reason,
                i64::from(state.degraded),
                maybe_millis(state.deadline_at),
                maybe_millis(state.expires_at),
                maybe_millis(state.paused_at),
                maybe_millis(state.ended_at),
                millis(new.at),
                origin
            ]
        )?;
        Ok(Fence {
            session: new.id,
            term: 0,
        })
    }

    /// One that nobody here has a record of is its provider's to answer for.
    async fn begin_from(&mut self, snapshot: &str) -> Result<()> {
        const SQL: &str = "SELECT count(*) FROM snapshots WHERE id = $1";
        if self.claim_snapshot(snapshot).await? {
            return Ok(());
        }
        let known: i64 = on!(&mut self.connection(), c => sqlx::query_scalar(SQL)
            .bind(snapshot)
            .fetch_one(c)
            .await)?;
        match known {
            0 => Ok(()),
            _ => Err(Error::NotFound("snapshot")),
        }
    }

    pub async fn find_session(&mut self, session: Id<Session>) -> Result<Option<Record>> {
        find(&mut self.connection(), session).await
    }
}

impl Fenced<'_> {
    pub async fn set_state(&mut self, state: &StateColumns) -> Result<()> {
        const SQL: &str = "UPDATE sessions SET
                status = $3, state = $4, generation = $5, sandbox_id = $6, snapshot_id = $7,
                reason = $8, degraded = $9, deadline_at = $10, expires_at = $11,
                paused_at = $12, ended_at = $13
            WHERE id = $1 AND term = $2 AND generation <= $5
                AND (status <> 'stopped' OR $3 = 'stopped')";
        state.check()?;
        let (id, term) = (self.id(), number(self.fence.term));
        let written = changed!(
            &mut self.connection(),
            SQL,
            [
                id,
                term,
                state.status.as_str(),
                &state.state,
                number(state.generation),
                &state.sandbox_id,
                &state.snapshot_id,
                &state.reason,
                i64::from(state.degraded),
                maybe_millis(state.deadline_at),
                maybe_millis(state.expires_at),
                maybe_millis(state.paused_at),
                maybe_millis(state.ended_at)
            ]
        )?;
        if written == 1 {
            return Ok(());
        }
        // The fence holds, so it is one of the other two.
        Err(Error::Forbidden {
            rule: "a generation only rises, and who is stopped stays so".to_owned(),
        })
    }

    /// Somebody used it.
    pub async fn touch(&mut self, at: Timestamp) -> Result<()> {
        const SQL: &str = "UPDATE sessions SET last_active_at = $3 WHERE id = $1 AND term = $2";
        let (id, term) = (self.id(), number(self.fence.term));
        let written = changed!(&mut self.connection(), SQL, [id, term, millis(at)])?;
        self.one(written)
    }

    pub async fn set_title(&mut self, title: &str) -> Result<()> {
        const SQL: &str = "UPDATE sessions SET title = $3 WHERE id = $1 AND term = $2";
        within("the title", title, limits::NAME)?;
        let (id, term) = (self.id(), number(self.fence.term));
        let written = changed!(&mut self.connection(), SQL, [id, term, title])?;
        self.one(written)
    }

    pub async fn set_spec(&mut self, spec: &str) -> Result<()> {
        const SQL: &str = "UPDATE sessions SET spec = $3 WHERE id = $1 AND term = $2";
        within("the specification", spec, limits::DOCUMENT)?;
        let (id, term) = (self.id(), number(self.fence.term));
        let written = changed!(&mut self.connection(), SQL, [id, term, spec])?;
        self.one(written)
    }

    /// Hides it from listings, or, without a time, shows it again.
    pub async fn set_archived(&mut self, at: Option<Timestamp>) -> Result<()> {
        const SQL: &str = "UPDATE sessions SET archived_at = $3 WHERE id = $1 AND term = $2";
        let (id, term) = (self.id(), number(self.fence.term));
        let written = changed!(&mut self.connection(), SQL, [id, term, maybe_millis(at)])?;
        self.one(written)
    }

    /// With its log, transcript, prompts, sandboxes, lease and jobs. Of its snapshots those stay that
    /// somebody asked for or another session goes on from; the others are given up.
    pub async fn delete(mut self, at: Timestamp) -> Result<()> {
        const OWN: &str = "SELECT id FROM snapshots
            WHERE session_id = $1 AND wanted = 0 AND removed_at IS NULL ORDER BY id";
        const SQL: &str = "DELETE FROM sessions WHERE id = $1 AND term = $2";
        let (id, term) = (self.id(), number(self.fence.term));
        let own: Vec<String> = on!(&mut self.connection(), c => sqlx::query_scalar(OWN)
            .bind(&id)
            .fetch_all(c)
            .await)?;
        let deleted = changed!(&mut self.connection(), SQL, [id, term])?;
        self.one(deleted)?;
        for snapshot in own {
            self.tx
                .give_up_snapshot(&snapshot, Needed::ByAny, at)
                .await?;
        }
        Ok(())
    }
}

impl Store {
    pub async fn find_session(&self, session: Id<Session>) -> Result<Option<Record>> {
        let mut reader = Reader::acquire(&self.database).await?;
        find(&mut reader.connection(), session).await
    }

    pub async fn load_session(&self, session: Id<Session>) -> Result<Record> {
        self.find_session(session)
            .await?
            .ok_or(Error::NotFound("session"))
    }
}

async fn find(connection: &mut Connection<'_>, session: Id<Session>) -> Result<Option<Record>> {
    let sql = select!("WHERE id = $1");
    let row: Option<Row> = on!(connection, c => sqlx::query_as(sql)
        .bind(session.to_string())
        .fetch_optional(c)
        .await)?;
    row.map(Row::into_record).transpose()
}

#[derive(FromRow)]
struct Row {
    id: String,
    organisation_id: String,
    created_by: Option<String>,
    parent_id: Option<String>,
    title: String,
    r#type: String,
    channel: String,
    provider: String,
    spec: String,
    status: String,
    state: String,
    generation: i64,
    sandbox_id: Option<String>,
    snapshot_id: Option<String>,
    reason: Option<String>,
    degraded: i64,
    deadline_at: Option<i64>,
    expires_at: Option<i64>,
    paused_at: Option<i64>,
    ended_at: Option<i64>,
    term: i64,
    last_seq: i64,
    first_seq: i64,
    created_at: i64,
    last_active_at: i64,
    archived_at: Option<i64>,
    origin_snapshot_id: Option<String>,
}

impl Row {
    fn into_record(self) -> Result<Record> {
        Ok(Record {
            id: id(&self.id)?,
            organisation: id(&self.organisation_id)?,
            created_by: maybe_id(self.created_by.as_deref())?,
            parent: maybe_id(self.parent_id.as_deref())?,
            title: self.title,
            r#type: Type::read(&self.r#type)?,
            channel: Channel::read(&self.channel)?,
            provider: self.provider,
            spec: self.spec,
            state: StateColumns {
                status: Status::read(&self.status)?,
                state: self.state,
                generation: count(self.generation)?,
                sandbox_id: self.sandbox_id,
                snapshot_id: self.snapshot_id,
                reason: self.reason,
                degraded: self.degraded != 0,
                deadline_at: maybe_time(self.deadline_at)?,
                expires_at: maybe_time(self.expires_at)?,
                paused_at: maybe_time(self.paused_at)?,
                ended_at: maybe_time(self.ended_at)?,
            },
            term: count(self.term)?,
            last_seq: count(self.last_seq)?,
            first_seq: count(self.first_seq)?,
            created_at: time(self.created_at)?,
            last_active_at: time(self.last_active_at)?,
            archived_at: maybe_time(self.archived_at)?,
            origin_snapshot: self.origin_snapshot_id,
        })
    }
}
