//! One call over HTTP: made, tried again where that is safe, and read within limits.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;
use wire::v1::Problem;

use crate::error::problem_of;
use crate::{Client, ClientError};

/// The longest answer that is held in memory.
pub(crate) const LONGEST_ANSWER: usize = 64 << 20;
const LONGEST_PROBLEM: usize = 64 << 10;
/// What answers from the database.
const SOON: Duration = Duration::from_mins(1);
/// What may move a machine: a start from disk, a snapshot of a large workspace.
const PATIENT: Duration = Duration::from_mins(15);
/// A server cannot make a client wait for longer between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Call<'a> {
    client: &'a Client,
    method: Method,
    url: Result<Url, ClientError>,
    body: Option<(Bytes, &'static str)>,
    /// Makes several sendings one call.
    key: Option<String>,
    is_safe: bool,
    patience: Duration,
}

impl<'a> Call<'a> {
    pub(crate) fn new(client: &'a Client, method: Method, path: &[&str]) -> Self {
        let is_safe = method == Method::GET;
        Self {
            client,
            method,
            url: client.at(path),
            body: None,
            key: None,
            is_safe,
            patience: SOON,
        }
    }

    pub(crate) fn query(mut self, name: &str, value: Option<&str>) -> Self {
        if let (Ok(url), Some(value)) = (&mut self.url, value) {
            url.query_pairs_mut().append_pair(name, value);
        }
        self
    }

    pub(crate) fn json<B: Serialize>(mut self, body: &B) -> Self {
        match serde_json::to_vec(body) {
            Ok(body) => self.body = Some((body.into(), "application/json")),
            Err(error) => self.url = Err(ClientError::Setup(error.into())),
        }
        self
    }

    pub(crate) fn bytes(mut self, body: Bytes) -> Self {
        self.body = Some((body, "application/octet-stream"));
        self
    }

    /// With a key of its own: sent several times, it happens once.
    pub(crate) fn once(mut self) -> Self {
        self.key = Some(Uuid::new_v4().to_string());
        self.same_again()
    }

    /// What it says makes it one call already: a prompt with an id.
    pub(crate) fn same_again(mut self) -> Self {
        self.is_safe = true;
        self
    }

    pub(crate) fn patient(self) -> Self {
        self.within(PATIENT)
    }

    pub(crate) fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    pub(crate) async fn answer<A: DeserializeOwned>(self) -> Result<A, ClientError> {
        self.tried(async |response| {
            let url = shown(response.url());
            let body = whole(response, LONGEST_ANSWER).await?;
            serde_json::from_slice(&body).map_err(|error| ClientError::Protocol {
                url,
                detail: error.to_string(),
            })
        })
        .await
    }

    /// What is answered besides yes does not matter.
    pub(crate) async fn done(self) -> Result<(), ClientError> {
        self.tried(async |_| Ok(())).await
    }

    /// The answer as it comes. Its reader waits for each piece.
    pub(crate) async fn response(self) -> Result<Response, ClientError> {
        self.tried(async |response| Ok(response)).await
    }

    async fn tried<T>(
        self,
        read: impl AsyncFn(Response) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let url = match &self.url {
            Ok(url) => url.clone(),
            Err(_) => return Err(self.url.err().unwrap_or(ClientError::Ended)),
        };
        let request_id = Uuid::new_v4().to_string();
        let once = || async {
            let trying = async {
                let response = self.send(url.clone(), &request_id).await?;
                read(response).await
            };
            tokio::time::timeout(self.patience, trying)
                .await
                .unwrap_or_else(|_| {
                    Err(ClientError::Silent {
                        url: shown(&url),
                        waited: self.patience,
                    })
                })
        };
        once.retry(tries())
            .when(|error| error.can_retry() && (self.is_safe || error.was_not_sent()))
            .adjust(|error, wait| {
                let asked = error.retry_after().map(|asked| asked.min(LONGEST_WAIT));
                wait.map(|wait| wait.max(asked.unwrap_or_default()))
            })
            .notify(|error, wait| tracing::debug!(request_id, %error, ?wait, "once more"))
            .await
    }

    async fn send(&self, url: Url, request_id: &str) -> Result<Response, ClientError> {
        let at = shown(&url);
        let mut request = self
            .client
            .http()
            .request(self.method.clone(), url)
            .header("x-request-id", request_id);
        if let Some(key) = &self.key {
            request = request.header("idempotency-key", key);
        }
        if let Some((body, kind)) = &self.body {
            request = request.header(CONTENT_TYPE, *kind).body(body.clone());
        }
        let response = request.send().await.map_err(|error| lost(at, error))?;
        accepted(response).await
    }
}

/// Five in about five seconds.
fn tries() -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(200))
        .with_max_delay(Duration::from_secs(3))
        .with_max_times(4)
        .with_jitter()
}

/// Everything but a yes is an error.
pub(crate) async fn accepted(response: Response) -> Result<Response, ClientError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    if status.is_redirection() {
        return Err(ClientError::Protocol {
            url: shown(response.url()),
            detail: format!("it answers {status}; give the address it leads to"),
        });
    }
    let retry_after = retry_after(response.headers());
    let body = whole(response, LONGEST_PROBLEM).await.unwrap_or_default();
    Err(refused(problem_of(status.as_u16(), &body), retry_after))
}

pub(crate) fn refused(problem: Problem, retry_after: Option<Duration>) -> ClientError {
    ClientError::Refused {
        problem: Box::new(problem),
        retry_after,
    }
}

pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

pub(crate) fn lost(url: String, error: reqwest::Error) -> ClientError {
    ClientError::Unreachable {
        url,
        sent: !error.is_connect(),
        // The address is in ours already, without what was asked.
        source: error.without_url().into(),
    }
}

pub(crate) async fn whole(mut response: Response, limit: usize) -> Result<Bytes, ClientError> {
    let url = shown(response.url());
    let mut body = BytesMut::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > limit => {
                return Err(ClientError::TooLong { limit });
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body.freeze()),
            Err(error) => return Err(lost(url, error)),
        }
    }
}

/// Without what was asked for in the query: paths of files are nobody's business in a log.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.into()
}
