//! What a forge says: read up to a limit, without secrets, and believed as little as needed.

use std::time::Duration;

use futures::StreamExt as _;
use hyper::StatusCode;
use hyper::header::RETRY_AFTER;
use model::Redactor;
use serde_json::Value;

use super::{At, ForgeError, Pull, PullState};
use crate::network::why;

/// The largest answer that is read.
const MOST: usize = 4 << 20;
const LONGEST_WORDS: usize = 500;
const LONGEST_URL: usize = 2048;
/// When a forge says that it is too much and not until when.
const A_MINUTE: Duration = Duration::from_mins(1);

pub(super) struct Said {
    pub(super) status: StatusCode,
    pub(super) body: Value,
    wait: Option<Duration>,
}

pub(super) async fn read(
    at: &At<'_>,
    answer: reqwest::Response,
    secrets: &Redactor,
) -> Result<Said, ForgeError> {
    let unavailable = |said: String| ForgeError::Unavailable {
        host: at.host.to_owned(),
        said: shorten(&said),
    };
    let status = answer.status();
    if status.is_redirection() {
        return Err(unavailable(format!(
            "it sends requests for {} elsewhere; if the repository moved, use its new address",
            at.name
        )));
    }
    let header = |name: &str| {
        let value = answer.headers().get(name)?;
        value.to_str().ok()?.parse::<u64>().ok()
    };
    let is_used_up = header("x-ratelimit-remaining") == Some(0);
    let said_wait = header(RETRY_AFTER.as_str()).map(Duration::from_secs);
    let is_too_much = status == StatusCode::TOO_MANY_REQUESTS
        || (status == StatusCode::FORBIDDEN && (is_used_up || said_wait.is_some()));
    let wait = is_too_much.then(|| said_wait.unwrap_or(A_MINUTE));
    let mut read = Vec::new();
    let mut chunks = answer.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| unavailable(why(error, secrets)))?;
        if read.len() + chunk.len() > MOST {
            return Err(unavailable("its answer is too long".to_owned()));
        }
        read.extend_from_slice(&chunk);
    }
    let text = secrets.apply(&String::from_utf8_lossy(&read));
    Ok(Said {
        status,
        body: serde_json::from_str(&text).unwrap_or_default(),
        wait,
    })
}

pub(super) fn pull(at: &At<'_>, said: &Value) -> Result<Pull, ForgeError> {
    let text = |value: &Value| value.as_str().map(shorten);
    let url = said["html_url"].as_str();
    let is_link = |url: &&str| {
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        is_web && url.len() <= LONGEST_URL && url.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let is_merged = said["merged_at"].is_string() || said["merged"] == true;
    let state = match said["state"].as_str() {
        Some("open") => Some(PullState::Open),
        Some("closed") if is_merged => Some(PullState::Merged),
        Some("closed") => Some(PullState::Closed),
        _ => None,
    };
    let pull = (|| {
        Some(Pull {
            number: said["number"].as_u64()?,
            title: text(&said["title"])?,
            url: url.filter(is_link)?.to_owned(),
            state: state?,
            branch: text(&said["head"]["ref"])?,
            base: text(&said["base"]["ref"])?,
        })
    })();
    pull.ok_or_else(|| at.nonsense())
}

pub(super) fn error(at: &At<'_>, said: &Said) -> ForgeError {
    let (host, repo) = (at.host.to_owned(), at.name.to_owned());
    if let Some(wait) = said.wait {
        return ForgeError::Throttled { host, wait };
    }
    let words = words(&said.body);
    match said.status.as_u16() {
        401 => ForgeError::TokenRefused { host, repo },
        403 => ForgeError::Forbidden {
            host,
            repo,
            said: words,
        },
        404 => ForgeError::NoRepository { host, repo },
        400..=499 => ForgeError::Refused { host, said: words },
        _ => ForgeError::Unavailable {
            host,
            said: format!("it answered {}: {words}", said.status),
        },
    }
}

/// `message`, and what its `errors` say.
fn words(body: &Value) -> String {
    let mut all = vec![body["message"].as_str().unwrap_or("it does not say why")];
    let errors = body["errors"].as_array();
    let details = errors.into_iter().flatten().take(5);
    all.extend(details.filter_map(|one| one["message"].as_str().or(one.as_str())));
    shorten(&all.join("; "))
}

pub(super) fn shorten(text: &str) -> String {
    let plain = text.chars().filter(|letter| !letter.is_control());
    plain.take(LONGEST_WORDS).collect()
}
