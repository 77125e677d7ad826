//! What a request does is done once, and whoever sends it again is told what came of it. It is done
//! to its end when its client has gone: else a second sending would do it beside the first.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts as _, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use model::{Secret, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use store::idempotency::{Attempt, Begun};
use store::secrets::{Scope, SealedValue};
use tokio::time::{Instant, interval_at, sleep};

use super::{LEASE, different, forget, key, running};
use crate::app::App;
use crate::auth::Caller;
use crate::body;
use crate::problem::{Answer, Problem};

/// They make the record and keep the answer in one transaction.
const KEEPS_ITS_OWN: [&str; 2] = ["/v1/sessions", "/v1/sessions/{id}/fork"];
/// Read in pieces: what is in them does not tell two requests apart.
const STREAMED: &str = "/v1/uploads";
/// Before somebody else may take whoever is at it for dead.
const RENEWED_EVERY: Duration = Duration::from_secs(30);
/// For whoever sends the same while it is being done.
const LOOKED_EVERY: Duration = Duration::from_millis(250);
const LOOKED_FOR: Duration = Duration::from_secs(45);

/// Who signs in brings something that is good once.
pub(crate) fn is_done_once(path: &str) -> bool {
    !path.starts_with("/v1/log")
}

/// For every `POST` with an `Idempotency-Key`.
pub(crate) async fn deed(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map_or("", |path| path.as_str()).to_owned();
    let is_ours =
        request.method() == Method::POST && is_done_once(&path) && !KEEPS_ITS_OWN.contains(&&*path);
    if !is_ours || !request.headers().contains_key(super::HEADER) {
        return next.run(request).await;
    }
    let done = once(app, &path, request, next).await;
    done.unwrap_or_else(Problem::into_response)
}

async fn once(app: App, path: &str, request: Request, next: Next) -> Answer<Response> {
    let (mut head, body) = request.into_parts();
    let key = key(&head.headers)?.unwrap_or_default().to_owned();
    let caller = Caller::from_request_parts(&mut head, &app).await?;
    let (said, body) = if path == STREAMED {
        (Bytes::new(), body)
    } else {
        let said = body::whole(body, body::USUAL, "the body is too long").await?;
        (said.clone(), Body::from(said))
    };
    let digest = digest(&app, &caller, &head, &said);
    let attempt = match begin(&app, &caller, &key, &digest).await? {
        Begun::New(attempt) => attempt,
        Begun::Finished { body, .. } => return Kept::open(&app, &caller, &key, &body)?.answer(),
        Begun::Running => return Err(running()),
        Begun::Different => return Err(different()),
    };
    head.extensions.insert(caller.clone());
    let request = Request::from_parts(head, body);
    let working = app.clone();
    let work = app.tasks().spawn(async move {
        let answer = at_it(&working, &attempt, next.run(request)).await;
        keep(&working, &caller, &key, &attempt, answer).await
    });
    work.await.map_err(Problem::internal)?
}

/// All that makes the request what it is, under a key of ours: bodies have secrets in them.
fn digest(app: &App, caller: &Caller, head: &Parts, said: &[u8]) -> String {
    let length = head.headers.get(header::CONTENT_LENGTH);
    let secret = app.parts.vault.server_key("requests");
    let mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes())
        .expect("HMAC takes a key of any length");
    let asked = head.uri.path_and_query().map_or("", |path| path.as_str());
    let actor = caller.actor();
    let parts = [
        asked.as_bytes(),
        actor.as_bytes(),
        length.map_or(b"", HeaderValue::as_bytes),
        said,
    ];
    let mac = parts.into_iter().fold(mac, |mac, part| {
        // With its length, or two requests could read the same.
        mac.chain_update((part.len() as u64).to_be_bytes())
            .chain_update(part)
    });
    STANDARD_NO_PAD.encode(mac.finalize().into_bytes())
}

/// Whoever finds it under way waits for what comes of it, for a while.
async fn begin(app: &App, caller: &Caller, key: &str, digest: &str) -> Answer<Begun> {
    let patience = Instant::now() + LOOKED_FOR;
    loop {
        let now = app.now();
        let mut tx = app.store().begin().await?;
        let begun = tx
            .begin_request(caller.organisation, key, digest, now, lease(now))
            .await?;
        tx.commit().await?;
        if begun != Begun::Running || Instant::now() > patience {
            return Ok(begun);
        }
        sleep(LOOKED_EVERY).await;
    }
}

fn lease(now: Timestamp) -> Timestamp {
    now.checked_add(LEASE).unwrap_or(Timestamp::MAX)
}

