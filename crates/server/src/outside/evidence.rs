//! What a session shows for its work: fetched from its sandbox, and kept here after that is gone.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use gateway::{Inside, encode};
use hyper::Method;
use model::{Evidence, Id, Session};
use serde::Deserialize;
use serde_json::Value;
use sessions::Handle;
use store::evidence::EvidenceRecord;
use wire::link::{Asked, Verified, Verify};

use super::Outside;
use super::answers::{failed, read, unavailable, written};
use crate::draft::Draft;
use crate::problem::Problem;

const FOLDER: &str = ".nacre/.verification";
/// Of one call.
const FILES: usize = 200;
const BYTES: u64 = 64 << 20;
/// Of one file.
const LONGEST: u64 = 16 << 20;
/// Of one session.
const SESSION_FILES: u64 = 1000;
const SESSION_BYTES: u64 = 256 << 20;
const LONGEST_PATH: usize = 500;
/// For the tools to begin an answer, and for all of it: the agent waits a little longer.
const PATIENCE: Duration = Duration::from_secs(30);
const ALL: Duration = Duration::from_secs(110);

/// Where a file that was shown lies.
pub(crate) fn path(uploads: &Utf8Path, id: Id<Evidence>) -> Utf8PathBuf {
    folder(uploads).join(id.to_string())
}

/// Below the uploads: both are files that came from outside.
pub(crate) fn folder(uploads: &Utf8Path) -> Utf8PathBuf {
    uploads.join("evidence")
}

/// As a sandbox lists them: every word may be made up.
#[derive(Deserialize)]
struct Listed {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    path: String,
    #[serde(default)]
    content_type: String,
}

pub(super) async fn verify(
    outside: &Outside,
    session: &Handle,
    asked: &Asked,
) -> Result<Value, wire::link::Failed> {
    let wanted: Verify = read(asked)?;
    let known = outside.store.evidence_of(session.session(), &asked.id);
    let known = known.await.map_err(|error| unavailable(&error))?;
    if !known.is_empty() {
        // The same call, delivered again.
        return told(&known);
    }
    let folder = wanted.folder.as_deref().unwrap_or(FOLDER);
    if !is_path(folder) {
        return Err(failed("bad_request", "`folder` is below the workspace"));
    }
    let Some(_alone) = outside.showing.one(session.session()) else {
        let message = "evidence of this session is being fetched: wait for that";
        return Err(failed("refused", message));
    };
    let keeping = keep(outside, session, &asked.id, folder);
    let kept = tokio::time::timeout(ALL, keeping).await;
    let kept = kept.map_err(|_| failed("unavailable", "it took too long: show less at once"))?;
    told(&kept.map_err(|problem| failed("refused", problem.words()))?)
}

/// All of them, or none.
async fn keep(
    outside: &Outside,
    session: &Handle,
    request: &str,
    folder: &str,
) -> Result<Vec<EvidenceRecord>, Problem> {
    let id = session.session();
    let shown = outside.store.shown_by(id).await?;
    let mut room = BYTES.min(SESSION_BYTES.saturating_sub(shown.bytes));
    let inside = inside(outside, session)?;
    let list = format!("/api/evidence?folder={}", encode(folder));
    let listed: Listed = inside.ask(Method::GET, &list, None, PATIENCE).await?;
    if listed.files.is_empty() {
        return Err(Problem::invalid(format!(
            "there are no files in {folder}: put them there first"
        )));
    }
    let many = listed.files.len();
    if many > FILES || shown.files + many as u64 > SESSION_FILES {
        return Err(Problem::invalid(format!(
            "at most {FILES} files are kept at once, and {SESSION_FILES} of a session"
        )));
    }
    let mut kept: Vec<(Draft, EvidenceRecord)> = Vec::new();
    for file in listed.files {
        if !is_path(&file.path) {
            return Err(Problem::invalid("a file has a name that is no path"));
        }
        let evidence = Id::new(&*outside.clock);
        let draft = Draft::new(path(&outside.uploads, evidence));
        let at = format!(
            "/api/files?path={}",
            encode(&format!("{folder}/{}", file.path))
        );
        let answer = inside.send(Method::GET, &at, "", PATIENCE).await?;
        let mut left = LONGEST.min(room);
        let received = draft.receive(answer.into_body(), |bytes| {
            left = left.checked_sub(bytes).ok_or_else(|| {
                Problem::too_large("a file has at most 16 MiB, all at once 64, of a session 256")
            })?;
            Ok(())
        });
        let received = received.await?;
        room -= received.size;
        let record = EvidenceRecord {
            id: evidence,
            session: id,
            request: request.to_owned(),
            path: file.path,
            media_type: media_type(&file.content_type).to_owned(),
            size: received.size,
            digest: format!("sha256:{}", received.digest),
            created_at: outside.clock.now(),
        };
        kept.push((draft, record));
    }
    let mut tx = outside.store.begin().await?;
    for (_, record) in &kept {
        if !tx.record_evidence(record).await? {
            // The same call is carried out elsewhere, and was quicker.
            tx.rollback().await?;
            return Ok(outside.store.evidence_of(id, request).await?);
        }
    }
    tx.commit().await?;
    let keep = |(draft, record): (Draft, EvidenceRecord)| {
        draft.keep();
        record
    };
    Ok(kept.into_iter().map(keep).collect())
}

