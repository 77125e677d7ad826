//! Snapshots, as records: what a provider keeps, and the receipt for it.

use model::{Id, Organisation, Session, Timestamp};
use sqlx::FromRow;

use crate::columns::{count, id, maybe_count, maybe_id, maybe_time, millis, number, time, words};
use crate::connection::{changed, on};
use crate::limits::{self, cut, within};
use crate::tx::Reader;
use crate::{Error, Fenced, Result, Store, Tx};

words! {
    Kind ("kind of a snapshot") {
        Disk = "disk",
        Base = "base",
        Memory = "memory",
        /// A sandbox that stands still.
        Pause = "pause",
    }
}

words! {
    /// What was kept.
    Kept ("receipt") {
        Disk = "disk",
        Memory = "memory",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// With its provider and kind.
    pub id: String,
    pub organisation: Option<Id<Organisation>>,
    pub session: Option<Id<Session>>,
    pub generation: Option<u64>,
    pub provider: String,
    pub kind: Kind,
    pub kept: Kept,
    /// Of a sandbox that died.
    pub recovered: bool,
    /// Somebody asked for it: it is kept until somebody gives it up.
    pub wanted: bool,
    pub message: Option<String>,
    pub sizes: Option<Sizes>,
    pub took_ms: Option<u64>,
    pub frozen_ms: Option<u64>,
    pub created_at: Timestamp,
    pub removed_at: Option<Timestamp>,
}

/// Computed after the snapshot was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    pub digest: String,
    pub bytes: u64,
    pub files: u64,
}

impl Fenced<'_> {
    /// Of this session. Written again it stays as it was.
    pub async fn record_snapshot(&mut self, snapshot: &Snapshot) -> Result<()> {
        let session = self.session();
        insert(self.tx, snapshot, Some(session)).await
    }
}

impl Tx {
    /// Of no session: a base, or one that was brought from elsewhere.
    pub async fn record_snapshot(&mut self, snapshot: &Snapshot) -> Result<()> {
        insert(self, snapshot, None).await
    }

    pub async fn complete_snapshot(&mut self, snapshot: &str, sizes: &Sizes) -> Result<()> {
        const SQL: &str = "UPDATE snapshots SET digest = $2, bytes = $3, files = $4 WHERE id = $1";
        within("a digest", &sizes.digest, limits::NAME)?;
        match changed!(
            &mut self.connection(),
            SQL,
            [
                snapshot,
                &sizes.digest,
                number(sizes.bytes),
                number(sizes.files)
            ]
        )? {
            0 => Err(Error::NotFound("snapshot")),
            _ => Ok(()),
        }
    }

    /// From here on nobody begins from it; its provider may give it up. False, and nothing is
    /// changed, while a session goes on from it: its own, a fork, or one that was made from it.
    pub async fn give_up_snapshot(
        &mut self,
        snapshot: &str,
        unless: Needed,
        at: Timestamp,
    ) -> Result<bool> {
        const NEEDED: &str = "SELECT count(*) FROM sessions
            WHERE (snapshot_id = $1 AND ($2 = 1 OR status <> 'stopped'))
               OR (status <> 'stopped' AND spec LIKE '%\"' || $1 || '\"%')";
        const SQL: &str =
            "UPDATE snapshots SET removed_at = coalesce(removed_at, $2) WHERE id = $1";
        if !self.claim_snapshot(snapshot).await? {
            return Err(Error::NotFound("snapshot"));
        }
        let needed: i64 = on!(&mut self.connection(), c => sqlx::query_scalar(NEEDED)
            .bind(snapshot)
            .bind(i64::from(unless == Needed::ByAny))
            .fetch_one(c)
            .await)?;
        if needed > 0 {
            return Ok(false);
        }
        changed!(&mut self.connection(), SQL, [snapshot, millis(at)])?;
        Ok(true)
    }

    /// Holds it against everybody who would give it up, or begin from it, until this is committed.
    /// False when it was given up, or nobody knows it.
    pub(crate) async fn claim_snapshot(&mut self, snapshot: &str) -> Result<bool> {
        const SQL: &str =
            "UPDATE snapshots SET removed_at = NULL WHERE id = $1 AND removed_at IS NULL";
        Ok(changed!(&mut self.connection(), SQL, [snapshot])? > 0)
    }

