use model::{Id, Session};

use crate::columns::{count, number};
use crate::connection::{Connection, on};
use crate::{Error, Result, Tx, dialect};

/// By which right somebody writes to a session: as its owner of this term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fence {
    pub session: Id<Session>,
    pub term: u64,
}

/// A session in a transaction, and the only way to write to one. While it is there, nobody can take
/// the session over: whoever tries waits for the commit.
#[derive(Debug)]
pub struct Fenced<'t> {
    pub(crate) tx: &'t mut Tx,
    pub(crate) fence: Fence,
    pub(crate) last_seq: u64,
    pub(crate) first_seq: u64,
    pub(crate) last_prompt: u64,
}

impl Tx {
    /// Fails when the term is over.
    pub async fn fenced(&mut self, fence: Fence) -> Result<Fenced<'_>> {
        let mut connection = self.connection();
        let sql = dialect::FENCE.on(&connection);
        let row: Option<(i64, i64, i64)> = on!(&mut connection, c => sqlx::query_as(sql)
            .bind(fence.session.to_string())
            .bind(number(fence.term))
            .fetch_optional(c)
            .await)?;
        let Some((last_seq, first_seq, last_prompt)) = row else {
            return Err(Error::Fenced {
                session: fence.session,
                term: fence.term,
            });
        };
        Ok(Fenced {
            tx: self,
            fence,
            last_seq: count(last_seq)?,
            first_seq: count(first_seq)?,
            last_prompt: count(last_prompt)?,
        })
    }
}

impl Fenced<'_> {
    pub fn session(&self) -> Id<Session> {
        self.fence.session
    }

    /// The number of the newest event.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub(crate) fn connection(&mut self) -> Connection<'_> {
        self.tx.connection()
    }

    pub(crate) fn id(&self) -> String {
        self.fence.session.to_string()
    }

    /// For statements that must change the one row of this session.
    pub(crate) fn one(&self, changed: u64) -> Result<()> {
        if changed == 1 {
            return Ok(());
        }
        Err(Error::Fenced {
            session: self.fence.session,
            term: self.fence.term,
        })
    }
}