/// Says that it is at it for as long as it is.
async fn at_it(app: &App, attempt: &Attempt, work: impl Future<Output = Response>) -> Response {
    let mut work = std::pin::pin!(work);
    let mut again = interval_at(Instant::now() + RENEWED_EVERY, RENEWED_EVERY);
    loop {
        tokio::select! {
            answer = &mut work => return answer,
            _ = again.tick() => {
                if let Err(problem) = renew(app, attempt).await {
                    tracing::warn!(why = problem.words(), "a request's lease is not renewed");
                }
            }
        }
    }
}

async fn renew(app: &App, attempt: &Attempt) -> Answer<()> {
    let mut tx = app.store().begin().await?;
    tx.renew_request(attempt, lease(app.now())).await?;
    Ok(tx.commit().await?)
}

/// What failed may be tried again at once; what was done is answered the same from now on.
async fn keep(
    app: &App,
    caller: &Caller,
    key: &str,
    attempt: &Attempt,
    answer: Response,
) -> Answer<Response> {
    if !answer.status().is_success() {
        forget(app, Some(attempt)).await?;
        return Ok(answer);
    }
    let (head, body) = answer.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await;
    let body = body.map_err(Problem::internal)?;
    let kept = Kept {
        status: head.status.as_u16(),
        kind: head
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|kind| Some(kind.to_str().ok()?.to_owned())),
        body: String::from_utf8(body.to_vec()).ok(),
    };
    let sealed = kept.seal(app, caller, key)?;
    let mut tx = app.store().begin().await?;
    // Done is done, also where a lease ran out.
    tx.finish_request(attempt, kept.status, &sealed).await?;
    tx.commit().await?;
    Ok(Response::from_parts(head, Body::from(body)))
}

/// An answer as it lies in the store: sealed, for it may show what is shown once.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    status: u16,
    kind: Option<String>,
    /// None was too long to be kept.
    body: Option<String>,
}

impl Kept {
    fn seal(&self, app: &App, caller: &Caller, key: &str) -> Answer<String> {
        let vault = &app.parts.vault;
        let of = |kept: &Self| {
            let text = serde_json::to_string(kept).map_err(Problem::internal)?;
            let name = Self::name(key);
            let sealed = vault.seal(
                caller.organisation,
                &Scope::Organisation,
                &name,
                &Secret::new(text),
            );
            Answer::Ok(sealed.ok())
        };
        let sealed = match of(self)? {
            Some(sealed) => sealed,
            None => of(&Self {
                status: self.status,
                kind: None,
                body: None,
            })?
            .ok_or_else(|| Problem::internal("an answer is not sealed"))?,
        };
        Ok(format!(
            "{}.{}.{}",
            sealed.key_id,
            STANDARD_NO_PAD.encode(sealed.nonce),
            STANDARD_NO_PAD.encode(sealed.ciphertext)
        ))
    }

    fn open(app: &App, caller: &Caller, key: &str, sealed: &str) -> Answer<Self> {
        let damaged = || Problem::internal("an answer that was kept cannot be read");
        let mut parts = sealed.split('.');
        let key_id = parts.next().ok_or_else(damaged)?.to_owned();
        let mut bytes = || {
            let part = parts.next().ok_or_else(damaged)?;
            STANDARD_NO_PAD.decode(part).map_err(|_| damaged())
        };
        let value = SealedValue {
            key_id,
            nonce: bytes()?.try_into().map_err(|_| damaged())?,
            ciphertext: bytes()?,
        };
        let opened = app
            .parts
            .vault
            .unseal(
                caller.organisation,
                &Scope::Organisation,
                &Self::name(key),
                &value,
            )
            .map_err(Problem::internal)?;
        serde_json::from_str(opened.expose()).map_err(Problem::internal)
    }

    /// No secret is called so.
    fn name(key: &str) -> String {
        format!("answer to {key}")
    }

    fn answer(self) -> Answer<Response> {
        let Some(body) = self.body else {
            return Err(Problem::conflict(
                "answer-not-kept",
                "it was done; what was answered was too long to be kept",
            ));
        };
        let status = StatusCode::from_u16(self.status).map_err(Problem::internal)?;
        let mut answer = (status, body).into_response();
        let headers = answer.headers_mut();
        headers.remove(header::CONTENT_TYPE);
        if let Some(kind) = self.kind.and_then(|kind| kind.try_into().ok()) {
            headers.insert(header::CONTENT_TYPE, kind);
        }
        Ok(answer)
    }
}
