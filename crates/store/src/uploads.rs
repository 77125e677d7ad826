//! Files that people sent. Here is what is known of them; where one lies follows from its id.

use model::{Id, Organisation, Timestamp, Upload, User};
use sqlx::FromRow;

use crate::columns::{count, id, maybe_id, millis, number, time};
use crate::connection::{Connection, changed, on};
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Result, Store, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadRecord {
    pub id: Id<Upload>,
    pub organisation: Id<Organisation>,
    pub created_by: Option<Id<User>>,
    pub name: String,
    pub media_type: String,
    pub size: u64,
    /// As in `sha256:…`.
    pub digest: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, organisation_id, created_by, name, media_type, size, digest, created_at,
                expires_at
             FROM uploads ",
            $rest
        )
    };
}

impl Tx {
    /// After its file is there, whole and synced.
    pub async fn create_upload(&mut self, upload: &UploadRecord) -> Result<()> {
        const SQL: &str = "INSERT INTO uploads
            (id, organisation_id, created_by, name, media_type, size, digest, created_at, expires_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        within("the file's name", &upload.name, limits::NAME)?;
        within("the media type", &upload.media_type, limits::NAME)?;
        within("a digest", &upload.digest, limits::NAME)?;
        changed!(
            &mut self.connection(),
            SQL,
            [
                upload.id.to_string(),
                upload.organisation.to_string(),
                upload.created_by.map(|id| id.to_string()),
                &upload.name,
                &upload.media_type,
                number(upload.size),
                &upload.digest,
                millis(upload.created_at),
                millis(upload.expires_at)
            ]
        )?;
        Ok(())
    }

    /// Bytes of an organisation's files, as this transaction finds them.
    pub async fn uploaded_bytes(&mut self, organisation: Id<Organisation>) -> Result<u64> {
        bytes_of(&mut self.connection(), organisation).await
    }

    /// Whether it was there. Its file goes first, or nobody would know of it.
    pub async fn remove_upload(&mut self, upload: Id<Upload>) -> Result<bool> {
        const SQL: &str = "DELETE FROM uploads WHERE id = $1";
        let removed = changed!(&mut self.connection(), SQL, [upload.to_string()])?;
        Ok(removed == 1)
    }
}

impl Store {
    /// One that is good now.
    pub async fn find_upload(
        &self,
        organisation: Id<Organisation>,
        upload: Id<Upload>,
        now: Timestamp,
    ) -> Result<Option<UploadRecord>> {
        let sql = select!("WHERE id = $1 AND organisation_id = $2 AND expires_at > $3");
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Option<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(upload.to_string())
            .bind(organisation.to_string())
            .bind(millis(now))
            .fetch_optional(c)
            .await)?;
        row.map(Row::into_record).transpose()
    }

    /// Those to be removed, the longest overdue first.
    pub async fn expired_uploads(&self, now: Timestamp, limit: u32) -> Result<Vec<UploadRecord>> {
        let sql = select!("WHERE expires_at <= $1 ORDER BY expires_at, id LIMIT $2");
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(millis(now))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_record).collect()
    }

    /// Bytes of an organisation's files, for its limit.
    pub async fn uploaded_bytes(&self, organisation: Id<Organisation>) -> Result<u64> {
        let mut reader = Reader::acquire(&self.database).await?;
        bytes_of(&mut reader.connection(), organisation).await
    }

    /// Whether anybody knows of it.
    pub async fn has_upload(&self, upload: Id<Upload>) -> Result<bool> {
        const SQL: &str = "SELECT count(*) FROM uploads WHERE id = $1";
        let mut reader = Reader::acquire(&self.database).await?;
        let there: i64 = on!(&mut reader.connection(), c => sqlx::query_scalar(SQL)
            .bind(upload.to_string())
            .fetch_one(c)
            .await)?;
        Ok(there > 0)
    }
}

async fn bytes_of(connection: &mut Connection<'_>, organisation: Id<Organisation>) -> Result<u64> {
    const SQL: &str = "SELECT CAST(coalesce(sum(size), 0) AS BIGINT) FROM uploads
        WHERE organisation_id = $1";
    let bytes: i64 = on!(connection, c => sqlx::query_scalar(SQL)
        .bind(organisation.to_string())
        .fetch_one(c)
        .await)?;
    count(bytes)
}

#[derive(FromRow)]
struct Row {
    id: String,
    organisation_id: String,
    created_by: Option<String>,
    name: String,
    media_type: String,
    size: i64,
    digest: String,
    created_at: i64,
    expires_at: i64,
}

impl Row {
    fn into_record(self) -> Result<UploadRecord> {
        Ok(UploadRecord {
            id: id(&self.id)?,
            organisation: id(&self.organisation_id)?,
            created_by: maybe_id(self.created_by.as_deref())?,
            name: self.name,
            media_type: self.media_type,
            size: count(self.size)?,
            digest: self.digest,
            created_at: time(self.created_at)?,
            expires_at: time(self.expires_at)?,
        })
    }
}
