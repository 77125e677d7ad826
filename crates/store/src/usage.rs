//! What requests to models took. Rows are added and never changed.

use std::collections::BTreeMap;

use model::{Id, Organisation, Session, Timestamp, Usage};
use sqlx::FromRow;

use crate::columns::{count, id, json, millis, number};
use crate::connection::{changed, on};
use crate::dialect;
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Result, Store, Tx};

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRecord {
    pub id: Id<Usage>,
    pub organisation: Id<Organisation>,
    pub session: Id<Session>,
    /// None: nobody knows what for.
    pub prompt: Option<String>,
    /// Of the prompt, by an agent that its agent began.
    pub by_subagent: bool,
    pub provider: String,
    pub model: String,
    pub tokens: Tokens,
    /// None: the model has no price that we know.
    pub cost_micros: Option<u64>,
    /// What the provider answered, as HTTP has it; 0 if it did not.
    pub status: u16,
    pub took_ms: u64,
    /// The answer said what it took; otherwise this is what is known.
    pub is_complete: bool,
    pub at: Timestamp,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    pub requests: u64,
    pub tokens: Tokens,
    pub cost_micros: u64,
    /// Requests whose cost is not known, and not in the sum.
    pub unpriced: u64,
    /// Requests whose answers were cut, or did not say what they took.
    pub incomplete: u64,
}

/// Of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionSum {
    pub total: Sum,
    /// What of it belongs to no prompt that we know.
    pub unattributed: Sum,
}

/// What is added up, as columns of a [`Row`].
macro_rules! sums {
    () => {
        "count(*) AS requests,
            CAST(coalesce(sum(input_tokens), 0) AS BIGINT) AS input,
            CAST(coalesce(sum(output_tokens), 0) AS BIGINT) AS output,
            CAST(coalesce(sum(cache_read_tokens), 0) AS BIGINT) AS cache_read,
            CAST(coalesce(sum(cache_write_tokens), 0) AS BIGINT) AS cache_write,
            CAST(coalesce(sum(reasoning_tokens), 0) AS BIGINT) AS reasoning,
            CAST(coalesce(sum(cost_micros), 0) AS BIGINT) AS cost_micros,
            count(*) - count(cost_micros) AS unpriced,
            CAST(coalesce(sum(1 - is_complete), 0) AS BIGINT) AS incomplete"
    };
}
pub(crate) use sums;

macro_rules! sum {
    ($rest:literal) => {
        concat!("SELECT ", sums!(), " FROM usage ", $rest)
    };
}

impl Tx {
    /// Written again it stays as it was.
    pub async fn record_usage(&mut self, usage: &UsageRecord) -> Result<()> {
        const SQL: &str = "INSERT INTO usage
            (id, organisation_id, session_id, prompt_id, provider, model, input_tokens,
             output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_micros,
             status, took_ms, at, by_subagent, is_complete)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
            ON CONFLICT (id) DO NOTHING";
        within("the provider's name", &usage.provider, limits::NAME)?;
        within("the model's name", &usage.model, limits::NAME)?;
        if let Some(prompt) = &usage.prompt {
            within("the prompt's id", prompt, limits::FOREIGN_ID)?;
        }
        // Providers say it, and sums of it must fit.
        let believed = |said: u64| number(said.min(limits::TOKENS));
        let tokens = usage.tokens;
        changed!(
            &mut self.connection(),
            SQL,
            [
                usage.id.to_string(),
                usage.organisation.to_string(),
                usage.session.to_string(),
                &usage.prompt,
                &usage.provider,
                &usage.model,
                believed(tokens.input),
                believed(tokens.output),
                believed(tokens.cache_read),
                believed(tokens.cache_write),
                believed(tokens.reasoning),
                usage.cost_micros.map(believed),
                i64::from(usage.status),
                believed(usage.took_ms),
                millis(usage.at),
                i64::from(usage.by_subagent),
                i64::from(usage.is_complete)
            ]
        )?;
        Ok(())
    }
}

