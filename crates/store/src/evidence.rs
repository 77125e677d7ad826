//! Files that sessions showed for their work. Here is what is known of them; where one lies follows
//! from its id.

use model::{Evidence, Id, Session, Timestamp};
use sqlx::FromRow;

use crate::columns::{count, id, millis, number, time};
use crate::connection::{changed, on};
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Result, Store, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceRecord {
    pub id: Id<Evidence>,
    pub session: Id<Session>,
    /// Of the call that showed it.
    pub request: String,
    /// As the session names it.
    pub path: String,
    pub media_type: String,
    pub size: u64,
    /// As in `sha256:…`.
    pub digest: String,
    pub created_at: Timestamp,
}

/// What a session has shown so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    pub files: u64,
    pub bytes: u64,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, session_id, request, path, media_type, size, digest, created_at
             FROM evidence ",
            $rest
        )
    };
}

impl Tx {
    /// After its file is there, whole and synced. False if the same call showed it before.
    pub async fn record_evidence(&mut self, evidence: &EvidenceRecord) -> Result<bool> {
        const SQL: &str = "INSERT INTO evidence
            (id, session_id, request, path, media_type, size, digest, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
            ON CONFLICT (session_id, request, path) DO NOTHING";
        within("a request's id", &evidence.request, limits::FOREIGN_ID)?;
        within("a path", &evidence.path, limits::ADDRESS)?;
        within("the media type", &evidence.media_type, limits::NAME)?;
        within("a digest", &evidence.digest, limits::NAME)?;
        let made = changed!(
            &mut self.connection(),
            SQL,
            [
                evidence.id.to_string(),
                evidence.session.to_string(),
                &evidence.request,
                &evidence.path,
                &evidence.media_type,
                number(evidence.size),
                &evidence.digest,
                millis(evidence.created_at)
            ]
        )?;
        Ok(made == 1)
    }
}

impl Store {
    /// Of this session; one of another is not found.
    pub async fn find_evidence(
        &self,
        session: Id<Session>,
        evidence: Id<Evidence>,
    ) -> Result<Option<EvidenceRecord>> {
        let sql = select!("WHERE id = $1 AND session_id = $2");
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Option<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(evidence.to_string())
            .bind(session.to_string())
            .fetch_optional(c)
            .await)?;
        row.map(Row::into_record).transpose()
    }

    /// Whether anybody knows of it.
    pub async fn has_evidence(&self, evidence: Id<Evidence>) -> Result<bool> {
        const SQL: &str = "SELECT count(*) FROM evidence WHERE id = $1";
        let mut reader = Reader::acquire(&self.database).await?;
        let there: i64 = on!(&mut reader.connection(), c => sqlx::query_scalar(SQL)
            .bind(evidence.to_string())
            .fetch_one(c)
            .await)?;
        Ok(there > 0)
    }

    /// What one call showed.
    pub async fn evidence_of(
        &self,
        session: Id<Session>,
        request: &str,
    ) -> Result<Vec<EvidenceRecord>> {
        let sql = select!("WHERE session_id = $1 AND request = $2 ORDER BY path LIMIT $3");
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(session.to_string())
            .bind(request)
            .bind(limits::page(limits::PAGE))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_record).collect()
    }

    /// The newest first; those before one, to go on.
    pub async fn list_evidence(
        &self,
        session: Id<Session>,
        before: Option<Id<Evidence>>,
        limit: u32,
    ) -> Result<Vec<EvidenceRecord>> {
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

    /// How much there is of a session, for its limit.
    pub async fn shown_by(&self, session: Id<Session>) -> Result<Shown> {
        const SQL: &str = "SELECT count(*), CAST(coalesce(sum(size), 0) AS BIGINT) FROM evidence
            WHERE session_id = $1";
        let mut reader = Reader::acquire(&self.database).await?;
        let (files, bytes): (i64, i64) = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(session.to_string())
            .fetch_one(c)
            .await)?;
        Ok(Shown {
            files: count(files)?,
            bytes: count(bytes)?,
        })
    }
}

#[derive(FromRow)]
struct Row {
    id: String,
    session_id: String,
    request: String,
    path: String,
    media_type: String,
    size: i64,
    digest: String,
    created_at: i64,
}

impl Row {
    fn into_record(self) -> Result<EvidenceRecord> {
        Ok(EvidenceRecord {
            id: id(&self.id)?,
            session: id(&self.session_id)?,
            request: self.request,
            path: self.path,
            media_type: self.media_type,
            size: count(self.size)?,
            digest: self.digest,
            created_at: time(self.created_at)?,
        })
    }
}
