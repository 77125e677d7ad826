//! The rows under the queue of jobs. How they are run is the business of the crate `jobs`.
//!
//! ```text
//!            claim (attempt + 1)         finish
//!  queued ──────────────────────► leased ──────► (gone)
//!    ▲  ◄── put back, lease over ───┤
//!    │                              └── fail ──► failed, until it is forgotten
//!    └── enqueue: one row for a kind and key; a second takes its place
//! ```

use model::{Id, Job, Session, Timestamp};
use sqlx::FromRow;

use crate::columns::{count, id, maybe_id, maybe_time, millis, number, time};
use crate::connection::{changed, on};
use crate::limits::{self, cut, within};
use crate::tx::Reader;
use crate::{Error, Fenced, Result, Store, Tx, dialect};

#[derive(Debug, Clone)]
pub struct NewJob {
    /// Used when there is no job of this kind and key in the queue.
    pub id: Id<Job>,
    pub kind: String,
    /// Of those with one kind and key, one waits.
    pub key: String,
    /// As JSON.
    pub payload: String,
    pub run_at: Timestamp,
    pub at: Timestamp,
}

/// Somebody's to run, until the lease is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub id: Id<Job>,
    pub kind: String,
    pub key: String,
    pub session: Option<Id<Session>>,
    pub payload: String,
    /// From 1. Told back with the outcome, so that who lost the lease is not heard.
    pub attempt: u64,
    pub run_at: Timestamp,
    pub created_at: Timestamp,
    /// Why it failed the last time.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub id: Id<Job>,
    pub kind: String,
    pub key: String,
    pub session: Option<Id<Session>>,
    pub payload: String,
    pub run_at: Timestamp,
    pub attempt: u64,
    pub leased_until: Option<Timestamp>,
    pub reason: Option<String>,
    pub failed_at: Option<Timestamp>,
}

/// A job whose worker did not say how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub id: Id<Job>,
    pub owner: String,
    pub attempt: u64,
    pub until: Timestamp,
}

/// What came of telling an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    Yes,
    /// It went back to the queue, and a newer one with its key was there: that one stays.
    Superseded,
    /// The lease was over, and the job is somebody else's now.
    TooLate,
}

impl Tx {
    /// A job that belongs to no session; one of a session is put in by its owner. In the queue it
    /// takes the place of another with its kind and key.
    pub async fn enqueue(&mut self, job: &NewJob) -> Result<()> {
        enqueue(self, job, None).await
    }

    /// Takes it out of the queue. One that runs goes on.
    pub async fn cancel_job(&mut self, kind: &str, key: &str) -> Result<bool> {
        const SQL: &str = "DELETE FROM jobs
            WHERE kind = $1 AND key = $2 AND lease_owner IS NULL AND failed_at IS NULL";
        Ok(changed!(&mut self.connection(), SQL, [kind, key])? > 0)
    }
}

impl Fenced<'_> {
    /// A job of this session; it goes when the session is deleted.
    pub async fn enqueue(&mut self, job: &NewJob) -> Result<()> {
        let session = self.session();
        enqueue(self.tx, job, Some(session)).await
    }

    pub async fn cancel_job(&mut self, kind: &str, key: &str) -> Result<bool> {
        self.tx.cancel_job(kind, key).await
    }

    /// All that wait.
    pub async fn cancel_jobs(&mut self) -> Result<u64> {
        const SQL: &str = "DELETE FROM jobs
            WHERE session_id = $1 AND lease_owner IS NULL AND failed_at IS NULL";
        let id = self.id();
        Ok(changed!(&mut self.connection(), SQL, [&id])?)
    }
}

async fn enqueue(tx: &mut Tx, job: &NewJob, session: Option<Id<Session>>) -> Result<()> {
    const SQL: &str = "INSERT INTO jobs
        (id, kind, key, session_id, payload, run_at, attempt, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, 0, $7)
        ON CONFLICT (kind, key) WHERE lease_owner IS NULL AND failed_at IS NULL DO UPDATE SET
            payload = excluded.payload, run_at = excluded.run_at, attempt = 0, reason = NULL,
            session_id = excluded.session_id, created_at = excluded.created_at";
    within("a job's kind", &job.kind, limits::NAME)?;
    within("a job's key", &job.key, limits::NAME)?;
    within("a job", &job.payload, limits::DOCUMENT)?;
    changed!(
        &mut tx.connection(),
        SQL,
        [
            job.id.to_string(),
            &job.kind,
            &job.key,
            session.map(|id| id.to_string()),
            &job.payload,
            millis(job.run_at),
            millis(job.at)
        ]
    )?;
    tx.has_queued();
    Ok(())
}

impl Store {
    /// Resolves when this process has put a job into the queue since it was last asked.
    pub async fn job_queued(&self) {
        self.jobs.notified().await;
    }