    /// Its provider has given it up; its receipt stays.
    pub async fn snapshot_is_gone(&mut self, snapshot: &str, at: Timestamp) -> Result<()> {
        const SQL: &str = "UPDATE snapshots
            SET gone_at = coalesce(gone_at, $2), removed_at = coalesce(removed_at, $2)
            WHERE id = $1";
        match changed!(&mut self.connection(), SQL, [snapshot, millis(at)])? {
            0 => Err(Error::NotFound("snapshot")),
            _ => Ok(()),
        }
    }
}

/// Who keeps a snapshot from being given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// Whoever may still run from it.
    ByRunnable,
    /// A session that is stopped too: it can be forked.
    ByAny,
}

async fn insert(tx: &mut Tx, snapshot: &Snapshot, session: Option<Id<Session>>) -> Result<()> {
    const SQL: &str = "INSERT INTO snapshots
        (id, organisation_id, session_id, generation, provider, kind, kept, recovered, message,
         digest, bytes, files, took_ms, frozen_ms, created_at, wanted)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
        ON CONFLICT (id) DO NOTHING";
    within("a snapshot's id", &snapshot.id, limits::NAME)?;
    within("the provider's name", &snapshot.provider, limits::NAME)?;
    let sizes = snapshot.sizes.as_ref();
    changed!(
        &mut tx.connection(),
        SQL,
        [
            &snapshot.id,
            snapshot.organisation.map(|id| id.to_string()),
            session.map(|id| id.to_string()),
            snapshot.generation.map(number),
            &snapshot.provider,
            snapshot.kind.as_str(),
            snapshot.kept.as_str(),
            i64::from(snapshot.recovered),
            snapshot
                .message
                .as_deref()
                .map(|text| cut(text, limits::REASON)),
            sizes.map(|sizes| sizes.digest.as_str()),
            sizes.map(|sizes| number(sizes.bytes)),
            sizes.map(|sizes| number(sizes.files)),
            snapshot.took_ms.map(number),
            snapshot.frozen_ms.map(number),
            millis(snapshot.created_at),
            i64::from(snapshot.wanted)
        ]
    )?;
    Ok(())
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, organisation_id, session_id, generation, provider, kind, kept, recovered,
                message, digest, bytes, files, took_ms, frozen_ms, created_at, removed_at, wanted
             FROM snapshots ",
            $rest
        )
    };
}

