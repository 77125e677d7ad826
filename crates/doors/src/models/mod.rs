//! The model door: agents ask as if it were the provider's own server, and hold no key.

mod account;
mod asker;
mod catalogue;
mod config;
mod endpoint;
mod outside;
mod passing;
mod price;
mod refusal;
mod tap;
mod usage;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use model::Secret;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use wire::link::Usage;

pub use asker::Asker;
pub use config::{Api, Budget, Config, ModelInfo, Upstream};
pub(crate) use endpoint::Endpoint;
pub(crate) use passing::Reply;
pub use price::Price;

use crate::content::{self, Answer, BoxError};
use crate::demo::Demo;
use crate::gate::Gate;
use crate::intake::Intake;
use crate::network::NetworkError;
use crate::scrub::Scrubber;
use crate::serve::serve;
use crate::visitor::Visitor;
use account::{Account, Asked};
use outside::Sending;
use passing::Passing;
use price::{Known, Prices};
use refusal::Refusal;
use tap::Tap;

/// Where the keys of model providers are.
#[async_trait]
pub trait Keys: Send + Sync + fmt::Debug {
    /// `None` when none is set for this provider. An error is said to the agent: no secrets in it.
    async fn key(&self, visitor: &Visitor, provider: &str) -> Result<Option<Secret>, String>;
}

/// Who counts, and says when it is enough.
#[async_trait]
pub trait Meter: Send + Sync + fmt::Debug {
    /// Asked before each request.
    async fn may(&self, visitor: &Visitor) -> Result<(), Limited>;

    /// Told once for each request that went to an upstream, when it is over in whatever way. It
    /// must not block.
    fn used(&self, visitor: &Visitor, used: Used);
}

/// Why a session may not ask now, in words for the person who reads the agent's error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limited {
    /// It may again, soon.
    Slow {
        reason: String,
        retry_after: Option<Duration>,
    },
    /// It has used up what it may: agents that try again anyway would only wait.
    Spent { reason: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// Which of the agent's conversations it was for.
    pub asker: Asker,
    pub provider: String,
    /// As the agent asked for it; empty if it named none.
    pub model: String,
    pub usage: Usage,
    /// `None` when nobody knows the model's price, or the answer was good and said nothing of what it
    /// took. Of one that was cut it is what is known.
    pub cost_micros: Option<u64>,
    /// What the upstream answered. `None` when it did not.
    pub status: Option<u16>,
    pub took_ms: u64,
    /// The answer said itself what it used. Otherwise it was cut or did not say, and `usage` is
    /// what is known.
    pub is_complete: bool,
}

pub struct Models {
    servers: Vec<Server>,
    client: reqwest::Client,
    keys: Arc<dyn Keys>,
    meter: Arc<dyn Meter>,
    gate: Gate,
    intake: Intake,
    prices: Prices,
}

struct Server {
    upstream: Upstream,
    way: Way,
}

enum Way {
    /// To this address, which ends without a slash.
    Outside(String),
    InHere(Demo),
}

/// A request's query is passed on up to this length.
const LONGEST_QUERY: usize = 2048;

impl Models {
    pub fn new(
        config: Config,
        keys: Arc<dyn Keys>,
        meter: Arc<dyn Meter>,
    ) -> Result<Self, NetworkError> {
        let mut servers = config
            .upstreams
            .into_iter()
            .map(Server::outside)
            .collect::<Result<Vec<_>, _>>()?;
        servers.extend(config.demo.map(|pace| Server {
            upstream: Upstream::demo(),
            way: Way::InHere(Demo::new(pace)),
        }));
        let mut names = HashSet::new();
        for Server { upstream, .. } in &servers {
            if !names.insert(&upstream.id) {
                let id = upstream.id.clone();
                return Err(NetworkError::ProviderTwice { id });
            }
        }
        Ok(Self {
            client: config.network.client()?,
            servers,
            keys,
            meter,
            gate: Gate::new(config.limits),
            intake: Intake::new(config.most_body, config.most_bodies),
            prices: Prices::new(config.prices),
        })
    }