/// Sessions whose evidence is being fetched, each by one call at a time: so none goes beyond its limit.
#[derive(Debug, Default)]
pub(super) struct Showing(Mutex<HashSet<Id<Session>>>);

/// Whoever holds it fetches.
struct Alone<'a>(&'a Showing, Id<Session>);

impl Showing {
    fn one(&self, session: Id<Session>) -> Option<Alone<'_>> {
        // Without the lock: whoever is let go takes it.
        let is_first = self.lock().insert(session);
        is_first.then(|| Alone(self, session))
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Id<Session>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

/// Nobody is woken for it: whoever asks is awake.
fn inside(outside: &Outside, session: &Handle) -> Result<Inside, Problem> {
    let place = session.seen().borrow().place;
    let place = place.ok_or_else(|| Problem::unavailable("its sandbox is gone"))?;
    let mut providers = outside.providers.iter();
    let provider = providers.find(|provider| provider.name() == session.provider());
    let provider = provider.ok_or_else(|| Problem::internal("a provider that is not here"))?;
    Ok(Inside::new(Arc::clone(provider), place))
}

fn told(kept: &[EvidenceRecord]) -> Result<Value, wire::link::Failed> {
    written(&Verified {
        files: kept.iter().map(|file| file.path.clone()).collect(),
    })
}

fn is_path(path: &str) -> bool {
    (1..=LONGEST_PATH).contains(&path.len())
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// A word that a header can hold, or none in particular.
fn media_type(said: &str) -> &str {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '_');
    let is_name = |name: &str| !name.is_empty() && name.chars().all(is_plain);
    let bare = said.split(';').next().unwrap_or_default().trim();
    match bare.split_once('/') {
        Some((kind, sort)) if bare.len() <= 100 && is_name(kind) && is_name(sort) => bare,
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use model::SystemClock;

    use super::*;

    #[test]
    fn one_call_of_a_session_fetches_at_a_time() {
        let (showing, session) = (Showing::default(), Id::new(&SystemClock));
        let first = showing.one(session);
        assert!(first.is_some());
        assert!(showing.one(session).is_none());
        assert!(showing.one(Id::new(&SystemClock)).is_some());
        drop(first);
        assert!(showing.one(session).is_some());
    }

    #[test]
    fn what_a_sandbox_says_of_its_files_is_not_believed() {
        for good in ["a.png", "out/a b.txt", ".nacre/.verification"] {
            assert!(is_path(good), "{good}");
        }
        let long = "a".repeat(LONGEST_PATH + 1);
        for bad in ["", "/etc/passwd", "../x", "a/../b", "a//b", "a\nb", &*long] {
            assert!(!is_path(bad), "{bad}");
        }
        assert_eq!(media_type("text/plain; charset=utf-8"), "text/plain");
        for odd in ["", "text", "text/html\r\nx: y", "a/b/c", "/"] {
            assert_eq!(media_type(odd), "application/octet-stream", "{odd}");
        }
    }
}
