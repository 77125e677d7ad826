//! What agents asked to have done outside.
//!
//! ```text
//!          a person             done
//!  pending ────────► approved ───────► completed · failed
//!     │ └──────────► denied
//!     └─ in time, or it is over
//! ```
//!
//! A move names where the action is, and changes nothing when it is elsewhere: of two who decide at
//! once, one does.

use model::{Action, Id, Session, Timestamp};
use sqlx::FromRow;

use crate::columns::{count, id, maybe_time, millis, time, words};
use crate::connection::{Connection, changed, on};
use crate::limits::{self, cut, within};
use crate::tx::Reader;
use crate::{Error, Result, Store, Tx};

words! {
    /// How much harm it can do.
    Risk ("risk of an action") {
        Read = "read",
        Write = "write",
        Danger = "danger",
    }
}

words! {
    Status ("status of an action") {
        Pending = "pending",
        Approved = "approved",
        Completed = "completed",
        Denied = "denied",
        Failed = "failed",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAction {
    pub id: Id<Action>,
    pub session: Id<Session>,
    /// Of the call that asked.
    pub request: String,
    pub integration: String,
    pub action: String,
    /// As JSON.
    pub params: String,
    pub risk: Risk,
    /// Pending, or approved where nobody need be asked.
    pub status: Status,
    pub at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionRecord {
    pub id: Id<Action>,
    pub session: Id<Session>,
    pub integration: String,
    pub action: String,
    pub params: String,
    pub risk: Risk,
    pub status: Status,
    /// As JSON, of one that is completed.
    pub result: Option<String>,
    /// Why it was denied, or failed.
    pub message: Option<String>,
    pub decided_by: Option<String>,
    pub created_at: Timestamp,
    /// When nobody may decide any more.
    pub expires_at: Timestamp,
    pub decided_at: Option<Timestamp>,
}

impl ActionRecord {
    pub fn is_over_time(&self, now: Timestamp) -> bool {
        self.status == Status::Pending && self.expires_at <= now
    }
}

/// What a person says to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Approved or denied.
    pub status: Status,
    pub by: &'a str,
    pub message: Option<&'a str>,
    pub at: Timestamp,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, session_id, integration, action, params, risk, status, result, message,
                decided_by, created_at, expires_at, decided_at
             FROM actions ",
            $rest
        )
    };
}

impl Tx {
    /// The one that the same call asked for before, if there is one.
    pub async fn ask_for_action(&mut self, new: &NewAction) -> Result<ActionRecord> {
        const SQL: &str = "INSERT INTO actions (id, session_id, request, integration, action,
                params, risk, status, created_at, expires_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
            ON CONFLICT (session_id, request) DO NOTHING";
        const MANY: &str = "SELECT count(*),
                CAST(coalesce(sum(CASE WHEN status = 'pending' AND expires_at > $2
                    THEN 1 ELSE 0 END), 0) AS BIGINT)
            FROM actions WHERE session_id = $1";
        within("a request's id", &new.request, limits::FOREIGN_ID)?;
        within("an integration", &new.integration, limits::NAME)?;
        within("an action", &new.action, limits::NAME)?;
        within("what an action is given", &new.params, limits::ACTION)?;
        let session = new.session.to_string();
        let made = changed!(
            &mut self.connection(),
            SQL,
            [
                new.id.to_string(),
                &session,
                &new.request,
                &new.integration,
                &new.action,
                &new.params,
                new.risk.as_str(),
                new.status.as_str(),
                millis(new.at),
                millis(new.expires_at)
            ]
        )?;
        if made == 1 {
            let (all, pending): (i64, i64) = on!(&mut self.connection(), c => sqlx::query_as(MANY)
                .bind(&session)
                .bind(millis(new.at))
                .fetch_one(c)
                .await)?;
            if count(all)? > limits::ACTIONS || count(pending)? > limits::PENDING_ACTIONS {
                return Err(Error::Full("the list of the session's actions"));
            }
        }
        let sql = select!("WHERE session_id = $1 AND request = $2");
        let row: Row = on!(&mut self.connection(), c => sqlx::query_as(sql)
            .bind(&session)
            .bind(&new.request)
            .fetch_one(c)
            .await)?;
        row.into_record()
    }

