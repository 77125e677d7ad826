//! What setup sessions found out, for those that are made from them.

use model::{Id, Session, Timestamp};

use crate::columns::{millis, time};
use crate::connection::{changed, on};
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Result, Store, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// A JSON list; none where nothing was said of them.
    pub services: Option<String>,
    pub env_files: Option<String>,
    pub updated_at: Timestamp,
}

impl Tx {
    /// In place of what was saved before.
    pub async fn save_services(
        &mut self,
        session: Id<Session>,
        services: &str,
        at: Timestamp,
    ) -> Result<()> {
        const SQL: &str = "INSERT INTO setups (session_id, services, updated_at)
            VALUES ($1, $2, $3) ON CONFLICT (session_id)
            DO UPDATE SET services = excluded.services, updated_at = excluded.updated_at";
        self.put_setup(SQL, session, services, at).await
    }

    /// In place of what was saved before.
    pub async fn save_env_files(
        &mut self,
        session: Id<Session>,
        files: &str,
        at: Timestamp,
    ) -> Result<()> {
        const SQL: &str = "INSERT INTO setups (session_id, env_files, updated_at)
            VALUES ($1, $2, $3) ON CONFLICT (session_id)
            DO UPDATE SET env_files = excluded.env_files, updated_at = excluded.updated_at";
        self.put_setup(SQL, session, files, at).await
    }

    async fn put_setup(
        &mut self,
        sql: &'static str,
        session: Id<Session>,
        list: &str,
        at: Timestamp,
    ) -> Result<()> {
        within("what is saved", list, limits::DOCUMENT)?;
        changed!(
            &mut self.connection(),
            sql,
            [session.to_string(), list, millis(at)]
        )?;
        Ok(())
    }
}

impl Store {
    pub async fn find_setup(&self, session: Id<Session>) -> Result<Option<Setup>> {
        const SQL: &str =
            "SELECT services, env_files, updated_at FROM setups WHERE session_id = $1";
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Option<(Option<String>, Option<String>, i64)> = on!(&mut reader.connection(), c =>
            sqlx::query_as(SQL).bind(session.to_string()).fetch_optional(c).await)?;
        row.map(|(services, env_files, updated_at)| {
            Ok(Setup {
                services,
                env_files,
                updated_at: time(updated_at)?,
            })
        })
        .transpose()
    }
}
