//! The git door: git in a sandbox asks as if it were the host's own server, and holds no token.
//!
//! Each request names a repository and a verb; both are checked before anything goes out, and the
//! token that goes with them never comes back.

mod address;
mod config;
mod redirect;
mod refused;
mod stream;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::Empty;
use hyper::body::Body;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap,
    HeaderValue, RETRY_AFTER,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use model::{Redactor, Secret};
use tokio::io::{AsyncRead, AsyncWrite};

pub use address::Verb;
pub use config::{Config, Host, Scheme};

use crate::content::{Answer, BoxError};
use crate::gate::{Gate, Slot};
use crate::headers;
use crate::network::{NetworkError, why};
use crate::serve::serve;
use crate::visitor::Visitor;
use address::{Asked, Part};
use refused::Refused;

/// Who knows which repositories a session may use.
#[async_trait]
pub trait Grants: Send + Sync + fmt::Debug {
    /// The token to ask with, `None` to ask as anybody. `host` is in lower case, `repo` is without
    /// its `.git` and otherwise as written: some hosts tell cases apart, some do not.
    async fn may(
        &self,
        visitor: &Visitor,
        host: &str,
        repo: &str,
        verb: Verb,
    ) -> Result<Option<Secret>, Refusal>;

    /// The host did not take the token. True where [`may`](Self::may) has another now.
    async fn renew(&self, _visitor: &Visitor, _host: &str, _repo: &str) -> bool {
        false
    }
}

/// Why not, in words that git shows to whoever asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub reason: String,
}

pub struct Git {
    config: Config,
    client: reqwest::Client,
    grants: Arc<dyn Grants>,
    gate: Gate,
}

/// What of git's headers a host gets to see.
const OUTWARDS: &[&str] = &[
    "accept",
    "accept-encoding",
    "content-encoding",
    "content-type",
    "git-protocol",
    "user-agent",
];

impl Git {
    pub fn new(mut config: Config, grants: Arc<dyn Grants>) -> Result<Self, NetworkError> {
        for host in &mut config.hosts {
            host.name.make_ascii_lowercase();
        }
        let listed = config.hosts.iter().map(|host| {
            let name = host.name.rsplit_once(':');
            name.map_or(&*host.name, |(name, _)| name).to_owned()
        });
        Ok(Self {
            client: config.network.guarded_client(listed.collect())?,
            gate: Gate::new(config.limits),
            grants,
            config,
        })
    }

    /// All requests of a connection that came out of a sandbox.
    pub async fn serve<S>(&self, visitor: Visitor, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let Some(_slot) = self.gate.connect(&visitor) else {
            tracing::warn!(
                session = visitor.session,
                "too many connections at the git door"
            );
            return;
        };
        let visitor = &visitor;
        serve(stream, move |request| self.handle(visitor, request)).await;
    }

    /// One request, its path from `/git/https/` on.
    pub async fn handle<B>(&self, visitor: &Visitor, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let (head, body) = request.into_parts();
        match self.pass_on(visitor, &head, body).await {
            Ok(answer) => answer,
            Err(refused) => {
                tracing::info!(
                    session = visitor.session,
                    generation = visitor.generation,
                    path = head.uri.path(),
                    status = refused.status.as_u16(),
                    reason = refused.message,
                    "refused at the git door"
                );
                refused.answer()
            }
        }
    }

