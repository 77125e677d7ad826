//! Requests that are done once, however often they are sent: those with an `Idempotency-Key`.
//!
//! What makes a session keeps its answer in the transaction that makes it ([`Once`]); for everything
//! else [`deed`] does it from outside.

mod deed;

use axum::http::{HeaderMap, StatusCode};
use model::{SignedDuration, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use store::Tx;
use store::idempotency::{Attempt, Begun};

use crate::app::App;
use crate::auth::Caller;
use crate::problem::{Answer, Problem};

pub(crate) use self::deed::{deed, is_done_once};

pub(crate) const HEADER: &str = "idempotency-key";
/// Whoever is still at it then has died.
const LEASE: SignedDuration = SignedDuration::from_mins(2);

/// The right to do it, or what came of it before.
pub(crate) enum Once<T> {
    Do(Option<Attempt>),
    Done(T),
}

impl<T: DeserializeOwned> Once<T> {
    /// `what` is the route; with the body it makes the request what it is.
    pub(crate) async fn begin(
        app: &App,
        caller: &Caller,
        headers: &HeaderMap,
        what: &str,
        body: &impl Serialize,
    ) -> Answer<Self> {
        let Some(key) = key(headers)? else {
            return Ok(Self::Do(None));
        };
        let body = serde_json::to_vec(body).map_err(Problem::internal)?;
        let digest = Sha256::new()
            .chain_update(what)
            .chain_update([0])
            .chain_update(body)
            .finalize();
        let digest = digest.iter().map(|byte| format!("{byte:02x}"));
        let digest: String = digest.collect();
        let now = app.now();
        let until = now.checked_add(LEASE).unwrap_or(Timestamp::MAX);
        let mut tx = app.store().begin().await?;
        let begun = tx
            .begin_request(caller.organisation, key, &digest, now, until)
            .await?;
        tx.commit().await?;
        match begun {
            Begun::New(attempt) => Ok(Self::Do(Some(attempt))),
            Begun::Finished { body, .. } => {
                let body = serde_json::from_str(&body).map_err(Problem::internal)?;
                Ok(Self::Done(body))
            }
            Begun::Running => Err(running()),
            Begun::Different => Err(different()),
        }
    }
}

/// Keeps the answer for whoever sends the same again, in the transaction that does it: both are there,
/// or neither. Whoever took too long finds that another did it.
pub(crate) async fn finish<T: Serialize>(
    tx: &mut Tx,
    attempt: Option<&Attempt>,
    status: StatusCode,
    answer: &T,
) -> Answer<()> {
    let Some(attempt) = attempt else {
        return Ok(());
    };
    let body = serde_json::to_string(answer).map_err(Problem::internal)?;
    if tx.finish_request(attempt, status.as_u16(), &body).await? {
        return Ok(());
    }
    Err(running())
}

/// What failed may be tried again at once.
pub(crate) async fn forget(app: &App, attempt: Option<&Attempt>) -> Answer<()> {
    let Some(attempt) = attempt else {
        return Ok(());
    };
    let mut tx = app.store().begin().await?;
    tx.forget_request(attempt).await?;
    Ok(tx.commit().await?)
}

fn key(headers: &HeaderMap) -> Answer<Option<&str>> {
    let Some(key) = headers.get(HEADER) else {
        return Ok(None);
    };
    let is_key = |key: &&str| (1..=200).contains(&key.len());
    let key = key.to_str().ok().filter(is_key);
    let key =
        key.ok_or_else(|| Problem::invalid("`Idempotency-Key` has 1 to 200 printable characters"))?;
    Ok(Some(key))
}

fn different() -> Problem {
    Problem::conflict(
        "idempotency-key-used",
        "this `Idempotency-Key` was used for another request",
    )
}

fn running() -> Problem {
    Problem::conflict(
        "request-running",
        "the same request is being done: ask again in a moment",
    )
}
