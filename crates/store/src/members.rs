//! Organisations and who belongs to them.

use model::{Id, Organisation, Timestamp, User};

use crate::accounts::{Role, UserRecord};
use crate::columns::{count, id, time};
use crate::connection::{changed, on};
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Error, Result, Store, Tx, dialect};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrganisationRecord {
    pub id: Id<Organisation>,
    pub name: String,
    pub created_at: Timestamp,
}

impl OrganisationRecord {
    fn read(row: (&str, String, i64)) -> Result<Self> {
        Ok(Self {
            id: id(row.0)?,
            name: row.1,
            created_at: time(row.2)?,
        })
    }
}

impl Tx {
    /// The first organisation and its owner, where there is none. Of several who try at once, one
    /// founds; false for the others.
    pub async fn found(
        &mut self,
        organisation: &OrganisationRecord,
        owner: &UserRecord,
    ) -> Result<bool> {
        const THERE: &str = "SELECT count(*) FROM organisations";
        let mut connection = self.connection();
        let lock = dialect::LOCK_ORGANISATIONS.on(&connection);
        changed!(&mut connection, lock, [])?;
        let there: i64 = on!(&mut connection, c => sqlx::query_scalar(THERE).fetch_one(c).await)?;
        if there > 0 {
            return Ok(false);
        }
        let at = organisation.created_at;
        self.create_organisation(organisation.id, &organisation.name, at)
            .await?;
        self.create_user(owner).await?;
        self.set_role(organisation.id, owner.id, Role::Owner, at)
            .await?;
        Ok(true)
    }

    /// Whoever changes who belongs to it does it alone, until the transaction ends.
    pub async fn hold_organisation(&mut self, organisation: Id<Organisation>) -> Result<()> {
        const SQL: &str = "UPDATE organisations SET name = name WHERE id = $1";
        match changed!(&mut self.connection(), SQL, [organisation.to_string()])? {
            0 => Err(Error::NotFound("organisation")),
            _ => Ok(()),
        }
    }

    pub async fn rename_organisation(
        &mut self,
        organisation: Id<Organisation>,
        name: &str,
    ) -> Result<()> {
        const SQL: &str = "UPDATE organisations SET name = $2 WHERE id = $1";
        within("the organisation's name", name, limits::NAME)?;
        match changed!(
            &mut self.connection(),
            SQL,
            [organisation.to_string(), name]
        )? {
            0 => Err(Error::NotFound("organisation")),
            _ => Ok(()),
        }
    }

    pub async fn count_members(
        &mut self,
        organisation: Id<Organisation>,
        role: Option<Role>,
    ) -> Result<u64> {
        const SQL: &str = "SELECT count(*) FROM memberships
            WHERE organisation_id = $1 AND ($2 = '' OR role = $2)";
        let members: i64 = on!(&mut self.connection(), c => sqlx::query_scalar(SQL)
            .bind(organisation.to_string())
            .bind(role.map_or("", Role::as_str))
            .fetch_one(c)
            .await)?;
        count(members)
    }

    pub async fn remove_member(
        &mut self,
        organisation: Id<Organisation>,
        user: Id<User>,
    ) -> Result<()> {
        const SQL: &str = "DELETE FROM memberships WHERE organisation_id = $1 AND user_id = $2";
        match changed!(
            &mut self.connection(),
            SQL,
            [organisation.to_string(), user.to_string()]
        )? {
            0 => Err(Error::NotFound("member")),
            _ => Ok(()),
        }
    }
}

impl Store {
    /// Nobody has founded anything yet.
    pub async fn is_empty(&self) -> Result<bool> {
        const SQL: &str = "SELECT count(*) FROM organisations";
        let mut reader = Reader::acquire(&self.database).await?;
        let there: i64 = on!(&mut reader.connection(), c =>
            sqlx::query_scalar(SQL).fetch_one(c).await)?;
        Ok(there == 0)
    }

    pub async fn find_organisation(
        &self,
        organisation: Id<Organisation>,
    ) -> Result<Option<OrganisationRecord>> {
        const SQL: &str = "SELECT id, name, created_at FROM organisations WHERE id = $1";
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Option<(String, String, i64)> = on!(&mut reader.connection(), c =>
            sqlx::query_as(SQL).bind(organisation.to_string()).fetch_optional(c).await)?;
        row.map(|(id, name, at)| OrganisationRecord::read((&id, name, at)))
            .transpose()
    }

    /// By when they were made, with the user's role in each.
    pub async fn organisations_of(
        &self,
        user: Id<User>,
        limit: u32,
    ) -> Result<Vec<(OrganisationRecord, Role)>> {
        const SQL: &str = "SELECT organisations.id, name, organisations.created_at, role
            FROM organisations JOIN memberships ON organisation_id = organisations.id
            WHERE user_id = $1 ORDER BY organisations.id LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<(String, String, i64, String)> = on!(&mut reader.connection(), c =>
            sqlx::query_as(SQL)
                .bind(user.to_string())
                .bind(limits::page(limit))
                .fetch_all(c)
                .await)?;
        rows.into_iter()
            .map(|(id, name, at, role)| {
                Ok((
                    OrganisationRecord::read((&id, name, at))?,
                    Role::read(&role)?,
                ))
            })
            .collect()
    }

    /// By when they were made, with their roles; those after one, to go on.
    pub async fn members_of(
        &self,
        organisation: Id<Organisation>,
        after: Option<Id<User>>,
        limit: u32,
    ) -> Result<Vec<(UserRecord, Role)>> {
        const SQL: &str = "SELECT users.id, email, name, users.created_at, role
            FROM users JOIN memberships ON user_id = users.id
            WHERE organisation_id = $1 AND users.id > $2 ORDER BY users.id LIMIT $3";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<(String, String, String, i64, String)> = on!(&mut reader.connection(), c =>
            sqlx::query_as(SQL)
                .bind(organisation.to_string())
                .bind(after.map_or(String::new(), |id| id.to_string()))
                .bind(limits::page(limit))
                .fetch_all(c)
                .await)?;
        rows.into_iter()
            .map(|(user, email, name, created_at, role)| {
                let user = UserRecord {
                    id: id(&user)?,
                    email,
                    name,
                    created_at: time(created_at)?,
                };
                Ok((user, Role::read(&role)?))
            })
            .collect()
    }

    /// As it was written down.
    pub async fn find_user_by_email(&self, email: &str) -> Result<Option<UserRecord>> {
        const SQL: &str = "SELECT id FROM users WHERE email = $1";
        let found: Option<String> = {
            let mut reader = Reader::acquire(&self.database).await?;
            on!(&mut reader.connection(), c =>
                sqlx::query_scalar(SQL).bind(email).fetch_optional(c).await)?
        };
        match found {
            Some(user) => self.find_user(id(&user)?).await,
            None => Ok(None),
        }
    }
}