    async fn pass_on<B>(&self, visitor: &Visitor, head: &Parts, body: B) -> Result<Answer, Refused>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let uri = &head.uri;
        let asked = Asked::read(&head.method, uri.path(), uri.query(), &self.config.hosts)?;
        let slot = self.gate.enter(visitor)?;
        let Asked { address, .. } = &asked;
        let token = self.token(visitor, &asked).await?;
        let is_too_long = Arc::new(AtomicBool::new(false));
        let request = self.request(&asked, &head.headers, token.as_ref(), body, &is_too_long)?;
        let secrets = secrets(token.as_ref());
        let answer = request.send().await.map_err(|error| {
            if is_too_long.load(Ordering::Relaxed) {
                return self.too_long(&asked);
            }
            let why = why(error, &secrets);
            let message = format!("cannot get an answer from {}: {why}", address.host);
            Refused::new(StatusCode::BAD_GATEWAY, message)
        })?;
        let is_refused = answer.status() == StatusCode::UNAUTHORIZED && token.is_some();
        if is_refused
            && self
                .grants
                .renew(visitor, &address.host, &address.repo)
                .await
        {
            // What brings nothing along can be asked again at once; the rest git asks again itself.
            if asked.part == Part::Refs {
                return self.ask_again(visitor, &asked, &head.headers, slot).await;
            }
        }
        self.pass_back(&asked, answer, token.is_some(), &secrets, slot)
            .await
    }

    async fn token(&self, visitor: &Visitor, asked: &Asked) -> Result<Option<Secret>, Refused> {
        let Asked { address, verb, .. } = asked;
        let may = self
            .grants
            .may(visitor, &address.host, &address.repo, *verb);
        let granted = may.await;
        granted.map_err(|refusal| Refused::new(StatusCode::FORBIDDEN, refusal.reason))
    }

    /// With the token that there is now, once.
    async fn ask_again(
        &self,
        visitor: &Visitor,
        asked: &Asked,
        sent: &HeaderMap,
        slot: Slot,
    ) -> Result<Answer, Refused> {
        let token = self.token(visitor, asked).await?;
        let secrets = secrets(token.as_ref());
        let nothing = Empty::<Bytes>::new();
        let request = self.request(asked, sent, token.as_ref(), nothing, &Arc::default())?;
        let answer = request.send().await.map_err(|error| {
            let why = why(error, &secrets);
            let message = format!("cannot get an answer from {}: {why}", asked.address.host);
            Refused::new(StatusCode::BAD_GATEWAY, message)
        })?;
        self.pass_back(asked, answer, token.is_some(), &secrets, slot)
            .await
    }

    fn request<B>(
        &self,
        asked: &Asked,
        sent: &HeaderMap,
        token: Option<&Secret>,
        body: B,
        is_too_long: &stream::IsTooLong,
    ) -> Result<reqwest::RequestBuilder, Refused>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let mut kept = headers::only(sent, OUTWARDS);
        if let Some(token) = token {
            let mut value = HeaderValue::try_from(format!("Basic {}", basic(token)))
                .map_err(|error| Refused::new(StatusCode::BAD_GATEWAY, error.to_string()))?;
            value.set_sensitive(true);
            kept.insert(AUTHORIZATION, value);
        }
        if asked.part == Part::Refs {
            return Ok(self.client.request(Method::GET, asked.url()).headers(kept));
        }
        let most = self.most(asked);
        let size = body.size_hint();
        if size.lower() > most {
            return Err(self.too_long(asked));
        }
        if let Some(exact) = size.exact() {
            kept.insert(CONTENT_LENGTH, exact.into());
        }
        let body = stream::outwards(body, most, Arc::clone(is_too_long));
        let request = self.client.request(Method::POST, asked.url());
        Ok(request.headers(kept).body(reqwest::Body::wrap_stream(body)))
    }

    fn most(&self, asked: &Asked) -> u64 {
        match asked.verb {
            Verb::Fetch => self.config.most_wants,
            Verb::Push => self.config.most_push,
        }
    }

    fn too_long(&self, asked: &Asked) -> Refused {
        let most = self.most(asked);
        let message = format!("this is more than the {most} bytes that go through the git door");
        Refused::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    async fn pass_back(
        &self,
        asked: &Asked,
        answer: reqwest::Response,
        had_token: bool,
        secrets: &Redactor,
        slot: Slot,
    ) -> Result<Answer, Refused> {
        let status = answer.status();
        let Asked { address, verb, .. } = asked;
        if status.is_redirection() {
            return redirect::answer(asked, &answer, &self.config.hosts);
        }
        if status != StatusCode::OK {
            let wait = answer.headers().get(RETRY_AFTER).cloned();
            let words = words(answer, secrets).await;
            let refused = refused::by_host(status, address, *verb, had_token, &words);
            let mut answer = refused.answer();
            if let Some(wait) = wait {
                answer.headers_mut().insert(RETRY_AFTER, wait);
            }
            return Ok(answer);
        }
        let kind = match asked.part {
            Part::Refs => format!("application/x-{}-advertisement", verb.service()),
            Part::Pack => format!("application/x-{}-result", verb.service()),
        };
        if answer
            .headers()
            .get(CONTENT_TYPE)
            .map(HeaderValue::as_bytes)
            != Some(kind.as_bytes())
        {
            let message = format!(
                "{} did not answer as a git server would; is there a repository at {}?",
                address.host, address.repo
            );
            return Err(Refused::new(StatusCode::BAD_GATEWAY, message));
        }
        let listed = [CONTENT_TYPE.as_str(), CONTENT_ENCODING.as_str()];
        let mut kept = headers::only(answer.headers(), &listed);
        kept.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let body = stream::inwards(answer, self.config.most_answer, slot);
        let mut passed = Response::new(body);
        *passed.headers_mut() = kept;
        Ok(passed)
    }
}

impl fmt::Debug for Git {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Git")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

fn basic(token: &Secret) -> String {
    STANDARD.encode(format!("x-access-token:{}", token.expose()))
}

fn secrets(token: Option<&Secret>) -> Redactor {
    let encoded = token.map(basic);
    let plain = token.map(Secret::expose);
    Redactor::new(plain.into_iter().chain(encoded.as_deref()))
}

const LONGEST_WORDS: usize = 2048;

/// What a host says in plain text beside its refusal; nothing of a page made for browsers.
async fn words(answer: reqwest::Response, secrets: &Redactor) -> String {
    let of = |name| {
        answer
            .headers()
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let is_plain = of(CONTENT_TYPE).is_some_and(|kind| kind.starts_with("text/plain"));
    if !is_plain || of(CONTENT_ENCODING).is_some() {
        return String::new();
    }
    let mut chunks = answer.bytes_stream();
    let mut read = Vec::new();
    while let Some(Ok(chunk)) = chunks.next().await {
        read.extend_from_slice(&chunk);
        // Somewhat more, so that a secret on the edge is still whole.
        if read.len() > 2 * LONGEST_WORDS {
            break;
        }
    }
    let text = secrets.apply(&String::from_utf8_lossy(&read));
    let plain = text
        .chars()
        .filter(|letter| !letter.is_control() || *letter == '\n');
    plain
        .take(LONGEST_WORDS)
        .collect::<String>()
        .trim()
        .to_owned()
}