impl Store {
    pub async fn session_usage(&self, session: Id<Session>) -> Result<Sum> {
        let sql = sum!("WHERE session_id = $1");
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Row = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(session.to_string())
            .fetch_one(c)
            .await)?;
        row.into_sum()
    }

    /// Of each that made requests, with those that belong to no prompt that we know.
    pub async fn usage_of(
        &self,
        sessions: &[Id<Session>],
    ) -> Result<BTreeMap<Id<Session>, SessionSum>> {
        let ids: Vec<String> = sessions.iter().map(ToString::to_string).collect();
        let mut reader = Reader::acquire(&self.database).await?;
        let mut connection = reader.connection();
        let sql = dialect::USAGE_OF_SESSIONS.on(&connection);
        let rows: Vec<SessionRow> = on!(&mut connection, c => sqlx::query_as(sql)
            .bind(json(&ids))
            .fetch_all(c)
            .await)?;
        let mut sums: BTreeMap<_, SessionSum> = BTreeMap::new();
        for row in rows {
            let of = sums.entry(id(&row.session_id)?).or_default();
            let sum = row.sum.into_sum()?;
            of.total = of.total.and(sum);
            if row.nobodys != 0 {
                of.unattributed = sum;
            }
        }
        Ok(sums)
    }

    /// What of a prompt's requests subagents made.
    pub async fn subagent_usage(&self, session: Id<Session>, prompt: &str) -> Result<Sum> {
        let sql = sum!("WHERE session_id = $1 AND prompt_id = $2 AND by_subagent = 1");
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Row = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(session.to_string())
            .bind(prompt)
            .fetch_one(c)
            .await)?;
        row.into_sum()
    }

    /// The prompt that this conversation of the agent was at, at that time. None also where two
    /// would do: rather nobody's than the wrong one's.
    pub async fn prompt_at(
        &self,
        session: Id<Session>,
        generation: u64,
        agent_session: &str,
        at: Timestamp,
    ) -> Result<Option<String>> {
        const SQL: &str = "SELECT p.id FROM channels c
            JOIN prompts p ON p.session_id = c.session_id AND p.channel = c.channel
            WHERE c.session_id = $1 AND c.agent_session = $2 AND p.generation = $3
              AND p.dispatched_at <= $4 AND (p.ended_at IS NULL OR p.ended_at >= $4)
            LIMIT 2";
        let mut reader = Reader::acquire(&self.database).await?;
        let mut found: Vec<String> = on!(&mut reader.connection(), c => sqlx::query_scalar(SQL)
            .bind(session.to_string())
            .bind(agent_session)
            .bind(number(generation))
            .bind(millis(at))
            .fetch_all(c)
            .await)?;
        Ok(found.pop().filter(|_| found.is_empty()))
    }

    pub async fn prompt_usage(&self, session: Id<Session>, prompt: &str) -> Result<Sum> {
        let sql = sum!("WHERE session_id = $1 AND prompt_id = $2");
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Row = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(session.to_string())
            .bind(prompt)
            .fetch_one(c)
            .await)?;
        row.into_sum()
    }

    pub async fn organisation_usage(
        &self,
        organisation: Id<Organisation>,
        since: Timestamp,
    ) -> Result<Sum> {
        let sql = sum!("WHERE organisation_id = $1 AND at >= $2");
        let mut reader = Reader::acquire(&self.database).await?;
        let row: Row = on!(&mut reader.connection(), c => sqlx::query_as(sql)
            .bind(organisation.to_string())
            .bind(millis(since))
            .fetch_one(c)
            .await)?;
        row.into_sum()
    }
}

impl Sum {
    fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            tokens: Tokens {
                input: self.tokens.input + other.tokens.input,
                output: self.tokens.output + other.tokens.output,
                cache_read: self.tokens.cache_read + other.tokens.cache_read,
                cache_write: self.tokens.cache_write + other.tokens.cache_write,
                reasoning: self.tokens.reasoning + other.tokens.reasoning,
            },
            cost_micros: self.cost_micros + other.cost_micros,
            unpriced: self.unpriced + other.unpriced,
            incomplete: self.incomplete + other.incomplete,
        }
    }
}

/// One for what belongs to prompts, and one for what does not.
#[derive(FromRow)]
struct SessionRow {
    session_id: String,
    nobodys: i64,
    #[sqlx(flatten)]
    sum: Row,
}

#[derive(FromRow)]
struct Row {
    requests: i64,
    input: i64,
    output: i64,
    cache_read: i64,
    cache_write: i64,
    reasoning: i64,
    cost_micros: i64,
    unpriced: i64,
    incomplete: i64,
}

impl Row {
    fn into_sum(self) -> Result<Sum> {
        Ok(Sum {
            requests: count(self.requests)?,
            tokens: Tokens {
                input: count(self.input)?,
                output: count(self.output)?,
                cache_read: count(self.cache_read)?,
                cache_write: count(self.cache_write)?,
                reasoning: count(self.reasoning)?,
            },
            cost_micros: count(self.cost_micros)?,
            unpriced: count(self.unpriced)?,
            incomplete: count(self.incomplete)?,
        })
    }
}
