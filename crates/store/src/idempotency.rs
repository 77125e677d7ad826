//! Requests that are done once, however often they are sent.
//!
//! Whoever begins has a lease. If it dies, the next one with the same request begins anew once the
//! lease is over: what a request does must itself bear being done again. Answers are kept as they
//! are, so one that may show a secret is sealed before.

use model::{Id, Organisation, Timestamp};
use sqlx::FromRow;

use crate::columns::millis;
use crate::connection::{changed, on};
use crate::limits::{self, within};
use crate::{Error, Result, Tx};

/// By which right somebody answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    organisation: Id<Organisation>,
    key: String,
    number: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Do it, and finish.
    New(Attempt),
    /// It was done, and this was the answer.
    Finished { status: u16, body: String },
    /// Somebody is at it.
    Running,
    /// The key was used for another request.
    Different,
}

impl Tx {
    /// The request is a digest of all that makes it what it is.
    pub async fn begin_request(
        &mut self,
        organisation: Id<Organisation>,
        key: &str,
        request: &str,
        now: Timestamp,
        lease_until: Timestamp,
    ) -> Result<Begun> {
        const NEW: &str = "INSERT INTO idempotency
            (organisation_id, key, request, attempt, lease_until, created_at)
            VALUES ($1, $2, $3, 1, $4, $5) ON CONFLICT (organisation_id, key) DO NOTHING";
        const FIND: &str = "SELECT request, attempt, lease_until, status, body FROM idempotency
            WHERE organisation_id = $1 AND key = $2";
        const AGAIN: &str = "UPDATE idempotency SET attempt = attempt + 1, lease_until = $4
            WHERE organisation_id = $1 AND key = $2 AND attempt = $3 AND status IS NULL";
        within("the idempotency key", key, limits::NAME)?;
        within("a digest", request, limits::NAME)?;
        let owner = organisation.to_string();
        let attempt = |number| Attempt {
            organisation,
            key: key.to_owned(),
            number,
        };
        let until = millis(lease_until);
        let new = changed!(
            &mut self.connection(),
            NEW,
            [&owner, key, request, until, millis(now)]
        )?;
        if new == 1 {
            return Ok(Begun::New(attempt(1)));
        }
        let row: Option<Row> = on!(&mut self.connection(), c => sqlx::query_as(FIND)
            .bind(&owner)
            .bind(key)
            .fetch_optional(c)
            .await)?;
        // It was there a moment ago, and is being forgotten.
        let Some(row) = row else {
            return Ok(Begun::Running);
        };
        if row.request != request {
            return Ok(Begun::Different);
        }
        if let (Some(status), Some(body)) = (row.status, row.body) {
            let status = u16::try_from(status).map_err(|e| Error::unreadable("status", &e))?;
            return Ok(Begun::Finished { status, body });
        }
        if row.lease_until > millis(now) {
            return Ok(Begun::Running);
        }
        let again = changed!(
            &mut self.connection(),
            AGAIN,
            [&owner, key, row.attempt, until]
        )?;
        Ok(match again {
            1 => Begun::New(attempt(row.attempt + 1)),
            _ => Begun::Running,
        })
    }

    /// Whoever is at it still is. False when the lease was over and somebody else began.
    pub async fn renew_request(
        &mut self,
        attempt: &Attempt,
        lease_until: Timestamp,
    ) -> Result<bool> {
        const SQL: &str = "UPDATE idempotency SET lease_until = $4
            WHERE organisation_id = $1 AND key = $2 AND attempt = $3 AND status IS NULL";
        let renewed = changed!(
            &mut self.connection(),
            SQL,
            [
                attempt.organisation.to_string(),
                &attempt.key,
                attempt.number,
                millis(lease_until)
            ]
        )?;
        Ok(renewed == 1)
    }

    /// False when the lease was over and somebody else began: theirs is the answer.
    pub async fn finish_request(
        &mut self,
        attempt: &Attempt,
        status: u16,
        body: &str,
    ) -> Result<bool> {
        const SQL: &str = "UPDATE idempotency SET status = $4, body = $5
            WHERE organisation_id = $1 AND key = $2 AND attempt = $3 AND status IS NULL";
        within("the answer", body, limits::DOCUMENT)?;
        let done = changed!(
            &mut self.connection(),
            SQL,
            [
                attempt.organisation.to_string(),
                &attempt.key,
                attempt.number,
                i64::from(status),
                body
            ]
        )?;
        Ok(done == 1)
    }

    /// Nothing was done: whoever comes next may begin at once.
    pub async fn forget_request(&mut self, attempt: &Attempt) -> Result<()> {
        const SQL: &str = "DELETE FROM idempotency
            WHERE organisation_id = $1 AND key = $2 AND attempt = $3 AND status IS NULL";
        changed!(
            &mut self.connection(),
            SQL,
            [
                attempt.organisation.to_string(),
                &attempt.key,
                attempt.number
            ]
        )?;
        Ok(())
    }

    /// Those that began before then, unless somebody is at them. How many.
    pub async fn expire_requests(&mut self, before: Timestamp, now: Timestamp) -> Result<u64> {
        const SQL: &str = "DELETE FROM idempotency
            WHERE created_at < $1 AND (status IS NOT NULL OR lease_until <= $2)";
        Ok(changed!(
            &mut self.connection(),
            SQL,
            [millis(before), millis(now)]
        )?)
    }
}

#[derive(FromRow)]
struct Row {
    request: String,
    attempt: i64,
    lease_until: i64,
    status: Option<i64>,
    body: Option<String>,
}
