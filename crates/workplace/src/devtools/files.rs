use std::rc::Rc;

use hyper::header::{ACCEPT_RANGES, CONTENT_RANGE, HeaderValue, RANGE};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::Tools;
use super::answer::{Answer, Failure, bytes, json};
use super::ask::Ask;
use crate::files::{Limits, MAX_READ, MAX_WRITTEN, content_type};

#[derive(Deserialize)]
struct Rename {
    from: String,
    to: String,
}

#[derive(Deserialize)]
struct Directory {
    path: String,
}

pub(super) async fn answer(
    tools: &Rc<Tools>,
    ask: Ask,
    method: &Method,
    path: &[&str],
) -> Result<Answer, Failure> {
    let files = &tools.files;
    let done = || Ok(json(&json!({"ok": true})));
    match (method.as_str(), path) {
        ("GET", ["list"]) => {
            let path = ask.parameter("path").unwrap_or_default();
            Ok(json(&json!({"entries": files.list(&path).await?})))
        }
        ("GET", []) => read(tools, &ask).await,
        ("PUT", []) => {
            let path = ask.required("path")?;
            let content = ask.body(MAX_WRITTEN).await?;
            files.write(&path, &content, None).await?;
            done()
        }
        ("DELETE", []) => {
            files.remove(&ask.required("path")?).await?;
            done()
        }
        ("POST", ["rename"]) => {
            let Rename { from, to } = ask.json().await?;
            files.rename(&from, &to).await?;
            done()
        }
        ("POST", ["directory"]) => {
            let Directory { path } = ask.json().await?;
            files.make_directory(&path).await?;
            done()
        }
        _ => Err(Failure::no_route()),
    }
}

async fn read(tools: &Rc<Tools>, ask: &Ask) -> Result<Answer, Failure> {
    let path = ask.required("path")?;
    let asked = ask.request.headers().get(RANGE);
    let range = asked.and_then(|range| range.to_str().ok()).and_then(range);
    let (offset, length) = range.unwrap_or((0, MAX_READ));
    let part = tools.files.read(&path, offset, length).await?;
    let end = offset + part.bytes.len() as u64;
    let kind = content_type(&path, &part.bytes);
    let is_whole = offset == 0 && end == part.size;
    let is_empty = part.bytes.is_empty();
    let mut answer = bytes(part.bytes.into(), kind);
    answer
        .headers_mut()
        .insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if is_whole || (is_empty && range.is_none()) {
        return Ok(answer);
    }
    let said = if is_empty {
        *answer.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
        format!("bytes */{}", part.size)
    } else {
        // Longer than is read at once, it is partial even when all was asked for.
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        format!("bytes {offset}-{}/{}", end - 1, part.size)
    };
    if let Ok(value) = HeaderValue::from_str(&said) {
        answer.headers_mut().insert(CONTENT_RANGE, value);
    }
    Ok(answer)
}

/// `bytes=from-` and `bytes=from-to`; other forms are answered with the whole.
fn range(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    let from: u64 = from.parse().ok()?;
    if to.is_empty() {
        return Some((from, MAX_READ));
    }
    let to: u64 = to.parse().ok()?;
    Some((from, to.checked_sub(from)?.saturating_add(1)))
}

/// The list; the hub fetches the files over the link.
pub(super) async fn evidence(tools: &Rc<Tools>, ask: &Ask) -> Result<Answer, Failure> {
    let folder = ask.parameter("folder");
    let mut evidence = tools
        .files
        .evidence(folder.as_deref(), Limits::default())
        .await?;
    let mut found = Vec::new();
    while let Some((file, _)) = evidence.next().await? {
        found.push(file);
    }
    Ok(json(
        &json!({"files": found, "left_out": evidence.left_out()}),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(range("bytes=5-9"), Some((5, 5)));
        assert_eq!(range("bytes=5-"), Some((5, MAX_READ)));
        for other in [
            "bytes=-5",
            "bytes=9-5",
            "items=1-2",
            "bytes=a-b",
            "bytes=1-2,3-4",
        ] {
            assert_eq!(range(other), None, "{other}");
        }
        assert_eq!(range("bytes=0-18446744073709551615"), Some((0, u64::MAX)));
    }
}