    /// Those that sandboxes can ask, the demo model last.
    pub fn upstreams(&self) -> impl Iterator<Item = &Upstream> {
        self.servers.iter().map(|server| &server.upstream)
    }

    /// All requests of a connection that came out of a sandbox.
    pub async fn serve<S>(&self, visitor: Visitor, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let Some(_slot) = self.gate.connect(&visitor) else {
            tracing::warn!(
                session = visitor.session,
                "too many connections at the model door"
            );
            return;
        };
        let visitor = &visitor;
        serve(stream, move |request| self.handle(visitor, request)).await;
    }

    /// One request, its path from `/{provider}/v1/` on.
    pub async fn handle<B>(&self, visitor: &Visitor, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Send + Unpin,
        B::Error: Into<BoxError>,
    {
        let (head, body) = request.into_parts();
        match self.pass_on(visitor, &head, body).await {
            Ok(answer) => answer,
            Err(refusal) => {
                tracing::info!(
                    session = visitor.session,
                    generation = visitor.generation,
                    path = head.uri.path(),
                    status = refusal.status.as_u16(),
                    reason = refusal.message,
                    "refused at the model door"
                );
                refusal.answer()
            }
        }
    }

    async fn pass_on<B>(&self, visitor: &Visitor, head: &Parts, body: B) -> Result<Answer, Refusal>
    where
        B: Body<Data = Bytes> + Send + Unpin,
        B::Error: Into<BoxError>,
    {
        let (server, endpoint) = self.find(head)?;
        let Upstream { id, api, .. } = &server.upstream;
        let refuse = |status, reason: String| Refusal::new(*api, status, reason);
        let slot = self.gate.enter(visitor).map_err(|full| {
            refuse(StatusCode::TOO_MANY_REQUESTS, full.reason).waiting(full.wait)
        })?;
        let may = self.meter.may(visitor).await;
        may.map_err(|limited| Refusal::limited(*api, limited))?;
        let key = self.key(visitor, &server.upstream).await?;
        let taken = self.intake.read(body).await;
        let taken = taken.map_err(|error| refuse(error.status(), error.to_string()))?;

        let model = model_in(&taken.bytes);
        let mut account = Account::open(
            Arc::clone(&self.meter),
            visitor.clone(),
            Asked {
                asker: Asker::read(&head.headers),
                provider: id.clone(),
                price: self.price(id, &model, endpoint),
                model,
            },
        );
        let reply = match &server.way {
            Way::InHere(demo) => demo.answer(endpoint, &taken.bytes),
            Way::Outside(base) => {
                let sending = Sending {
                    base,
                    api: *api,
                    endpoint,
                    query: head.uri.query(),
                    headers: &head.headers,
                    key: key.as_ref(),
                    body: taken.bytes.clone(),
                };
                sending.send(&self.client).await.map_err(|why| {
                    let reason =
                        format!("cannot get an answer from the model provider {id}: {why}");
                    refuse(StatusCode::BAD_GATEWAY, reason)
                })?
            }
        };
        drop(taken);
        account.answered(reply.status.as_u16());
        let headers = reply.headers.clone();
        let mut answer = if reply.status.is_client_error() || reply.status.is_server_error() {
            let (status, text) = outside::read_error(reply, key.as_ref()).await;
            account.refused();
            let mut answer = Response::new(content::full(text));
            *answer.status_mut() = status;
            answer
        } else {
            account.listen(Tap::new(*api, &headers));
            let status = reply.status;
            let passing = Passing {
                chunks: Some(reply.chunks),
                scrubber: Scrubber::new(key.as_ref()),
                account,
                _slot: slot,
            };
            let mut answer = Response::new(passing.boxed_unsync());
            *answer.status_mut() = status;
            answer
        };
        *answer.headers_mut() = headers;
        Ok(answer)
    }

    /// What this many tokens of a model cost, where somebody knows.
    pub fn cost(&self, provider: &str, model: &str, usage: &Usage) -> Option<u64> {
        let price = self.prices.find(provider, model)?;
        Some(price.of(usage))
    }

    fn price(&self, provider: &str, model: &str, endpoint: Endpoint) -> Known {
        if endpoint.is_free() {
            return Known::Free;
        }
        let price = self.prices.find(provider, model).cloned();
        price.map_or(Known::Nothing, Known::Price)
    }

    fn find(&self, head: &Parts) -> Result<(&Server, Endpoint), Refusal> {
        let refuse = |api, status, reason: String| Refusal::new(api, status, reason);
        let path = head.uri.path();
        let Some((provider, rest)) = endpoint::split(path) else {
            let reason = "the model door is asked as /{provider}/v1/{endpoint}".to_owned();
            return Err(refuse(Api::OpenAi, StatusCode::NOT_FOUND, reason));
        };
        let mut servers = self.servers.iter();
        let Some(server) = servers.find(|server| server.upstream.id == provider) else {
            let known: Vec<&str> = self.upstreams().map(|one| one.id.as_str()).collect();
            let reason = format!(
                "no model provider of that name is configured; there are: {}",
                known.join(", ")
            );
            return Err(refuse(Api::OpenAi, StatusCode::NOT_FOUND, reason));
        };
        let api = server.upstream.api;
        let Some(endpoint) = Endpoint::find(api, rest) else {
            let reason = "this endpoint does not go through the model door".to_owned();
            return Err(refuse(api, StatusCode::NOT_FOUND, reason));
        };
        if head.method != endpoint.method() {
            let reason = format!("this endpoint is asked with {}", endpoint.method());
            return Err(refuse(api, StatusCode::METHOD_NOT_ALLOWED, reason));
        }
        if head
            .uri
            .query()
            .is_some_and(|query| query.len() > LONGEST_QUERY)
        {
            let reason = format!("the query is longer than {LONGEST_QUERY} bytes");
            return Err(refuse(api, StatusCode::URI_TOO_LONG, reason));
        }
        Ok((server, endpoint))
    }

    async fn key(&self, visitor: &Visitor, upstream: &Upstream) -> Result<Option<Secret>, Refusal> {
        let Upstream { id, api, .. } = upstream;
        let refuse = |status, reason| Refusal::new(*api, status, reason);
        if id == crate::demo::PROVIDER {
            return Ok(None);
        }
        let key = self.keys.key(visitor, id).await.map_err(|why| {
            let reason = format!("cannot read the key for {id}: {why}");
            refuse(StatusCode::SERVICE_UNAVAILABLE, reason)
        })?;
        if key.is_none() && upstream.needs_key {
            let reason = format!(
                "no key for {id} is set; set one with `nacre secret set --model {id}`, then try again"
            );
            return Err(refuse(StatusCode::UNAUTHORIZED, reason));
        }
        Ok(key)
    }
}

impl Server {
    fn outside(upstream: Upstream) -> Result<Self, NetworkError> {
        let Upstream { id, base_url, .. } = &upstream;
        if !config::is_provider_id(id) {
            return Err(NetworkError::ProviderId { id: id.clone() });
        }
        let base = base_url.trim_end_matches('/').to_owned();
        let is_address = reqwest::Url::parse(&base).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.username().is_empty()
                && url.password().is_none()
                && url.query().is_none()
                && url.fragment().is_none()
        });
        if !is_address {
            return Err(NetworkError::BaseUrl { id: id.clone() });
        }
        Ok(Self {
            upstream,
            way: Way::Outside(base),
        })
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models")
            .field("upstreams", &self.upstreams().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// A name is a sandbox's word, and goes into records.
const LONGEST_NAME: usize = 200;

/// The model that a request asks for. Nothing else of it is looked at.
fn model_in(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Named {
        model: String,
    }
    let asked = serde_json::from_slice::<Named>(body);
    let name = asked.map(|asked| asked.model).unwrap_or_default();
    let plain = name.chars().filter(|letter| !letter.is_control());
    plain.take(LONGEST_NAME).collect()
}
