use std::rc::Rc;

use bytes::Bytes;
use hyper::header::{ACCEPT_RANGES, CONTENT_RANGE, HeaderValue, RANGE};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::Tools;
use super::answer::{Answer, Failure, json, sized};
use super::ask::Ask;
use crate::files::{Limits, Reading, content_type};

/// Of a file that wait for its reader.
const PIECES: usize = 2;

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
            let mut writing = files.create(&ask.required("path")?, None).await?;
            let mut body = ask.pieces();
            while let Some(piece) = body.next().await? {
                writing.write(&piece).await?;
            }
            writing.finish().await?;
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
    let (offset, length) = range.unwrap_or((0, u64::MAX));
    let mut reading = tools.files.open(&path, offset, length).await?;
    let size = reading.size;
    let left = size.saturating_sub(offset).min(length);
    if left == 0 && range.is_some() && size > 0 {
        let beyond = format!("the file has {size} bytes");
        return Err(Failure::new(
            StatusCode::RANGE_NOT_SATISFIABLE,
            "beyond",
            beyond,
        ));
    }
    let first = reading.next().await?.unwrap_or_default();
    let kind = content_type(&path, &first);
    let (sender, receiver) = mpsc::channel(PIECES);
    tools.tasks.spawn_local(feed(reading, first, sender));
    let mut answer = sized(receiver, left, kind);
    let bytes = HeaderValue::from_static("bytes");
    answer.headers_mut().insert(ACCEPT_RANGES, bytes);
    if range.is_some() && left > 0 {
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        let said = format!("bytes {offset}-{}/{size}", offset + left - 1);
        if let Ok(value) = HeaderValue::from_str(&said) {
            answer.headers_mut().insert(CONTENT_RANGE, value);
        }
    }
    Ok(answer)
}

/// Until the end, or until the reader goes. A file that shrank on the way is seen to be cut.
async fn feed(mut reading: Reading, first: Vec<u8>, sender: mpsc::Sender<Bytes>) {
    let mut piece = first;
    while !piece.is_empty() {
        if sender.send(piece.into()).await.is_err() {
            return;
        }
        let Ok(Some(next)) = reading.next().await else {
            return;
        };
        piece = next;
    }
}

/// `bytes=from-` and `bytes=from-to`; other forms are answered with the whole.
fn range(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    let from: u64 = from.parse().ok()?;
    if to.is_empty() {
        return Some((from, u64::MAX));
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
        assert_eq!(range("bytes=5-"), Some((5, u64::MAX)));
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
