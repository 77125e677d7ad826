use sqlx::{PgConnection, SqliteConnection};

/// A connection to either, borrowed from whoever holds it.
pub(crate) enum Connection<'c> {
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut PgConnection),
}

/// Writes an expression once, for a connection of either kind.
///
/// ```ignore
/// on!(connection, c => sqlx::query(SQL).bind(id).execute(c).await)?;
/// ```
macro_rules! on {
    ($connection:expr, $c:ident => $body:expr) => {
        match $connection {
            $crate::connection::Connection::Sqlite($c) => {
                let $c = &mut **$c;
                $body
            }
            $crate::connection::Connection::Postgres($c) => {
                let $c = &mut **$c;
                $body
            }
        }
    };
}

/// How many rows a statement changed.
macro_rules! changed {
    ($connection:expr, $sql:expr, [$($bind:expr),* $(,)?]) => {
        $crate::connection::on!($connection, c => sqlx::query($sql)
            $(.bind($bind))*
            .execute(c)
            .await
            .map(|done| done.rows_affected()))
    };
}

pub(crate) use changed;
pub(crate) use on;
