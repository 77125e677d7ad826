//! The schema, step by step, forward only. Both databases go through the same steps.

use crate::connection::{Connection, on};
use crate::dialect;

#[derive(Debug)]
struct Migration {
    number: i64,
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

macro_rules! migrations {
    ($($number:literal $name:literal,)*) => {
        &[$(Migration {
            number: $number,
            name: $name,
            sqlite: include_str!(concat!("../migrations/sqlite/", $name, ".sql")),
            postgres: include_str!(concat!("../migrations/postgres/", $name, ".sql")),
        },)*]
    };
}

const ALL: &[Migration] = migrations! {
    1 "0001_records",
    2 "0002_log",
    3 "0003_jobs",
    4 "0004_doors",
    5 "0005_tools",
    6 "0006_turns",
    7 "0007_egress",
    8 "0008_surface",
    9 "0009_collected",
};

/// The schema that this program writes.
pub(crate) const CURRENT: i64 = ALL[ALL.len() - 1].number;

/// Brings the schema to ours, inside the caller's transaction. Answers which one was there, and
/// leaves a newer one alone.
pub(crate) async fn run(connection: &mut Connection<'_>) -> Result<i64, sqlx::Error> {
    const RECORD: &str = "INSERT INTO migrations (number, name) VALUES ($1, $2)";
    const TABLE: &str =
        "CREATE TABLE migrations (number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL)";
    let found = version(connection).await?;
    if found == 0 {
        on!(connection, c => sqlx::raw_sql(TABLE).execute(c).await.map(drop))?;
    }
    for migration in ALL.iter().filter(|migration| migration.number > found) {
        match connection {
            Connection::Sqlite(c) => {
                sqlx::raw_sql(migration.sqlite).execute(&mut **c).await?;
            }
            Connection::Postgres(c) => {
                sqlx::raw_sql(migration.postgres).execute(&mut **c).await?;
            }
        }
        on!(connection, c => sqlx::query(RECORD)
            .bind(migration.number)
            .bind(migration.name)
            .execute(c)
            .await
            .map(drop))?;
    }
    Ok(found)
}

/// The newest step that was made; 0 for an empty database.
async fn version(connection: &mut Connection<'_>) -> Result<i64, sqlx::Error> {
    const NEWEST: &str = "SELECT coalesce(max(number), 0) FROM migrations";
    let sql = dialect::HAS_MIGRATIONS.on(connection);
    let tables: i64 = on!(connection, c => sqlx::query_scalar(sql).fetch_one(c).await)?;
    if tables == 0 {
        return Ok(0);
    }
    on!(connection, c => sqlx::query_scalar(NEWEST).fetch_one(c).await)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn files(of: &str) -> BTreeSet<String> {
        let directory = camino::Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("migrations")
            .join(of);
        fs_err::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn both_databases_have_the_same_migrations_and_all_are_listed() {
        let listed: BTreeSet<String> = ALL
            .iter()
            .map(|migration| format!("{}.sql", migration.name))
            .collect();
        assert_eq!(files("sqlite"), listed);
        assert_eq!(files("postgres"), listed);
    }

    #[test]
    fn migrations_are_numbered_from_one_without_gap() {
        for (place, migration) in (1..).zip(ALL) {
            assert_eq!(migration.number, place);
            assert!(migration.name.starts_with(&format!("{place:04}_")));
        }
    }
}