    /// Jobs of a kind that are due, the longest due first, for `owner` until `until`.
    pub async fn claim_jobs(
        &self,
        kind: &str,
        owner: &str,
        now: Timestamp,
        until: Timestamp,
        limit: u32,
    ) -> Result<Vec<Claimed>> {
        within("the owner's name", owner, limits::NAME)?;
        let mut tx = self.begin().await?;
        let mut connection = tx.connection();
        let sql = dialect::CLAIM.on(&connection);
        let rows: Vec<ClaimedRow> = on!(&mut connection, c => sqlx::query_as(sql)
            .bind(owner)
            .bind(millis(until))
            .bind(millis(now))
            .bind(kind)
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        tx.commit().await?;
        let mut claimed: Vec<Claimed> = rows
            .into_iter()
            .map(ClaimedRow::into_claimed)
            .collect::<Result<_>>()?;
        claimed.sort_by_key(|job| (job.run_at, job.id));
        Ok(claimed)
    }

    /// When the next job of these kinds is due, if one waits.
    pub async fn next_job_at(&self, kinds: &[&str]) -> Result<Option<Timestamp>> {
        const SQL: &str = "SELECT min(run_at) FROM jobs
            WHERE kind = $1 AND lease_owner IS NULL AND failed_at IS NULL";
        let mut reader = Reader::acquire(&self.database).await?;
        let mut next: Option<Timestamp> = None;
        for kind in kinds {
            let at: Option<i64> = on!(&mut reader.connection(), c =>
                sqlx::query_scalar(SQL).bind(*kind).fetch_one(c).await)?;
            next = [next, maybe_time(at)?].into_iter().flatten().min();
        }
        Ok(next)
    }

    pub async fn renew_job(&self, job: &Claimed, owner: &str, until: Timestamp) -> Result<Heard> {
        const SQL: &str = "UPDATE jobs SET lease_until = $4
            WHERE id = $1 AND lease_owner = $2 AND attempt = $3";
        let mut tx = self.begin().await?;
        let renewed = changed!(
            &mut tx.connection(),
            SQL,
            [
                job.id.to_string(),
                owner,
                number(job.attempt),
                millis(until)
            ]
        )?;
        tx.commit().await?;
        Ok(heard(renewed))
    }

    pub async fn finish_job(&self, job: &Claimed, owner: &str) -> Result<Heard> {
        const SQL: &str = "DELETE FROM jobs WHERE id = $1 AND lease_owner = $2 AND attempt = $3";
        let mut tx = self.begin().await?;
        let finished = changed!(
            &mut tx.connection(),
            SQL,
            [job.id.to_string(), owner, number(job.attempt)]
        )?;
        tx.commit().await?;
        Ok(heard(finished))
    }

    /// It will not be tried again, and stays to be looked at.
    pub async fn fail_job(
        &self,
        job: &Claimed,
        owner: &str,
        reason: &str,
        at: Timestamp,
    ) -> Result<Heard> {
        const SQL: &str = "UPDATE jobs
            SET lease_owner = NULL, lease_until = NULL, failed_at = $5, reason = $4
            WHERE id = $1 AND lease_owner = $2 AND attempt = $3";
        let mut tx = self.begin().await?;
        let failed = changed!(
            &mut tx.connection(),
            SQL,
            [
                job.id.to_string(),
                owner,
                number(job.attempt),
                cut(reason, limits::REASON),
                millis(at)
            ]
        )?;
        tx.commit().await?;
        Ok(heard(failed))
    }

    /// Back to the queue, to be tried again at `run_at`. An attempt that did not count, because
    /// nobody had begun it, is taken off again.
    pub async fn put_back_job(
        &self,
        job: &Claimed,
        owner: &str,
        run_at: Timestamp,
        why: PutBack<'_>,
    ) -> Result<Heard> {
        let back = Back {
            id: job.id.to_string(),
            owner: owner.to_owned(),
            attempt: number(job.attempt),
            until: i64::MAX,
            run_at: millis(run_at),
            counted: i64::from(matches!(why, PutBack::Failed { .. })),
            reason: match why {
                PutBack::Failed { reason } => cut(reason, limits::REASON),
                PutBack::Unbegun => job.reason.clone().unwrap_or_default(),
            },
        };
        self.back_or_superseded(&back).await
    }

    /// Jobs whose lease is over: their workers are gone, or slow. At most a page of them.
    pub async fn lost_jobs(&self, now: Timestamp) -> Result<Vec<Lost>> {
        const SQL: &str = "SELECT id, lease_owner, attempt, lease_until FROM jobs
            WHERE lease_owner IS NOT NULL AND lease_until <= $1 ORDER BY lease_until LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<(String, String, i64, i64)> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
                .bind(millis(now))
                .bind(limits::page(limits::PAGE))
                .fetch_all(c)
                .await)?;
        rows.into_iter()
            .map(|(job, owner, attempt, until)| {
                Ok(Lost {
                    id: id(&job)?,
                    owner,
                    attempt: count(attempt)?,
                    until: time(until)?,
                })
            })
            .collect()
    }

