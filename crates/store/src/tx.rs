use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{Postgres, Sqlite, SqlitePool, Transaction};
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
    Sqlite(SqliteTx),
    Postgres(Transaction<'static, Postgres>),
}

/// Where a disk is full or fails, SQLite ends a transaction by itself, and its library does not
/// notice. So whatever was neither committed nor undone takes its connection along.
#[derive(Debug)]
struct SqliteTx {
    connection: PoolConnection<Sqlite>,
    is_over: bool,
}

impl SqliteTx {
    async fn begin(pool: &SqlitePool) -> Result<Self> {
        let connection = pool.acquire().await?;
        // Whoever is dropped while it begins may have begun.
        let mut tx = Self {
            connection,
            is_over: false,
        };
        let begun = sqlx::query(BEGIN_SQLITE).execute(&mut *tx.connection).await;
        tx.is_over = begun.is_err();
        begun?;
        Ok(tx)
    }

    async fn end(mut self, how: &'static str) -> Result<()> {
        sqlx::query(how).execute(&mut *self.connection).await?;
        self.is_over = true;
        Ok(())
    }
}

impl Drop for SqliteTx {
    fn drop(&mut self) {
        if !self.is_over {
            self.connection.close_on_drop();
        }
    }
}

impl Tx {
    pub(crate) async fn begin(database: &Database, jobs: &Arc<Notify>) -> Result<Self> {
        let held = match database {
            Database::Sqlite { writer, .. } => Held::Sqlite(SqliteTx::begin(writer).await?),
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
            Held::Sqlite(tx) => tx.end("COMMIT").await?,
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
            Held::Sqlite(tx) => tx.end("ROLLBACK").await?,
            Held::Postgres(tx) => tx.rollback().await?,
        }
        Ok(())
    }

    pub(crate) fn connection(&mut self) -> Connection<'_> {
        match &mut self.held {
            Held::Sqlite(tx) => Connection::Sqlite(&mut tx.connection),
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
