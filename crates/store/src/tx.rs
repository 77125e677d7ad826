use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{Postgres, Sqlite, Transaction};
use tokio::sync::Notify;

use crate::connection::{Connection, changed, on};
use crate::open::{BEGIN_SQLITE, Database};
use crate::{Error, Result};

/// One unit of meaning: all of it is written at [`Tx::commit`], or none.
///
/// With SQLite there is one at a time in the whole process, so it is held for as long as it takes to
/// write, and no longer.
#[derive(Debug)]
pub struct Tx {
    held: Held,
    /// Told after the commit, when a job was put into the queue.
    queued: Option<Arc<Notify>>,
    jobs: Arc<Notify>,
}

#[derive(Debug)]
enum Held {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

impl Tx {
    pub(crate) async fn begin(database: &Database, jobs: &Arc<Notify>) -> Result<Self> {
        let held = match database {
            Database::Sqlite { writer, .. } => {
                // Nothing is written yet, whatever goes wrong.
                Held::Sqlite(writer.begin_with(BEGIN_SQLITE).await?)
            }
            Database::Postgres(pool) => Held::Postgres(pool.begin().await?),
        };
        Ok(Self {
            held,
            queued: None,
            jobs: Arc::clone(jobs),
        })
    }

    pub async fn commit(self) -> Result<()> {
        match self.held {
            Held::Sqlite(tx) => tx.commit().await?,
            Held::Postgres(tx) => tx.commit().await?,
        }
        if let Some(queued) = self.queued {
            queued.notify_waiters();
            queued.notify_one();
        }
        Ok(())
    }

    pub async fn rollback(self) -> Result<()> {
        match self.held {
            Held::Sqlite(tx) => tx.rollback().await?,
            Held::Postgres(tx) => tx.rollback().await?,
        }
        Ok(())
    }

    pub(crate) fn connection(&mut self) -> Connection<'_> {
        match &mut self.held {
            Held::Sqlite(tx) => Connection::Sqlite(tx),
            Held::Postgres(tx) => Connection::Postgres(tx),
        }
    }

    pub(crate) fn has_queued(&mut self) {
        self.queued = Some(Arc::clone(&self.jobs));
    }

    /// From here on one writer's part, which can be undone alone.
    pub(crate) async fn save(&mut self) -> Result<()> {
        self.tell("SAVEPOINT one_writer").await
    }

    pub(crate) async fn undo(&mut self) -> Result<()> {
        self.tell("ROLLBACK TO SAVEPOINT one_writer").await?;
        self.keep().await
    }

    pub(crate) async fn keep(&mut self) -> Result<()> {
        self.tell("RELEASE SAVEPOINT one_writer").await
    }

    async fn tell(&mut self, statement: &'static str) -> Result<()> {
        changed!(&mut self.connection(), statement, [])?;
        Ok(())
    }
}

/// A connection that reads.
#[derive(Debug)]
pub(crate) enum Reader {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
}

impl Reader {
    pub(crate) async fn acquire(database: &Database) -> Result<Self> {
        Ok(match database {
            Database::Sqlite { readers, .. } => Self::Sqlite(readers.acquire().await?),
            Database::Postgres(pool) => Self::Postgres(pool.acquire().await?),
        })
    }

    pub(crate) fn connection(&mut self) -> Connection<'_> {
        match self {
            Self::Sqlite(c) => Connection::Sqlite(c),
            Self::Postgres(c) => Connection::Postgres(c),
        }
    }
}

/// Asks the database something, to know that it answers.
pub(crate) async fn ping(database: &Database) -> Result<()> {
    let mut reader = Reader::acquire(database).await?;
    let one: i64 = on!(&mut reader.connection(), c =>
        sqlx::query_scalar("SELECT count(*) FROM migrations").fetch_one(c).await)?;
    if one == 0 {
        return Err(Error::unreadable("schema", "no migration is recorded"));
    }
    Ok(())
}
