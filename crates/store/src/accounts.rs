//! Organisations, users and their tokens.

use model::{Id, Organisation, Secret, Timestamp, Token, User};
use sha2::{Digest as _, Sha256};
use sqlx::FromRow;

use crate::columns::{id, maybe_id, maybe_millis, maybe_time, millis, time, words};
use crate::connection::{changed, on};
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Error, Result, Store, Tx};

words! {
    /// What a user may do in an organisation.
    Role ("role") {
        Owner = "owner",
        Member = "member",
        Viewer = "viewer",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRecord {
    pub id: Id<User>,
    pub email: String,
    pub name: String,
    pub created_at: Timestamp,
}

/// What is kept of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHash(String);

impl TokenHash {
    /// Tokens are long and random: a plain hash is as hard to undo as the token is to guess.
    pub fn of(token: &Secret) -> Self {
        let digest = Sha256::digest(token.expose().as_bytes());
        let hex = |mut text: String, byte: &u8| {
            for digit in [byte >> 4, byte & 15] {
                text.extend(char::from_digit(digit.into(), 16));
            }
            text
        };
        Self(digest.iter().fold(String::new(), hex))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Debug, Clone)]
pub struct NewToken {
    pub id: Id<Token>,
    pub organisation: Id<Organisation>,
    /// None: a service's.
    pub user: Option<Id<User>>,
    pub name: String,
    pub hash: TokenHash,
    pub expires_at: Option<Timestamp>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    pub id: Id<Token>,
    pub organisation: Id<Organisation>,
    pub user: Option<Id<User>>,
    pub name: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

impl Tx {
    pub async fn create_organisation(
        &mut self,
        organisation: Id<Organisation>,
        name: &str,
        at: Timestamp,
    ) -> Result<()> {
        const SQL: &str = "INSERT INTO organisations (id, name, created_at) VALUES ($1, $2, $3)";
        within("the organisation's name", name, limits::NAME)?;
        changed!(
            &mut self.connection(),
            SQL,
            [organisation.to_string(), name, millis(at)]
        )?;
        Ok(())
    }

    pub async fn create_user(&mut self, user: &UserRecord) -> Result<()> {
        const SQL: &str = "INSERT INTO users (id, email, name, created_at) VALUES ($1, $2, $3, $4)";
        within("the user's name", &user.name, limits::NAME)?;
        within("the user's mail address", &user.email, limits::NAME)?;
        changed!(
            &mut self.connection(),
            SQL,
            [
                user.id.to_string(),
                &user.email,
                &user.name,
                millis(user.created_at)
            ]
        )?;
        Ok(())
    }

    /// Makes a user a member, or gives one another role.
    pub async fn set_role(
        &mut self,
        organisation: Id<Organisation>,
        user: Id<User>,
        role: Role,
        at: Timestamp,
    ) -> Result<()> {
        const SQL: &str = "INSERT INTO memberships (organisation_id, user_id, role, created_at)
            VALUES ($1, $2, $3, $4)
            ON CONFLICT (organisation_id, user_id) DO UPDATE SET role = excluded.role";
        changed!(
            &mut self.connection(),
            SQL,
            [
                organisation.to_string(),
                user.to_string(),
                role.as_str(),
                millis(at)
            ]
        )?;
        Ok(())
    }

    pub async fn create_token(&mut self, token: &NewToken) -> Result<()> {
        const SQL: &str = "INSERT INTO tokens
            (id, organisation_id, user_id, name, hash, created_at, expires_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        within("the token's name", &token.name, limits::NAME)?;
        changed!(
            &mut self.connection(),
            SQL,
            [
                token.id.to_string(),
                token.organisation.to_string(),
                token.user.map(|id| id.to_string()),
                &token.name,
                &token.hash.0,
                millis(token.at),
                maybe_millis(token.expires_at)
            ]
        )?;
        Ok(())
    }

    pub async fn revoke_token(&mut self, token: Id<Token>, at: Timestamp) -> Result<()> {
        const SQL: &str = "UPDATE tokens SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1";
        match changed!(&mut self.connection(), SQL, [token.to_string(), millis(at)])? {
            0 => Err(Error::NotFound("token")),
            _ => Ok(()),
        }
    }

    pub async fn token_was_used(&mut self, token: Id<Token>, at: Timestamp) -> Result<()> {
        const SQL: &str = "UPDATE tokens SET last_used_at = $2 WHERE id = $1";
        changed!(&mut self.connection(), SQL, [token.to_string(), millis(at)])?;
        Ok(())
    }
}

impl Store {
    pub async fn find_role(
        &self,
        organisation: Id<Organisation>,
        user: Id<User>,
    ) -> Result<Option<Role>> {
        const SQL: &str =
            "SELECT role FROM memberships WHERE organisation_id = $1 AND user_id = $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let role: Option<String> = on!(&mut reader.connection(), c => sqlx::query_scalar(SQL)
            .bind(organisation.to_string())
            .bind(user.to_string())
            .fetch_optional(c)
            .await)?;
        role.as_deref().map(Role::read).transpose()
    }

    pub async fn find_user(&self, user: Id<User>) -> Result<Option<UserRecord>> {
        const SQL: &str = "SELECT id, email, name, created_at FROM users WHERE id = $1";
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Option<(String, String, String, i64)> = on!(&mut reader.connection(), c =>
            sqlx::query_as(SQL).bind(user.to_string()).fetch_optional(c).await)?;
        row.map(|(user, email, name, created_at)| {
            Ok(UserRecord {
                id: id(&user)?,
                email,
                name,
                created_at: time(created_at)?,
            })
        })
        .transpose()
    }

    /// A token that is good now: neither revoked nor expired.
    pub async fn find_token(
        &self,
        hash: &TokenHash,
        now: Timestamp,
    ) -> Result<Option<TokenRecord>> {
        const SQL: &str = "SELECT id, organisation_id, user_id, name, created_at, expires_at,
                last_used_at, revoked_at
            FROM tokens
            WHERE hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)";
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Option<TokenRow> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(&hash.0)
            .bind(millis(now))
            .fetch_optional(c)
            .await)?;
        row.map(TokenRow::into_record).transpose()
    }

    /// Also one that is not good any more.
    pub async fn load_token(&self, token: Id<Token>) -> Result<TokenRecord> {
        const SQL: &str = "SELECT id, organisation_id, user_id, name, created_at, expires_at,
                last_used_at, revoked_at
            FROM tokens WHERE id = $1";
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Option<TokenRow> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(token.to_string())
            .fetch_optional(c)
            .await)?;
        row.ok_or(Error::NotFound("token"))?.into_record()
    }

    /// Without those that were revoked; those after one, to go on.
    pub async fn list_tokens(
        &self,
        organisation: Id<Organisation>,
        after: Option<Id<Token>>,
        limit: u32,
    ) -> Result<Vec<TokenRecord>> {
        const SQL: &str = "SELECT id, organisation_id, user_id, name, created_at, expires_at,
                last_used_at, revoked_at
            FROM tokens WHERE organisation_id = $1 AND revoked_at IS NULL AND id > $2
            ORDER BY id LIMIT $3";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<TokenRow> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(organisation.to_string())
            .bind(after.map_or(String::new(), |id| id.to_string()))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(TokenRow::into_record).collect()
    }
}

#[derive(FromRow)]
struct TokenRow {
    id: String,
    organisation_id: String,
    user_id: Option<String>,
    name: String,
    created_at: i64,
    expires_at: Option<i64>,
    last_used_at: Option<i64>,
    revoked_at: Option<i64>,
}

impl TokenRow {
    fn into_record(self) -> Result<TokenRecord> {
        Ok(TokenRecord {
            id: id(&self.id)?,
            organisation: id(&self.organisation_id)?,
            user: maybe_id(self.user_id.as_deref())?,
            name: self.name,
            created_at: time(self.created_at)?,
            expires_at: maybe_time(self.expires_at)?,
            last_used_at: maybe_time(self.last_used_at)?,
            revoked_at: maybe_time(self.revoked_at)?,
        })
    }
}