    /// What it is now: as decided here, or as it was before.
    pub async fn decide_action(
        &mut self,
        session: Id<Session>,
        action: Id<Action>,
        decision: Decision<'_>,
    ) -> Result<(ActionRecord, bool)> {
        const SQL: &str = "UPDATE actions
            SET status = $3, decided_by = $4, message = $5, decided_at = $6
            WHERE id = $1 AND session_id = $2 AND status = 'pending' AND expires_at > $6";
        within("who decides", decision.by, limits::NAME)?;
        let decided = changed!(
            &mut self.connection(),
            SQL,
            [
                action.to_string(),
                session.to_string(),
                decision.status.as_str(),
                decision.by,
                decision.message.map(|text| cut(text, limits::REASON)),
                millis(decision.at)
            ]
        )?;
        let found = find(&mut self.connection(), session, action).await?;
        Ok((found.ok_or(Error::NotFound("action"))?, decided == 1))
    }

    /// Of one that is approved. False if somebody was quicker.
    pub async fn finish_action(
        &mut self,
        action: Id<Action>,
        outcome: std::result::Result<&str, &str>,
    ) -> Result<bool> {
        const SQL: &str = "UPDATE actions SET status = $2, result = $3, message = $4
            WHERE id = $1 AND status = 'approved'";
        let (status, result, message) = match outcome {
            Ok(result) => (Status::Completed, Some(result), None),
            Err(message) => (Status::Failed, None, Some(cut(message, limits::REASON))),
        };
        if let Some(result) = result {
            within("what came of an action", result, limits::ACTION)?;
        }
        let done = changed!(
            &mut self.connection(),
            SQL,
            [action.to_string(), status.as_str(), result, message]
        )?;
        Ok(done == 1)
    }
}

impl Store {
    /// Of this session; one of another is not found.
    pub async fn find_action(
        &self,
        session: Id<Session>,
        action: Id<Action>,
    ) -> Result<Option<ActionRecord>> {
        let mut reader = Reader::acquire(&self.database).await?;
        find(&mut reader.connection(), session, action).await
    }

    /// The newest first; those before one, to go on.
    pub async fn list_actions(
        &self,
        session: Id<Session>,
        before: Option<Id<Action>>,
        limit: u32,
    ) -> Result<Vec<ActionRecord>> {
        let sql =
            select!("WHERE session_id = $1 AND ($2 = '' OR id < $2) ORDER BY id DESC LIMIT $3");
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(session.to_string())
            .bind(before.map_or(String::new(), |id| id.to_string()))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_record).collect()
    }
}

async fn find(
    connection: &mut Connection<'_>,
    session: Id<Session>,
    action: Id<Action>,
) -> Result<Option<ActionRecord>> {
    let sql = select!("WHERE id = $1 AND session_id = $2");
    let row: Option<Row> = on!(connection, c => sqlx::query_as(sql)
        .bind(action.to_string())
        .bind(session.to_string())
        .fetch_optional(c)
        .await)?;
    row.map(Row::into_record).transpose()
}

#[derive(FromRow)]
struct Row {
    id: String,
    session_id: String,
    integration: String,
    action: String,
    params: String,
    risk: String,
    status: String,
    result: Option<String>,
    message: Option<String>,
    decided_by: Option<String>,
    created_at: i64,
    expires_at: i64,
    decided_at: Option<i64>,
}

impl Row {
    fn into_record(self) -> Result<ActionRecord> {
        Ok(ActionRecord {
            id: id(&self.id)?,
            session: id(&self.session_id)?,
            integration: self.integration,
            action: self.action,
            params: self.params,
            risk: Risk::read(&self.risk)?,
            status: Status::read(&self.status)?,
            result: self.result,
            message: self.message,
            decided_by: self.decided_by,
            created_at: time(self.created_at)?,
            expires_at: time(self.expires_at)?,
            decided_at: maybe_time(self.decided_at)?,
        })
    }
}
