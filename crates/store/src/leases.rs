//! Who owns a session. A term belongs to one owner: it is raised when one takes over and when one
//! lets go, so that whoever owned it before can write nothing more.

use model::{Id, Session, Timestamp};

use crate::columns::{count, id, millis, number, time};
use crate::connection::{changed, on};
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Error, Fence, Result, Store};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub session: Id<Session>,
    pub owner: String,
    pub term: u64,
    pub expires_at: Timestamp,
}

impl Store {
    /// Makes `owner` the owner of a session that has none, or whose owner let its lease run out.
    /// Asked by the owner itself it takes over from its former self: the term is raised.
    pub async fn take_over(
        &self,
        session: Id<Session>,
        owner: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Fence> {
        const RAISE: &str = "UPDATE sessions SET term = term + 1 WHERE id = $1 RETURNING term";
        // A statement of its own: having waited for the row above, it sees a lease that was made
        // in the meantime.
        const LEASE: &str =
            "INSERT INTO leases (session_id, owner, term, expires_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (session_id) DO UPDATE
                SET owner = excluded.owner, term = excluded.term, expires_at = excluded.expires_at
                WHERE leases.expires_at <= $5 OR leases.owner = excluded.owner";
        const HOLDER: &str = "SELECT owner FROM leases WHERE session_id = $1";
        within("the owner's name", owner, limits::NAME)?;
        let mut tx = self.begin().await?;
        let raised: Option<i64> = on!(&mut tx.connection(), c => sqlx::query_scalar(RAISE)
            .bind(session.to_string())
            .fetch_optional(c)
            .await)?;
        let term = count(raised.ok_or(Error::NotFound("session"))?)?;
        let leased = changed!(
            &mut tx.connection(),
            LEASE,
            [
                session.to_string(),
                owner,
                number(term),
                millis(until),
                millis(now)
            ]
        )?;
        if leased == 0 {
            let owner = on!(&mut tx.connection(), c => sqlx::query_scalar(HOLDER)
                .bind(session.to_string())
                .fetch_one(c)
                .await)?;
            tx.rollback().await?;
            return Err(Error::Held { owner });
        }
        tx.commit().await?;
        Ok(Fence { session, term })
    }

    /// Sessions that this owner has, or had when it ended. Give the last one to go on after it.
    pub async fn leased_sessions(
        &self,
        owner: &str,
        after: Option<Id<Session>>,
        limit: u32,
    ) -> Result<Vec<Id<Session>>> {
        const SQL: &str = "SELECT session_id FROM leases
            WHERE owner = $1 AND session_id > $2 ORDER BY session_id LIMIT $3";
        let mut reader = Reader::acquire(&self.database).await?;
        let ids: Vec<String> = on!(&mut reader.connection(), c => sqlx::query_scalar(SQL)
            .bind(owner)
            .bind(after.map_or(String::new(), |id| id.to_string()))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        ids.iter().map(|text| id(text)).collect()
    }

    /// Puts the end of many leases off at once. Answers those whose term is over: their owners have
    /// to stop.
    pub async fn renew(&self, fences: &[Fence], until: Timestamp) -> Result<Vec<Fence>> {
        const SQL: &str = "UPDATE leases SET expires_at = $3 WHERE session_id = $1 AND term = $2";
        let mut lost = Vec::new();
        // Others must not wait for long.
        for some in fences.chunks(64) {
            let mut tx = self.begin().await?;
            let mut some = some.to_vec();
            // In one order everywhere, so that two who lock several rows do not lock each other out.
            some.sort_by_key(|fence| fence.session);
            for fence in some {
                let renewed = changed!(
                    &mut tx.connection(),
                    SQL,
                    [fence.session.to_string(), number(fence.term), millis(until)]
                )?;
                if renewed == 0 {
                    lost.push(fence);
                }
            }
            tx.commit().await?;
        }
        Ok(lost)
    }

    /// Lets a session go. What the former owner still tries to write is refused.
    pub async fn release(&self, fence: Fence) -> Result<()> {
        let mut tx = self.begin().await?;
        tx.fenced(fence).await?.release().await?;
        tx.commit().await
    }

    pub async fn find_lease(&self, session: Id<Session>) -> Result<Option<Lease>> {
        const SQL: &str =
            "SELECT session_id, owner, term, expires_at FROM leases WHERE session_id = $1";
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Option<(String, String, i64, i64)> = on!(&mut reader.connection(), c =>
            sqlx::query_as(SQL).bind(session.to_string()).fetch_optional(c).await)?;
        row.map(|(session, owner, term, expires_at)| {
            Ok(Lease {
                session: id(&session)?,
                owner,
                term: count(term)?,
                expires_at: time(expires_at)?,
            })
        })
        .transpose()
    }
}

impl crate::Fenced<'_> {
    /// As [`Store::release`], together with what else is written: the last thing an owner does.
    pub async fn release(mut self) -> Result<()> {
        const LET_GO: &str = "DELETE FROM leases WHERE session_id = $1";
        const RAISE: &str = "UPDATE sessions SET term = term + 1 WHERE id = $1 AND term = $2";
        let (id, term) = (self.id(), number(self.fence.term));
        changed!(&mut self.connection(), LET_GO, [&id])?;
        let raised = changed!(&mut self.connection(), RAISE, [&id, term])?;
        self.one(raised)
    }
}
