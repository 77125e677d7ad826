use std::str::FromStr;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{PgPool, SqlitePool};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;
use crate::faults::Faults;
use crate::{dialect, migrate};

/// Where the store is.
#[derive(Clone)]
pub enum Location {
    /// A file of SQLite, made when it is missing.
    File(Utf8PathBuf),
    /// A PostgreSQL, by its address. It may hold a password.
    Server(String),
}

impl std::fmt::Debug for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "sqlite:{path}"),
            Self::Server(_) => f.write_str("postgres://…"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a database is given as `sqlite:PATH` or `postgres://…`")]
pub struct LocationError;

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Server(text.to_owned()));
        }
        match text.strip_prefix("sqlite:") {
            Some(path) => {
                let path = path.strip_prefix("//").unwrap_or(path);
                match path {
                    "" | ":memory:" => Err(LocationError),
                    path => Ok(Self::File(path.into())),
                }
            }
            None => Err(LocationError),
        }
    }
}

/// What a commit of SQLite outlives. Either way a killed process loses nothing that was committed,
/// and nothing is ever damaged. PostgreSQL does as its own settings say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The end of our process, whatever ended it. A machine that loses power may lose the last
    /// moments.
    Process,
    /// A machine that loses power, too. Every commit waits for the disk.
    Machine,
}

#[derive(Debug, Clone)]
pub struct Config {
    pub location: Location,
    pub durability: Durability,
    /// Connections that read, and with PostgreSQL all of them.
    pub connections: u32,
    /// How long to wait for another process that writes.
    pub busy_timeout: Duration,
    /// What goes wrong on purpose.
    pub faults: Faults,
}

