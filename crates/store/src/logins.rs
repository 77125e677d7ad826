//! One-time codes that sign somebody in, and browsers that are signed in. Of both only a hash is
//! kept.

use model::{Id, Organisation, Timestamp, User};
use sqlx::FromRow;

use crate::accounts::TokenHash;
use crate::columns::{id, millis, time};
use crate::connection::{changed, on};
use crate::tx::Reader;
use crate::{Result, Store, Tx};

/// Who signs in, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Login {
    pub organisation: Id<Organisation>,
    pub user: Id<User>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserSession {
    pub organisation: Id<Organisation>,
    pub user: Id<User>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub last_used_at: Timestamp,
}

impl Tx {
    pub async fn create_login(
        &mut self,
        hash: &TokenHash,
        login: Login,
        at: Timestamp,
        expires_at: Timestamp,
    ) -> Result<()> {
        const SQL: &str = "INSERT INTO logins
            (hash, organisation_id, user_id, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)";
        changed!(
            &mut self.connection(),
            SQL,
            [
                hash.as_str(),
                login.organisation.to_string(),
                login.user.to_string(),
                millis(at),
                millis(expires_at)
            ]
        )?;
        Ok(())
    }

    /// Of all who come with a code while it is good, one gets in.
    pub async fn take_login(&mut self, hash: &TokenHash, now: Timestamp) -> Result<Option<Login>> {
        const SQL: &str = "UPDATE logins SET used_at = $2
            WHERE hash = $1 AND used_at IS NULL AND expires_at > $2
            RETURNING organisation_id, user_id";
        let row: Option<(String, String)> = on!(&mut self.connection(), c => sqlx::query_as(SQL)
            .bind(hash.as_str())
            .bind(millis(now))
            .fetch_optional(c)
            .await)?;
        row.map(|(organisation, user)| {
            Ok(Login {
                organisation: id(&organisation)?,
                user: id(&user)?,
            })
        })
        .transpose()
    }

    pub async fn create_browser_session(
        &mut self,
        hash: &TokenHash,
        login: Login,
        at: Timestamp,
        expires_at: Timestamp,
    ) -> Result<()> {
        const SQL: &str = "INSERT INTO browser_sessions
            (hash, organisation_id, user_id, created_at, expires_at, last_used_at)
            VALUES ($1, $2, $3, $4, $5, $4)";
        changed!(
            &mut self.connection(),
            SQL,
            [
                hash.as_str(),
                login.organisation.to_string(),
                login.user.to_string(),
                millis(at),
                millis(expires_at)
            ]
        )?;
        Ok(())
    }

    pub async fn browser_session_was_used(
        &mut self,
        hash: &TokenHash,
        at: Timestamp,
    ) -> Result<()> {
        const SQL: &str = "UPDATE browser_sessions SET last_used_at = $2 WHERE hash = $1";
        changed!(&mut self.connection(), SQL, [hash.as_str(), millis(at)])?;
        Ok(())
    }

    /// Whether it was there.
    pub async fn remove_browser_session(&mut self, hash: &TokenHash) -> Result<bool> {
        const SQL: &str = "DELETE FROM browser_sessions WHERE hash = $1";
        let removed = changed!(&mut self.connection(), SQL, [hash.as_str()])?;
        Ok(removed == 1)
    }

    /// Signs somebody out everywhere, and takes back codes that were not used. Of how many browsers.
    pub async fn remove_browser_sessions_of(&mut self, user: Id<User>) -> Result<u64> {
        const CODES: &str = "DELETE FROM logins WHERE user_id = $1 AND used_at IS NULL";
        const SQL: &str = "DELETE FROM browser_sessions WHERE user_id = $1";
        changed!(&mut self.connection(), CODES, [user.to_string()])?;
        let removed = changed!(&mut self.connection(), SQL, [user.to_string()])?;
        Ok(removed)
    }

    /// Codes and browsers whose time is over. How many.
    pub async fn remove_expired_logins(&mut self, now: Timestamp) -> Result<u64> {
        const CODES: &str = "DELETE FROM logins WHERE expires_at <= $1";
        const BROWSERS: &str = "DELETE FROM browser_sessions WHERE expires_at <= $1";
        let codes = changed!(&mut self.connection(), CODES, [millis(now)])?;
        let browsers = changed!(&mut self.connection(), BROWSERS, [millis(now)])?;
        Ok(codes + browsers)
    }
}

impl Store {
    /// One that is good now.
    pub async fn find_browser_session(
        &self,
        hash: &TokenHash,
        now: Timestamp,
    ) -> Result<Option<BrowserSession>> {
        const SQL: &str = "SELECT organisation_id, user_id, created_at, expires_at, last_used_at
            FROM browser_sessions WHERE hash = $1 AND expires_at > $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Option<Row> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(hash.as_str())
            .bind(millis(now))
            .fetch_optional(c)
            .await)?;
        row.map(Row::into_session).transpose()
    }
}

#[derive(FromRow)]
struct Row {
    organisation_id: String,
    user_id: String,
    created_at: i64,
    expires_at: i64,
    last_used_at: i64,
}

impl Row {
    fn into_session(self) -> Result<BrowserSession> {
        Ok(BrowserSession {
            organisation: id(&self.organisation_id)?,
            user: id(&self.user_id)?,
            created_at: time(self.created_at)?,
            expires_at: time(self.expires_at)?,
            last_used_at: time(self.last_used_at)?,
        })
    }
}