impl Store {
    pub async fn find_snapshot(&self, snapshot: &str) -> Result<Option<Snapshot>> {
        let sql = select!("WHERE id = $1");
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Option<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(snapshot)
            .fetch_optional(c)
            .await)?;
        row.map(Row::into_snapshot).transpose()
    }

    /// Disks that are still there and of which nobody knows yet how much is in them, the newest
    /// first: their id and their provider.
    pub async fn unmeasured_snapshots(
        &self,
        since: Timestamp,
        limit: u32,
    ) -> Result<Vec<(String, String)>> {
        const SQL: &str = "SELECT id, provider FROM snapshots
            WHERE digest IS NULL AND removed_at IS NULL AND kind IN ('disk', 'base')
              AND created_at >= $1
            ORDER BY created_at DESC LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let found = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(millis(since))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        Ok(found)
    }

    /// Disks that nobody asked for and that at least `keep` newer ones of their session follow, the
    /// oldest first. Some may still be needed.
    pub async fn superseded_snapshots(&self, keep: u32, limit: u32) -> Result<Vec<String>> {
        const SQL: &str = "SELECT old.id FROM snapshots AS old
            WHERE old.removed_at IS NULL AND old.wanted = 0 AND old.kind IN ('disk', 'memory')
              AND old.session_id IS NOT NULL
              AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.snapshot_id = old.id)
              AND (SELECT count(*) FROM snapshots AS newer
                   WHERE newer.session_id = old.session_id AND newer.removed_at IS NULL
                     AND newer.wanted = 0 AND newer.kind IN ('disk', 'memory')
                     AND (newer.created_at > old.created_at
                          OR (newer.created_at = old.created_at AND newer.id > old.id))) >= $1
            ORDER BY old.created_at LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let found = on!(&mut reader.connection(), c => sqlx::query_scalar(SQL)
            .bind(i64::from(keep))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        Ok(found)
    }

    /// Those that nobody begins from any more and that are still at their provider: their id and
    /// their provider. Give the last one to go on after it.
    pub async fn given_up_snapshots(
        &self,
        after: &str,
        limit: u32,
    ) -> Result<Vec<(String, String)>> {
        const SQL: &str = "SELECT id, provider FROM snapshots
            WHERE removed_at IS NOT NULL AND gone_at IS NULL AND id > $1
              AND kind IN ('disk', 'memory', 'base')
            ORDER BY id LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let found = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(after)
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        Ok(found)
    }

    /// Those that are still there, the newest first.
    pub async fn session_snapshots(
        &self,
        session: Id<Session>,
        before: Option<&Before>,
        limit: u32,
    ) -> Result<Vec<Snapshot>> {
        let sql = select!(
            "WHERE session_id = $1 AND removed_at IS NULL
                AND ($2 = '' OR created_at < $3 OR (created_at = $3 AND id < $2))
             ORDER BY created_at DESC, id DESC LIMIT $4"
        );
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(session.to_string())
            .bind(before.map_or("", |before| &*before.id))
            .bind(before.map_or(0, |before| millis(before.at)))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_snapshot).collect()
    }
}

/// Where a listing goes on: after the snapshot with this id, taken then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    pub at: Timestamp,
    pub id: String,
}

impl Store {
    /// Of all sessions of an organisation, and its own; those that are still there, the newest first.
    pub async fn organisation_snapshots(
        &self,
        organisation: Id<Organisation>,
        before: Option<&Before>,
        limit: u32,
    ) -> Result<Vec<Snapshot>> {
        let sql = select!(
            "WHERE removed_at IS NULL
                AND (organisation_id = $1
                    OR session_id IN (SELECT id FROM sessions WHERE organisation_id = $1))
                AND ($2 = '' OR created_at < $3 OR (created_at = $3 AND id < $2))
             ORDER BY created_at DESC, id DESC LIMIT $4"
        );
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(organisation.to_string())
            .bind(before.map_or("", |before| &*before.id))
            .bind(before.map_or(0, |before| millis(before.at)))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_snapshot).collect()
    }
}

#[derive(FromRow)]
struct Row {
    id: String,
    organisation_id: Option<String>,
    session_id: Option<String>,
    generation: Option<i64>,
    provider: String,
    kind: String,
    kept: String,
    recovered: i64,
    message: Option<String>,
    digest: Option<String>,
    bytes: Option<i64>,
    files: Option<i64>,
    took_ms: Option<i64>,
    frozen_ms: Option<i64>,
    created_at: i64,
    removed_at: Option<i64>,
    wanted: i64,
}

impl Row {
    fn into_snapshot(self) -> Result<Snapshot> {
        let sizes = match (self.digest, self.bytes, self.files) {
            (Some(digest), Some(bytes), Some(files)) => Some(Sizes {
                digest,
                bytes: count(bytes)?,
                files: count(files)?,
            }),
            _ => None,
        };
        Ok(Snapshot {
            id: self.id,
            organisation: maybe_id(self.organisation_id.as_deref())?,
            session: self.session_id.as_deref().map(id).transpose()?,
            generation: maybe_count(self.generation)?,
            provider: self.provider,
            kind: Kind::read(&self.kind)?,
            kept: Kept::read(&self.kept)?,
            recovered: self.recovered != 0,
            wanted: self.wanted != 0,
            message: self.message,
            sizes,
            took_ms: maybe_count(self.took_ms)?,
            frozen_ms: maybe_count(self.frozen_ms)?,
            created_at: time(self.created_at)?,
            removed_at: maybe_time(self.removed_at)?,
        })
    }
}