impl Config {
    pub fn new(location: Location) -> Self {
        Self {
            location,
            durability: Durability::Process,
            connections: 4,
            busy_timeout: Duration::from_secs(5),
            faults: Faults::none(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the database has schema {found}, and this nacre knows {known}: use a newer nacre")]
    Newer { found: i64, known: i64 },
    #[error("{path} is not a database or is damaged: restore it from a backup")]
    Damaged {
        path: Utf8PathBuf,
        source: sqlx::Error,
    },
    #[error("{path} cannot be written: check who owns it and its file system")]
    ReadOnly {
        path: Utf8PathBuf,
        source: sqlx::Error,
    },
    #[error("the database at {location:?} cannot be opened")]
    Open {
        location: Location,
        source: sqlx::Error,
    },
    #[error("the address of the database cannot be read")]
    Address(#[source] sqlx::Error),
}

/// The pools of one database.
#[derive(Debug)]
pub(crate) enum Database {
    /// One connection writes, several read, and one moves what was written from the log beside the
    /// file into the file: whoever commits does not wait for the disk.
    Sqlite {
        writer: SqlitePool,
        readers: SqlitePool,
        mover: SqlitePool,
    },
    Postgres(PgPool),
}

pub(crate) async fn open(config: &Config) -> Result<Database, OpenError> {
    let address = match &config.location {
        Location::File(path) => {
            let opened = open_file_in_turn(path, config).await;
            return opened.map_err(|error| explain(path, config, error));
        }
        Location::Server(address) => address,
    };
    let options: PgConnectOptions = address.parse().map_err(OpenError::Address)?;
    let options = options.application_name("nacre");
    let pool = PgPoolOptions::new()
        .max_connections(config.connections.max(2))
        .acquire_timeout(config.busy_timeout)
        .connect_lazy_with(options);
    match migrate_server(&pool).await {
        Ok(found) if found > migrate::CURRENT => Err(OpenError::Newer {
            found,
            known: migrate::CURRENT,
        }),
        Ok(_) => Ok(Database::Postgres(pool)),
        Err(source) => Err(OpenError::Open {
            location: config.location.clone(),
            source,
        }),
    }
}

enum FileError {
    Newer(i64),
    Sqlite(sqlx::Error),
}

impl From<sqlx::Error> for FileError {
    fn from(error: sqlx::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// For a connection of our own, which on a busy machine takes its time to be made.
const ACQUIRE: Duration = Duration::from_secs(5);

async fn open_file(path: &Utf8Path, config: &Config) -> Result<Database, FileError> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(match config.durability {
            Durability::Process => SqliteSynchronous::Normal,
            Durability::Machine => SqliteSynchronous::Full,
        })
        // Only should nobody move anything for long.
        .pragma("wal_autocheckpoint", "200000")
        // What a busy time made of the log is given back.
        .pragma("journal_size_limit", "67108864")
        .busy_timeout(config.busy_timeout);
    let pool = || {
        SqlitePoolOptions::new()
            // Ours alone: how long another process may write has nothing to do with it.
            .acquire_timeout(config.busy_timeout.max(ACQUIRE))
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
    };
    let writer = pool()
        .max_connections(1)
        .connect_with(options.clone())
        .await?;
    let mut tx = writer.begin_with(BEGIN_SQLITE).await?;
    let found = migrate::run(&mut Connection::Sqlite(&mut tx)).await?;
    if found > migrate::CURRENT {
        return Err(FileError::Newer(found));
    }
    tx.commit().await?;
    let mover = pool()
        .max_connections(1)
        .connect_with(options.clone())
        .await?;
    let readers = pool()
        .max_connections(config.connections.max(1))
        .connect_with(options.create_if_missing(false).pragma("query_only", "on"))
        .await?;
    Ok(Database::Sqlite {
        writer,
        readers,
        mover,
    })
}

/// A transaction that reads and then writes must have the right to write from the beginning:
/// otherwise it fails at once when somebody else wrote in between, however long it may wait.
pub(crate) const BEGIN_SQLITE: &str = "BEGIN IMMEDIATE";

async fn migrate_server(pool: &PgPool) -> Result<i64, sqlx::Error> {
    // Any number will do that nobody else uses.
    const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(7091205126317514)";
    let mut tx = pool.begin().await?;
    sqlx::query(ONE_AT_A_TIME).execute(&mut *tx).await?;
    let found = migrate::run(&mut Connection::Postgres(&mut tx)).await?;
    tx.commit().await?;
    Ok(found)
}

/// Whoever opens it first makes it a file with a log beside it, and SQLite lets nobody wait for that.
async fn open_file_in_turn(path: &Utf8Path, config: &Config) -> Result<Database, FileError> {
    const BREATH: Duration = Duration::from_millis(20);
    let deadline = Instant::now() + config.busy_timeout;
    loop {
        match open_file(path, config).await {
            Err(FileError::Sqlite(error))
                if error.as_database_error().is_some_and(dialect::is_busy)
                    && Instant::now() < deadline =>
            {
                sleep(BREATH).await;
            }
            opened => return opened,
        }
    }
}

fn explain(path: &Utf8Path, config: &Config, error: FileError) -> OpenError {
    let source = match error {
        FileError::Newer(found) => {
            return OpenError::Newer {
                found,
                known: migrate::CURRENT,
            };
        }
        FileError::Sqlite(source) => source,
    };
    let path = path.to_owned();
    match source.as_database_error() {
        Some(error) if dialect::is_damaged(error) => OpenError::Damaged { path, source },
        Some(error) if dialect::is_read_only(error) => OpenError::ReadOnly { path, source },
        _ => OpenError::Open {
            location: config.location.clone(),
            source,
        },
    }
}

/// Moves what was committed into SQLite's file, again and again, beside whoever writes.
///
/// Whoever commits while the disk is waited for waits with it, so it is done when nobody commits;
/// where somebody always does, rarely.
pub(crate) async fn keep_moving(database: std::sync::Arc<Database>, stop: CancellationToken) {
    const LOOK: Duration = Duration::from_millis(500);
    let Database::Sqlite { mover, .. } = &*database else {
        return;
    };
    let (mut before, mut moved_at) = (0, Instant::now());
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(LOOK) => {}
        }
        let work = async {
            let log = look(mover).await?;
            let is_quiet = log.pages == before;
            before = log.pages;
            if is_due(&log, is_quiet, moved_at.elapsed()) {
                sqlx::query("PRAGMA wal_checkpoint(PASSIVE)")
                    .execute(mover)
                    .await?;
                moved_at = Instant::now();
            }
            Ok::<(), sqlx::Error>(())
        };
        if let Err(error) = work.await {
            tracing::warn!(%error, "what was written stays in the log beside the database");
        }
    }
}

/// What is in the log beside the file, in pages.
#[derive(Debug, Clone, Copy)]
struct Log {
    pages: i64,
    /// Those that are in the file already.
    moved: i64,
}

async fn look(mover: &SqlitePool) -> Result<Log, sqlx::Error> {
    let (_, pages, done): (i64, i64, i64) = sqlx::query_as("PRAGMA wal_checkpoint(NOOP)")
        .fetch_one(mover)
        .await?;
    Ok(Log { pages, moved: done })
}

fn is_due(log: &Log, is_quiet: bool, since_the_last: Duration) -> bool {
    const RARELY: Duration = Duration::from_secs(10);
    /// 400 MB.
    const PAGES: i64 = 100_000;
    let left = log.pages - log.moved;
    left > 0 && (is_quiet || left >= PAGES || since_the_last >= RARELY)
}

/// After this the file of SQLite is whole without the one beside it.
pub(crate) async fn close(database: &Database) -> crate::Result<()> {
    match database {
        Database::Sqlite { writer, .. } if writer.is_closed() => {}
        Database::Sqlite {
            writer,
            readers,
            mover,
        } => {
            readers.close().await;
            mover.close().await;
            // Where another process reads, this moves what it can; that process moves the rest.
            let moved = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
                .execute(writer)
                .await;
            writer.close().await;
            moved?;
        }
        Database::Postgres(pool) => pool.close().await,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_moved_when_nobody_writes_and_rarely_while_somebody_does() {
        let soon = Duration::from_millis(500);
        let late = Duration::from_secs(10);
        let some = Log {
            pages: 20,
            moved: 10,
        };
        assert!(is_due(&some, true, soon));
        assert!(!is_due(&some, false, soon));
        assert!(is_due(&some, false, late));
        let much = Log {
            pages: 200_000,
            moved: 0,
        };
        assert!(is_due(&much, false, soon));
        let nothing = Log {
            pages: 20,
            moved: 20,
        };
        assert!(!is_due(&nothing, true, late));
    }
}
