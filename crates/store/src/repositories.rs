//! Repositories that an organisation works on, to choose from.

use model::{Id, Organisation, Repository, Timestamp, User};
use sqlx::FromRow;

use crate::columns::{count, id, maybe_id, millis, time};
use crate::connection::{changed, on};
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Error, Result, Store, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryRecord {
    pub id: Id<Repository>,
    pub organisation: Id<Organisation>,
    pub url: String,
    pub name: String,
    pub default_branch: Option<String>,
    pub created_by: Option<Id<User>>,
    pub created_at: Timestamp,
}

impl Tx {
    /// False if the organisation has that address already.
    pub async fn add_repository(&mut self, new: &RepositoryRecord) -> Result<bool> {
        const SQL: &str = "INSERT INTO repositories
            (id, organisation_id, url, name, default_branch, created_by, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            ON CONFLICT (organisation_id, url) DO NOTHING";
        const COUNT: &str = "SELECT count(*) FROM repositories WHERE organisation_id = $1";
        within("a repository's address", &new.url, limits::ADDRESS)?;
        within("a repository's name", &new.name, limits::NAME)?;
        if let Some(branch) = &new.default_branch {
            within("a branch's name", branch, limits::NAME)?;
        }
        let organisation = new.organisation.to_string();
        let added = changed!(
            &mut self.connection(),
            SQL,
            [
                new.id.to_string(),
                &organisation,
                &new.url,
                &new.name,
                &new.default_branch,
                new.created_by.map(|id| id.to_string()),
                millis(new.created_at)
            ]
        )?;
        let there: i64 = on!(&mut self.connection(), c => sqlx::query_scalar(COUNT)
            .bind(&organisation)
            .fetch_one(c)
            .await)?;
        if count(there)? > limits::KNOWN_REPOSITORIES {
            return Err(Error::Full("the list of the organisation's repositories"));
        }
        Ok(added == 1)
    }

    /// False if the organisation has none of that id.
    pub async fn remove_repository(
        &mut self,
        organisation: Id<Organisation>,
        repository: Id<Repository>,
    ) -> Result<bool> {
        const SQL: &str = "DELETE FROM repositories WHERE id = $1 AND organisation_id = $2";
        let removed = changed!(
            &mut self.connection(),
            SQL,
            [repository.to_string(), organisation.to_string()]
        )?;
        Ok(removed == 1)
    }
}

impl Store {
    /// The newest first. Give the last one to go on after it.
    pub async fn list_repositories(
        &self,
        organisation: Id<Organisation>,
        before: Option<Id<Repository>>,
        limit: u32,
    ) -> Result<Vec<RepositoryRecord>> {
        const SQL: &str = "SELECT id, organisation_id, url, name, default_branch, created_by,
                created_at
            FROM repositories WHERE organisation_id = $1 AND ($2 = '' OR id < $2)
            ORDER BY id DESC LIMIT $3";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(organisation.to_string())
            .bind(before.map_or(String::new(), |id| id.to_string()))
            .bind(limits::page(limit))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_record).collect()
    }
}

#[derive(FromRow)]
struct Row {
    id: String,
    organisation_id: String,
    url: String,
    name: String,
    default_branch: Option<String>,
    created_by: Option<String>,
    created_at: i64,
}

impl Row {
    fn into_record(self) -> Result<RepositoryRecord> {
        Ok(RepositoryRecord {
            id: id(&self.id)?,
            organisation: id(&self.organisation_id)?,
            url: self.url,
            name: self.name,
            default_branch: self.default_branch,
            created_by: maybe_id(self.created_by.as_deref())?,
            created_at: time(self.created_at)?,
        })
    }
}
