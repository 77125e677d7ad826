//! The log: what happened in a session, numbered from 1 without gap. What has a number was
//! committed before anybody was told.

use std::sync::{Arc, OnceLock};

use futures::TryStreamExt as _;
use model::{Id, Session, Timestamp};
use serde::{Deserialize, Serialize};
use sqlx::FromRow;

use crate::columns::{count, millis, number, time};
use crate::connection::{changed, on};
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Error, Fenced, Result, Store, projection};

/// Something worth a number. The body is a JSON object whose `type` is its kind, and is kept as it
/// was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    kind: String,
    body: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub seq: u64,
    pub at: Timestamp,
    pub kind: String,
    pub body: Arc<str>,
}

#[derive(Deserialize)]
struct Typed {
    r#type: String,
}

impl NewEvent {
    /// Of anything that is written as an object with a `type`: a frame of the link, say.
    pub fn new(frame: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_string(frame)
            .map_err(|_| Error::Misfit("it cannot be written as JSON"))?;
        Self::from_json(body)
    }

    /// Kept byte for byte.
    pub fn from_json(body: impl Into<Arc<str>>) -> Result<Self> {
        let body = body.into();
        within("the event", &body, limits::EVENT_BODY)?;
        let Typed { r#type: kind } = serde_json::from_str(&body)
            .map_err(|_| Error::Misfit("it is not an object with a type"))?;
        within("the event's type", &kind, limits::FOREIGN_ID)?;
        Ok(Self { kind, body })
    }

    pub fn kind(&self) -> &str {
        &self.kind
    }

    pub fn body(&self) -> &Arc<str> {
        &self.body
    }
}

/// What a client that has seen events up to some number gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replay {
    /// Those that follow, without gap; more of them when the last is not `last_seq`.
    Events { events: Vec<Event>, last_seq: u64 },
    /// They are not kept any more, or never were: begin anew.
    Resync { last_seq: u64 },
}

impl Fenced<'_> {
    /// Gives events their numbers, and changes the transcript as they say. One that does not fit
    /// is refused, and with it all that is written here.
    pub async fn append(&mut self, events: &[NewEvent], at: Timestamp) -> Result<Vec<Event>> {
        const COUNT: &str = "UPDATE sessions SET last_seq = $3 WHERE id = $1 AND term = $2";
        if events.is_empty() {
            return Ok(Vec::new());
        }
        if events.len() > limits::EVENTS_IN_A_WRITE {
            return Err(Error::TooLarge {
                what: "a write",
                limit: limits::EVENTS_IN_A_WRITE,
            });
        }
        let (id, term) = (self.id(), number(self.fence.term));
        // Stored in milliseconds; what is told must be what is read again.
        let at = time(millis(at))?;
        let numbered: Vec<Event> = (self.last_seq + 1..)
            .zip(events)
            .map(|(seq, new)| Event {
                seq,
                at,
                kind: new.kind.clone(),
                body: Arc::clone(&new.body),
            })
            .collect();
        let sql = insert(numbered.len());
        on!(&mut self.connection(), c => {
            let mut query = sqlx::query(sql).bind(&id).bind(millis(at));
            for event in &numbered {
                query = query.bind(number(event.seq)).bind(&event.kind).bind(&*event.body);
            }
            query.execute(c).await.map(drop)
        })?;
        for event in &numbered {
            projection::project(&mut self.connection(), &id, event).await?;
            self.last_seq = event.seq;
        }
        let last = number(self.last_seq);
        let counted = changed!(&mut self.connection(), COUNT, [&id, term, last])?;
        self.one(counted)?;
        Ok(numbered)
    }

    /// Forgets events up to and including this number. Who has seen fewer must begin anew.
    pub async fn forget_events(&mut self, upto: u64) -> Result<u64> {
        const DELETE: &str = "DELETE FROM events WHERE session_id = $1 AND seq <= $2";
        const MARK: &str = "UPDATE sessions SET first_seq = $3 WHERE id = $1 AND term = $2";
        let upto = upto.min(self.last_seq);
        if upto < self.first_seq {
            return Ok(0);
        }
        let (id, term) = (self.id(), number(self.fence.term));
        let forgotten = changed!(&mut self.connection(), DELETE, [&id, number(upto)])?;
        self.first_seq = upto + 1;
        let first = number(self.first_seq);
        let marked = changed!(&mut self.connection(), MARK, [&id, term, first])?;
        self.one(marked)?;
        Ok(forgotten)
    }
}

/// The statement for so many events: one for all of them, because each statement takes a turn of
/// two threads.
fn insert(events: usize) -> &'static str {
    static TEXTS: OnceLock<Vec<String>> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        let text = |events| {
            let rows = (0..events).map(|place| {
                let first = 3 + 3 * place;
                format!("($1, ${first}, $2, ${}, ${})", first + 1, first + 2)
            });
            let rows: Vec<String> = rows.collect();
            let rows = rows.join(", ");
            format!("INSERT INTO events (session_id, seq, at, kind, body) VALUES {rows}")
        };
        (0..=limits::EVENTS_IN_A_WRITE).map(text).collect()
    });
    &texts[events]
}

#[derive(FromRow)]
struct Row {
    first_seq: i64,
    last_seq: i64,
    seq: Option<i64>,
    at: Option<i64>,
    kind: Option<String>,
    body: Option<String>,
}

impl Store {
    /// Events after the number `since`, at most `limit` of them and not many megabytes.
    pub async fn events_after(
        &self,
        session: Id<Session>,
        since: u64,
        limit: u32,
    ) -> Result<Replay> {
        // One statement, so that nothing can be forgotten between the marks and the events.
        const SQL: &str = "SELECT s.first_seq, s.last_seq, e.seq, e.at, e.kind, e.body
            FROM sessions s LEFT JOIN events e ON e.session_id = s.id AND e.seq > $2
            WHERE s.id = $1 ORDER BY e.seq LIMIT $3";
        let mut reader = Reader::acquire(&self.database).await?;
        let mut page = Page::default();
        on!(&mut reader.connection(), c => {
            let mut rows = sqlx::query_as(SQL)
                .bind(session.to_string())
                .bind(number(since))
                .bind(limits::page(limit))
                .fetch(c);
            while let Some(row) = rows.try_next().await? {
                if page.is_full_with(row)? {
                    break;
                }
            }
        });
        let Some((first_seq, last_seq)) = page.marks else {
            return Err(Error::NotFound("session"));
        };
        if since.saturating_add(1) < first_seq || since > last_seq {
            return Ok(Replay::Resync { last_seq });
        }
        Ok(Replay::Events {
            events: page.events,
            last_seq,
        })
    }
}

#[derive(Default)]
struct Page {
    marks: Option<(u64, u64)>,
    events: Vec<Event>,
    bytes: usize,
}

impl Page {
    fn is_full_with(&mut self, row: Row) -> Result<bool> {
        self.marks = Some((count(row.first_seq)?, count(row.last_seq)?));
        let (Some(seq), Some(at), Some(kind), Some(body)) = (row.seq, row.at, row.kind, row.body)
        else {
            return Ok(true);
        };
        self.bytes += body.len();
        self.events.push(Event {
            seq: count(seq)?,
            at: time(at)?,
            kind,
            body: body.into(),
        });
        Ok(self.bytes >= limits::PAGE_BYTES)
    }
}
