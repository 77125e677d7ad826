//! Secrets, as they are kept: sealed. Nothing here can open one.

mod scope;

use std::collections::BTreeMap;
use std::fmt;

use model::{Id, Organisation, Sealed, Session, Timestamp};
use sqlx::FromRow;

use crate::columns::{count, id, millis, time};
use crate::connection::{changed, on};
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Error, Result, Store, Tx};

pub use scope::Scope;

/// What is known of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRecord {
    pub id: Id<Sealed>,
    pub organisation: Id<Organisation>,
    pub scope: Scope,
    pub name: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A value that only its key opens.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedValue {
    pub key_id: String,
    pub nonce: [u8; 12],
    pub ciphertext: Vec<u8>,
}

impl fmt::Debug for SealedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedValue")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedSecret {
    pub about: SecretRecord,
    pub value: SealedValue,
}

#[derive(Debug, Clone)]
pub struct NewSecret {
    /// Of a new one; one that is there keeps its own.
    pub id: Id<Sealed>,
    pub organisation: Id<Organisation>,
    pub scope: Scope,
    pub name: String,
    pub value: SealedValue,
    pub at: Timestamp,
}

macro_rules! about {
    ($rest:literal) => {
        concat!(
            "SELECT id, organisation_id, scope, scope_id, name, created_at, updated_at
             FROM secrets ",
            $rest
        )
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, organisation_id, scope, scope_id, name, created_at, updated_at, key_id,
                nonce, ciphertext
             FROM secrets ",
            $rest
        )
    };
}

impl Tx {
    /// A new one, or another value for one that is there.
    pub async fn put_secret(&mut self, new: &NewSecret) -> Result<Id<Sealed>> {
        const SQL: &str = "INSERT INTO secrets
            (id, organisation_id, scope, scope_id, session_id, name, key_id, nonce, ciphertext,
             created_at, updated_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)
            ON CONFLICT (organisation_id, scope, scope_id, name) DO UPDATE SET
                key_id = excluded.key_id, nonce = excluded.nonce,
                ciphertext = excluded.ciphertext, updated_at = excluded.updated_at
            RETURNING id";
        let target = new.scope.target();
        within("the secret's name", &new.name, limits::NAME)?;
        within("the secret's scope", &target, limits::ADDRESS)?;
        check(&new.value)?;
        if new.name.is_empty() {
            return Err(Error::Misfit("a secret without a name"));
        }
        if target.is_empty() && new.scope != Scope::Organisation {
            return Err(Error::Misfit("a scope without a name"));
        }
        if let Scope::Session(session) = new.scope {
            let owner = self.find_session(session).await?;
            if owner.is_none_or(|record| record.organisation != new.organisation) {
                return Err(Error::NotFound("session"));
            }
        }
        let kept: String = on!(&mut self.connection(), c => sqlx::query_scalar(SQL)
            .bind(new.id.to_string())
            .bind(new.organisation.to_string())
            .bind(new.scope.kind())
            .bind(&target)
            .bind((new.scope.kind() == "session").then_some(&target))
            .bind(&new.name)
            .bind(&new.value.key_id)
            .bind(&new.value.nonce[..])
            .bind(&new.value.ciphertext)
            .bind(millis(new.at))
            .fetch_one(c)
            .await)?;
        self.check_room(new.organisation, &new.scope).await?;
        id(&kept)
    }

    /// After it was written: whoever counts before, counts without those who write at the same time.
    async fn check_room(&mut self, organisation: Id<Organisation>, scope: &Scope) -> Result<()> {
        const SQL: &str = "SELECT count(*) FROM secrets
            WHERE organisation_id = $1 AND scope = $2 AND scope_id = $3";
        let there: i64 = on!(&mut self.connection(), c => sqlx::query_scalar(SQL)
            .bind(organisation.to_string())
            .bind(scope.kind())
            .bind(scope.target())
            .fetch_one(c)
            .await)?;
        if count(there)? > limits::SECRETS {
            return Err(Error::Full("the scope of the secret"));
        }
        Ok(())
    }

    /// The same value under another key, unless somebody has changed it meanwhile. Whether it was
    /// replaced.
    pub async fn reseal_secret(
        &mut self,
        secret: Id<Sealed>,
        old: &SealedValue,
        new: &SealedValue,
    ) -> Result<bool> {
        const SQL: &str = "UPDATE secrets SET key_id = $4, nonce = $5, ciphertext = $6
            WHERE id = $1 AND key_id = $2 AND nonce = $3";
        check(new)?;
        let written = changed!(
            &mut self.connection(),
            SQL,
            [
                secret.to_string(),
                &old.key_id,
                &old.nonce[..],
                &new.key_id,
                &new.nonce[..],
                &new.ciphertext
            ]
        )?;
        Ok(written == 1)
    }

    pub async fn remove_secret(
        &mut self,
        organisation: Id<Organisation>,
        secret: Id<Sealed>,
    ) -> Result<()> {
        const SQL: &str = "DELETE FROM secrets WHERE id = $1 AND organisation_id = $2";
        match changed!(
            &mut self.connection(),
            SQL,
            [secret.to_string(), organisation.to_string()]
        )? {
            0 => Err(Error::NotFound("secret")),
            _ => Ok(()),
        }
    }
}

