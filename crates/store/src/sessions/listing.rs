use model::{Id, Organisation, Session, Timestamp};

use super::{Record, Row, Status};
use crate::columns::{id, millis};
use crate::connection::on;
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Result, Store};

/// Which sessions of an organisation, the newest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listing<'a> {
    pub status: Option<Status>,
    pub archived: Archived,
    /// Only those that were made from this one.
    pub parent: Option<Id<Session>>,
    /// Only those with this in their title, in large or small letters.
    pub search: Option<&'a str>,
    /// Only those made before this one.
    pub before: Option<Id<Session>>,
    pub limit: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Archived {
    #[default]
    Hidden,
    /// With the others.
    Shown,
    Only,
}

impl Store {
    pub async fn list_sessions(
        &self,
        organisation: Id<Organisation>,
        listing: Listing<'_>,
    ) -> Result<Vec<Record>> {
        let sql = select!(
            "WHERE organisation_id = $1 AND ($2 = '' OR status = $2) AND ($3 = '' OR id < $3)
                AND ($4 = 2 OR (archived_at IS NOT NULL) = ($4 = 1))
                AND ($5 = '' OR lower(title) LIKE lower($5) ESCAPE '!')
                AND ($6 = '' OR parent_id = $6)
             ORDER BY id DESC LIMIT $7"
        );
        let archived: i64 = match listing.archived {
            Archived::Hidden => 0,
            Archived::Only => 1,
            Archived::Shown => 2,
        };
        let search = listing.search.unwrap_or_default();
        within("what is searched for", search, limits::SEARCH)?;
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(organisation.to_string())
            .bind(listing.status.map_or("", Status::as_str))
            .bind(listing.before.map_or(String::new(), |id| id.to_string()))
            .bind(archived)
            .bind(pattern(search))
            .bind(listing.parent.map_or(String::new(), |id| id.to_string()))
            .bind(limits::page(listing.limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_record).collect()
    }

    /// Sessions whose deadline has passed, the longest overdue first.
    pub async fn overdue_sessions(&self, now: Timestamp, limit: u32) -> Result<Vec<Record>> {
        let sql = select!("WHERE deadline_at <= $1 ORDER BY deadline_at, id LIMIT $2");
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(millis(now))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_record).collect()
    }

    /// Sessions in this status that nobody has used since.
    pub async fn unused_sessions(
        &self,
        status: Status,
        since: Timestamp,
        limit: u32,
    ) -> Result<Vec<Record>> {
        let sql = select!(
            "WHERE status = $1 AND last_active_at <= $2 ORDER BY last_active_at, id LIMIT $3"
        );
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(status.as_str())
            .bind(millis(since))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_record).collect()
    }

    /// Sessions that rest since before then, and whose sandboxes still stand.
    pub async fn held_sessions(
        &self,
        provider: &str,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<Id<Session>>> {
        const SQL: &str = "SELECT id FROM sessions
            WHERE status IN ('paused', 'suspended') AND paused_at <= $1 AND provider = $3
              AND EXISTS (SELECT 1 FROM sandboxes
                          WHERE sandboxes.session_id = sessions.id AND sandboxes.ended_at IS NULL)
            ORDER BY paused_at, id LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let ids: Vec<String> = on!(&mut reader.connection(), c => sqlx::query_scalar(SQL)
            .bind(millis(before))
            .bind(limits::page(limit))
            .bind(provider)
            .fetch_all(c)
            .await)?;
        ids.iter().map(|text| id(text)).collect()
    }

    /// Sessions that something is to be done for and nobody owns: what a process that starts takes
    /// over. Give the last one to go on after it.
    pub async fn abandoned_sessions(
        &self,
        now: Timestamp,
        after: Option<Id<Session>>,
        limit: u32,
    ) -> Result<Vec<Id<Session>>> {
        const SQL: &str = "SELECT id FROM sessions
            WHERE id > $2
              AND (status IN ('running', 'migrating') OR deadline_at IS NOT NULL
                   OR (status = 'starting' AND EXISTS
                       (SELECT 1 FROM prompts
                        WHERE prompts.session_id = sessions.id AND prompts.status = 'queued'))
                   OR (status = 'paused' AND degraded = 0 AND EXISTS
                       (SELECT 1 FROM prompts
                        WHERE prompts.session_id = sessions.id AND prompts.status = 'queued'
                          AND prompts.created_at > sessions.paused_at))
                   OR (status = 'stopped' AND EXISTS
                       (SELECT 1 FROM sandboxes
                        WHERE sandboxes.session_id = sessions.id AND sandboxes.ended_at IS NULL)))
              AND NOT EXISTS (SELECT 1 FROM leases
                              WHERE leases.session_id = sessions.id AND leases.expires_at > $1)
            ORDER BY id LIMIT $3";
        let mut reader = Reader::acquire(&self.database).await?;
        let ids: Vec<String> = on!(&mut reader.connection(), c => sqlx::query_scalar(SQL)
            .bind(millis(now))
            .bind(after.map_or(String::new(), |id| id.to_string()))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        ids.iter().map(|text| id(text)).collect()
    }
}

/// Of a title that has this somewhere, whatever its characters mean to the database.
fn pattern(search: &str) -> String {
    if search.is_empty() {
        return String::new();
    }
    let mut pattern = String::from("%");
    for character in search.chars() {
        if matches!(character, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}
