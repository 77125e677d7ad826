//! Hosts that send elsewhere. Git is sent on only to another spelling of the same repository on
//! the same host, and it comes back through the door for that; the token goes nowhere else.

use hyper::header::{CACHE_CONTROL, HeaderValue, LOCATION};
use hyper::{Method, Response, StatusCode};
use reqwest::Url;

use super::address::{Asked, Part};
use super::config::Host;
use super::refused::Refused;
use crate::content::{Answer, full};

pub(super) fn answer(
    asked: &Asked,
    answer: &reqwest::Response,
    hosts: &[Host],
) -> Result<Answer, Refused> {
    let location = answer.headers().get(LOCATION);
    let target = location
        .and_then(|location| location.to_str().ok())
        .and_then(|location| answer.url().join(location).ok());
    let Some(written) = target
        .as_ref()
        .and_then(|target| other_spelling(asked, target, hosts))
    else {
        return Err(refusal(asked, target.as_ref()));
    };
    // Relative, since only the client knows by which address it came to this door.
    let name = written.rsplit('/').next().unwrap_or_default();
    let service = asked.verb.service();
    let to = format!("../../{name}/info/refs?service={service}");
    let to = HeaderValue::try_from(to)
        .map_err(|error| Refused::new(StatusCode::BAD_GATEWAY, error.to_string()))?;
    let mut answer = Response::new(full(""));
    *answer.status_mut() = StatusCode::FOUND;
    answer.headers_mut().insert(LOCATION, to);
    answer
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}

/// The same repository, with or without `.git`.
fn other_spelling(asked: &Asked, target: &Url, hosts: &[Host]) -> Option<String> {
    if asked.part != Part::Refs
        || target.scheme() != asked.address.scheme.text()
        || !target.username().is_empty()
        || target.password().is_some()
    {
        return None;
    }
    let host = match target.port() {
        Some(port) => format!("{}:{port}", target.host_str()?),
        None => target.host_str()?.to_owned(),
    };
    let path = format!("/git/https/{host}{}", target.path());
    let found = Asked::read(&Method::GET, &path, target.query(), hosts).ok()?;
    let is_same = found.verb == asked.verb
        && found.address.host == asked.address.host
        && found.address.repo == asked.address.repo;
    let is_elsewhere = found.address.written != asked.address.written;
    (is_same && is_elsewhere).then_some(found.address.written)
}

fn refusal(asked: &Asked, target: Option<&Url>) -> Refused {
    let place = target.and_then(|target| Some((target.host_str()?, target.path())));
    let place = match place {
        Some((host, path)) => format!("{host}{}", path.trim_end_matches("/info/refs")),
        None => "nowhere that can be understood".to_owned(),
    };
    let message = format!(
        "{} sends requests for {} to {place}, and this door does not follow there; if the \
         repository moved, use its new address",
        asked.address.host, asked.address.repo
    );
    Refused::new(StatusCode::BAD_GATEWAY, message)
}