fn check(value: &SealedValue) -> Result<()> {
    within("the key's id", &value.key_id, limits::FOREIGN_ID)?;
    if value.ciphertext.len() > limits::SECRET {
        return Err(Error::TooLarge {
            what: "the secret",
            limit: limits::SECRET,
        });
    }
    Ok(())
}

impl Store {
    pub async fn find_secret(
        &self,
        organisation: Id<Organisation>,
        secret: Id<Sealed>,
    ) -> Result<Option<SecretRecord>> {
        let sql = about!("WHERE id = $1 AND organisation_id = $2");
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Option<AboutRow> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(secret.to_string())
            .bind(organisation.to_string())
            .fetch_optional(c)
            .await)?;
        row.map(AboutRow::into_record).transpose()
    }

    /// Without their values; those after one, to go on.
    pub async fn list_secrets(
        &self,
        organisation: Id<Organisation>,
        after: Option<Id<Sealed>>,
        limit: u32,
    ) -> Result<Vec<SecretRecord>> {
        let sql = about!("WHERE organisation_id = $1 AND id > $2 ORDER BY id LIMIT $3");
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<AboutRow> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(organisation.to_string())
            .bind(after.map_or(String::new(), |id| id.to_string()))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(AboutRow::into_record).collect()
    }

    /// One with its value, for whoever has its key.
    pub async fn open_secret(
        &self,
        organisation: Id<Organisation>,
        scope: &Scope,
        name: &str,
    ) -> Result<Option<SealedSecret>> {
        let sql =
            select!("WHERE organisation_id = $1 AND scope = $2 AND scope_id = $3 AND name = $4");
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Option<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(organisation.to_string())
            .bind(scope.kind())
            .bind(scope.target())
            .bind(name)
            .fetch_optional(c)
            .await)?;
        row.map(Row::into_secret).transpose()
    }

    /// All of one scope with their values, by name.
    pub async fn open_scope(
        &self,
        organisation: Id<Organisation>,
        scope: &Scope,
    ) -> Result<Vec<SealedSecret>> {
        let sql = select!(
            "WHERE organisation_id = $1 AND scope = $2 AND scope_id = $3 ORDER BY name LIMIT $4"
        );
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(organisation.to_string())
            .bind(scope.kind())
            .bind(scope.target())
            .bind(limits::page(limits::PAGE))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_secret).collect()
    }

    /// What a session gets, with values, by name: its own before its repositories', and those
    /// before the organisation's. Of its repositories the first has the first say.
    pub async fn secrets_for(
        &self,
        organisation: Id<Organisation>,
        repositories: &[String],
        session: Id<Session>,
    ) -> Result<Vec<SealedSecret>> {
        if repositories.len() > limits::REPOSITORIES {
            return Err(Error::TooLarge {
                what: "the list of repositories",
                limit: limits::REPOSITORIES,
            });
        }
        let mut scopes = vec![Scope::Session(session)];
        scopes.extend(repositories.iter().cloned().map(Scope::Repository));
        scopes.push(Scope::Organisation);
        let mut merged = BTreeMap::new();
        for scope in &scopes {
            for secret in self.open_scope(organisation, scope).await? {
                merged.entry(secret.about.name.clone()).or_insert(secret);
            }
        }
        Ok(merged.into_values().collect())
    }

    /// Of all organisations, those that this key seals; those after one, to go on.
    pub async fn secrets_sealed_with(
        &self,
        key_id: &str,
        after: Option<Id<Sealed>>,
        limit: u32,
    ) -> Result<Vec<SealedSecret>> {
        let sql = select!("WHERE key_id = $1 AND id > $2 ORDER BY id LIMIT $3");
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(key_id)
            .bind(after.map_or(String::new(), |id| id.to_string()))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_secret).collect()
    }
}

#[derive(FromRow)]
struct AboutRow {
    id: String,
    organisation_id: String,
    scope: String,
    scope_id: String,
    name: String,
    created_at: i64,
    updated_at: i64,
}

impl AboutRow {
    fn into_record(self) -> Result<SecretRecord> {
        Ok(SecretRecord {
            id: id(&self.id)?,
            organisation: id(&self.organisation_id)?,
            scope: Scope::read(&self.scope, self.scope_id)?,
            name: self.name,
            created_at: time(self.created_at)?,
            updated_at: time(self.updated_at)?,
        })
    }
}

#[derive(FromRow)]
struct Row {
    #[sqlx(flatten)]
    about: AboutRow,
    key_id: String,
    nonce: Vec<u8>,
    ciphertext: Vec<u8>,
}

impl Row {
    fn into_secret(self) -> Result<SealedSecret> {
        let nonce = self.nonce.try_into();
        Ok(SealedSecret {
            about: self.about.into_record()?,
            value: SealedValue {
                key_id: self.key_id,
                nonce: nonce.map_err(|_| Error::unreadable("nonce", "its length is wrong"))?,
                ciphertext: self.ciphertext,
            },
        })
    }
}