    /// Gives a lost job back to the queue, unless its lease was renewed after all.
    pub async fn requeue_job(&self, lost: &Lost, now: Timestamp) -> Result<Heard> {
        let back = Back {
            id: lost.id.to_string(),
            reason: format!("{} did not say how it ended", lost.owner),
            owner: lost.owner.clone(),
            attempt: number(lost.attempt),
            until: millis(lost.until),
            run_at: millis(now),
            counted: 1,
        };
        self.back_or_superseded(&back).await
    }

    async fn back_or_superseded(&self, back: &Back) -> Result<Heard> {
        const SUPERSEDED: &str = "DELETE FROM jobs
            WHERE id = $1 AND lease_owner = $2 AND attempt = $3 AND lease_until <= $4
              AND EXISTS (SELECT 1 FROM jobs newer
                          WHERE newer.kind = jobs.kind AND newer.key = jobs.key
                            AND newer.lease_owner IS NULL AND newer.failed_at IS NULL)";
        const BACK: &str = "UPDATE jobs
            SET lease_owner = NULL, lease_until = NULL, run_at = $5, reason = $6,
                attempt = attempt - 1 + $7
            WHERE id = $1 AND lease_owner = $2 AND attempt = $3 AND lease_until <= $4";
        // With PostgreSQL a newer one may come between the two statements; the second time round
        // it is seen.
        for _ in 0..3 {
            let mut tx = self.begin().await?;
            if changed!(
                &mut tx.connection(),
                SUPERSEDED,
                [&back.id, &back.owner, back.attempt, back.until]
            )? == 1
            {
                tx.commit().await?;
                return Ok(Heard::Superseded);
            }
            match changed!(
                &mut tx.connection(),
                BACK,
                [
                    &back.id,
                    &back.owner,
                    back.attempt,
                    back.until,
                    back.run_at,
                    &back.reason,
                    back.counted
                ]
            )
            .map_err(Error::from)
            {
                Ok(returned) => {
                    tx.has_queued();
                    tx.commit().await?;
                    return Ok(heard(returned));
                }
                Err(Error::Forbidden { .. }) => tx.rollback().await?,
                Err(error) => return Err(error),
            }
        }
        Err(Error::Full("the way back into the queue"))
    }

    /// Forgets failures that nobody needs to look at any more.
    pub async fn forget_failed_jobs(&self, before: Timestamp) -> Result<u64> {
        const SQL: &str = "DELETE FROM jobs WHERE failed_at < $1";
        let mut tx = self.begin().await?;
        let forgotten = changed!(&mut tx.connection(), SQL, [millis(before)])?;
        tx.commit().await?;
        Ok(forgotten)
    }

    /// Every row of a kind, by key and age: to look at, not to work from.
    pub async fn list_jobs(&self, kind: &str, limit: u32) -> Result<Vec<Record>> {
        const SQL: &str = "SELECT id, kind, key, session_id, payload, run_at, attempt, lease_until,
                reason, failed_at
            FROM jobs WHERE kind = $1 ORDER BY key, id LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(kind)
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_record).collect()
    }
}

/// Why a job goes back to the queue.
#[derive(Debug, Clone, Copy)]
pub enum PutBack<'a> {
    Failed {
        reason: &'a str,
    },
    /// It was claimed, and nobody began it.
    Unbegun,
}

struct Back {
    id: String,
    owner: String,
    attempt: i64,
    /// A lease that ends later was renewed.
    until: i64,
    run_at: i64,
    counted: i64,
    reason: String,
}

fn heard(changed: u64) -> Heard {
    if changed == 1 {
        Heard::Yes
    } else {
        Heard::TooLate
    }
}

#[derive(FromRow)]
struct ClaimedRow {
    id: String,
    kind: String,
    key: String,
    session_id: Option<String>,
    payload: String,
    run_at: i64,
    attempt: i64,
    created_at: i64,
    reason: Option<String>,
}

impl ClaimedRow {
    fn into_claimed(self) -> Result<Claimed> {
        Ok(Claimed {
            id: id(&self.id)?,
            kind: self.kind,
            key: self.key,
            session: maybe_id(self.session_id.as_deref())?,
            payload: self.payload,
            attempt: count(self.attempt)?,
            run_at: time(self.run_at)?,
            created_at: time(self.created_at)?,
            reason: self.reason,
        })
    }
}

#[derive(FromRow)]
struct Row {
    id: String,
    kind: String,
    key: String,
    session_id: Option<String>,
    payload: String,
    run_at: i64,
    attempt: i64,
    lease_until: Option<i64>,
    reason: Option<String>,
    failed_at: Option<i64>,
}

impl Row {
    fn into_record(self) -> Result<Record> {
        Ok(Record {
            id: id(&self.id)?,
            kind: self.kind,
            key: self.key,
            session: maybe_id(self.session_id.as_deref())?,
            payload: self.payload,
            run_at: time(self.run_at)?,
            attempt: count(self.attempt)?,
            leased_until: maybe_time(self.lease_until)?,
            reason: self.reason,
            failed_at: maybe_time(self.failed_at)?,
        })
    }
}
