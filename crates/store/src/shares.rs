//! Links that let others see one port of a session for a while. Of the link only a hash is kept.

use model::{Id, Session, Share, Timestamp, User};
use sqlx::FromRow;

use crate::accounts::TokenHash;
use crate::columns::{count, id, maybe_id, maybe_time, millis, time};
use crate::connection::{changed, on};
use crate::limits;
use crate::tx::Reader;
use crate::{Error, Result, Store, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareRecord {
    pub id: Id<Share>,
    pub session: Id<Session>,
    pub port: u16,
    pub created_by: Option<Id<User>>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, session_id, port, created_by, created_at, expires_at, revoked_at
             FROM shares ",
            $rest
        )
    };
}

impl Tx {
    pub async fn create_share(&mut self, hash: &TokenHash, share: &ShareRecord) -> Result<()> {
        const SQL: &str = "INSERT INTO shares
            (id, hash, session_id, port, created_by, created_at, expires_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        const GOOD: &str = "SELECT count(*) FROM shares
            WHERE session_id = $1 AND revoked_at IS NULL AND expires_at > $2";
        changed!(
            &mut self.connection(),
            SQL,
            [
                share.id.to_string(),
                hash.as_str(),
                share.session.to_string(),
                i64::from(share.port),
                share.created_by.map(|id| id.to_string()),
                millis(share.created_at),
                millis(share.expires_at)
            ]
        )?;
        let good: i64 = on!(&mut self.connection(), c => sqlx::query_scalar(GOOD)
            .bind(share.session.to_string())
            .bind(millis(share.created_at))
            .fetch_one(c)
            .await)?;
        if count(good)? > limits::SHARES {
            return Err(Error::Full("the list of the session's links"));
        }
        Ok(())
    }

    /// Of this session; one of another is not found.
    pub async fn revoke_share(
        &mut self,
        session: Id<Session>,
        share: Id<Share>,
        at: Timestamp,
    ) -> Result<()> {
        const SQL: &str = "UPDATE shares SET revoked_at = coalesce(revoked_at, $3)
            WHERE id = $1 AND session_id = $2";
        match changed!(
            &mut self.connection(),
            SQL,
            [share.to_string(), session.to_string(), millis(at)]
        )? {
            0 => Err(Error::NotFound("share")),
            _ => Ok(()),
        }
    }

    /// Those whose time was over before then, revoked or not. How many.
    pub async fn remove_expired_shares(&mut self, before: Timestamp) -> Result<u64> {
        const SQL: &str = "DELETE FROM shares WHERE expires_at <= $1";
        Ok(changed!(&mut self.connection(), SQL, [millis(before)])?)
    }
}

impl Store {
    /// One that is good now: neither revoked nor expired.
    pub async fn find_share(
        &self,
        hash: &TokenHash,
        now: Timestamp,
    ) -> Result<Option<ShareRecord>> {
        let sql = select!("WHERE hash = $1 AND revoked_at IS NULL AND expires_at > $2");
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Option<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(hash.as_str())
            .bind(millis(now))
            .fetch_optional(c)
            .await)?;
        row.map(Row::into_record).transpose()
    }

    /// The newest first, with those that are over.
    pub async fn session_shares(
        &self,
        session: Id<Session>,
        limit: u32,
    ) -> Result<Vec<ShareRecord>> {
        let sql = select!("WHERE session_id = $1 ORDER BY id DESC LIMIT $2");
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(session.to_string())
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_record).collect()
    }
}

#[derive(FromRow)]
struct Row {
    id: String,
    session_id: String,
    port: i64,
    created_by: Option<String>,
    created_at: i64,
    expires_at: i64,
    revoked_at: Option<i64>,
}

impl Row {
    fn into_record(self) -> Result<ShareRecord> {
        let port = u16::try_from(self.port);
        Ok(ShareRecord {
            id: id(&self.id)?,
            session: id(&self.session_id)?,
            port: port.map_err(|error| Error::unreadable("port", &error))?,
            created_by: maybe_id(self.created_by.as_deref())?,
            created_at: time(self.created_at)?,
            expires_at: time(self.expires_at)?,
            revoked_at: maybe_time(self.revoked_at)?,
        })
    }
}
