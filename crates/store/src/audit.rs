//! Who did what. Lines are added and never changed.

use model::{Audit, Id, Organisation, Session, Timestamp};
use sqlx::FromRow;

use crate::columns::{id, maybe_id, millis, time};
use crate::connection::{changed, on};
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Result, Store, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub id: Id<Audit>,
    pub organisation: Id<Organisation>,
    pub session: Option<Id<Session>>,
    /// A user, a token, or a part of nacre.
    pub actor: String,
    /// As in `session.pause`.
    pub action: String,
    pub target: Option<String>,
    /// As JSON.
    pub body: String,
    pub at: Timestamp,
}

impl Tx {
    /// Belongs to the transaction of what was done.
    pub async fn record(&mut self, line: &Line) -> Result<()> {
        const SQL: &str = "INSERT INTO audit
            (id, organisation_id, session_id, actor, action, target, body, at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        within("an actor", &line.actor, limits::NAME)?;
        within("an action", &line.action, limits::NAME)?;
        within("an audit line", &line.body, limits::DOCUMENT)?;
        if let Some(target) = &line.target {
            within("a target", target, limits::NAME)?;
        }
        changed!(
            &mut self.connection(),
            SQL,
            [
                line.id.to_string(),
                line.organisation.to_string(),
                line.session.map(|id| id.to_string()),
                &line.actor,
                &line.action,
                &line.target,
                &line.body,
                millis(line.at)
            ]
        )?;
        Ok(())
    }
}

impl Store {
    /// The newest first; those before a line, to go on.
    pub async fn audit_lines(
        &self,
        organisation: Id<Organisation>,
        before: Option<Id<Audit>>,
        limit: u32,
    ) -> Result<Vec<Line>> {
        const SQL: &str = "SELECT id, organisation_id, session_id, actor, action, target, body, at
            FROM audit WHERE organisation_id = $1 AND ($2 = '' OR id < $2)
            ORDER BY id DESC LIMIT $3";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(organisation.to_string())
            .bind(before.map_or(String::new(), |id| id.to_string()))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_line).collect()
    }

    /// Of one session, the newest first; those before a line, to go on.
    pub async fn session_audit_lines(
        &self,
        session: Id<Session>,
        before: Option<Id<Audit>>,
        limit: u32,
    ) -> Result<Vec<Line>> {
        const SQL: &str = "SELECT id, organisation_id, session_id, actor, action, target, body, at
            FROM audit WHERE session_id = $1 AND ($2 = '' OR id < $2)
            ORDER BY id DESC LIMIT $3";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(session.to_string())
            .bind(before.map_or(String::new(), |id| id.to_string()))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_line).collect()
    }
}

#[derive(FromRow)]
struct Row {
    id: String,
    organisation_id: String,
    session_id: Option<String>,
    actor: String,
    action: String,
    target: Option<String>,
    body: String,
    at: i64,
}

impl Row {
    fn into_line(self) -> Result<Line> {
        Ok(Line {
            id: id(&self.id)?,
            organisation: id(&self.organisation_id)?,
            session: maybe_id(self.session_id.as_deref())?,
            actor: self.actor,
            action: self.action,
            target: self.target,
            body: self.body,
            at: time(self.at)?,
        })
    }
}
