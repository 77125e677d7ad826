//! Pull requests that came out of sessions, as their forges last showed them.

use model::{Id, Session, Timestamp};
use sqlx::FromRow;

use crate::columns::{count, id, millis, number, time, words};
use crate::connection::{changed, on};
use crate::limits::{self, cut, within};
use crate::tx::Reader;
use crate::{Error, Result, Store, Tx};

words! {
    State ("state of a pull request") {
        Open = "open",
        Closed = "closed",
        Merged = "merged",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRecord {
    pub session: Id<Session>,
    pub host: String,
    /// `owner/name`.
    pub repository: String,
    pub number: u64,
    pub title: String,
    pub url: String,
    pub state: State,
    pub branch: String,
    pub base: String,
    pub created_at: Timestamp,
    /// When its forge was last asked.
    pub seen_at: Timestamp,
}

impl Tx {
    /// A new one, or what became of one that is known. Whether anything of it is other than it was.
    pub async fn put_pull(&mut self, pull: &PullRecord) -> Result<bool> {
        const FIND: &str = "SELECT title, state FROM pulls
            WHERE session_id = $1 AND host = $2 AND repository = $3 AND number = $4";
        const SQL: &str = "INSERT INTO pulls
            (session_id, host, repository, number, title, url, state, branch, base, created_at,
             seen_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
            ON CONFLICT (session_id, host, repository, number) DO UPDATE SET
                title = excluded.title, url = excluded.url, state = excluded.state,
                branch = excluded.branch, base = excluded.base, seen_at = excluded.seen_at";
        const COUNT: &str = "SELECT count(*) FROM pulls WHERE session_id = $1";
        within("a forge's name", &pull.host, limits::NAME)?;
        within("a repository's name", &pull.repository, limits::NAME)?;
        within("a pull request's address", &pull.url, limits::ADDRESS)?;
        let session = pull.session.to_string();
        let title = cut(&pull.title, limits::REASON);
        let known: Option<(String, String)> = on!(&mut self.connection(), c => sqlx::query_as(FIND)
            .bind(&session)
            .bind(&pull.host)
            .bind(&pull.repository)
            .bind(number(pull.number))
            .fetch_optional(c)
            .await)?;
        changed!(
            &mut self.connection(),
            SQL,
            [
                &session,
                &pull.host,
                &pull.repository,
                number(pull.number),
                &title,
                &pull.url,
                pull.state.as_str(),
                cut(&pull.branch, limits::REASON),
                cut(&pull.base, limits::REASON),
                millis(pull.created_at),
                millis(pull.seen_at)
            ]
        )?;
        let there: i64 = on!(&mut self.connection(), c => sqlx::query_scalar(COUNT)
            .bind(&session)
            .fetch_one(c)
            .await)?;
        if count(there)? > limits::PULLS {
            return Err(Error::Full("the list of the session's pull requests"));
        }
        Ok(known != Some((title, pull.state.as_str().to_owned())))
    }
}

impl Store {
    /// The newest first.
    pub async fn session_pulls(&self, session: Id<Session>) -> Result<Vec<PullRecord>> {
        const SQL: &str = "SELECT session_id, host, repository, number, title, url, state, branch,
                base, created_at, seen_at
            FROM pulls WHERE session_id = $1
            ORDER BY created_at DESC, host, repository, number DESC LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<Row> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(session.to_string())
            .bind(number(limits::PULLS))
            .fetch_all(c)
            .await)?;
        rows.into_iter().map(Row::into_record).collect()
    }
}

#[derive(FromRow)]
struct Row {
    session_id: String,
    host: String,
    repository: String,
    number: i64,
    title: String,
    url: String,
    state: String,
    branch: String,
    base: String,
    created_at: i64,
    seen_at: i64,
}

impl Row {
    fn into_record(self) -> Result<PullRecord> {
        Ok(PullRecord {
            session: id(&self.session_id)?,
            host: self.host,
            repository: self.repository,
            number: count(self.number)?,
            title: self.title,
            url: self.url,
            state: State::read(&self.state)?,
            branch: self.branch,
            base: self.base,
            created_at: time(self.created_at)?,
            seen_at: time(self.seen_at)?,
        })
    }
}
