//! What sessions' sandboxes find outside: models and git with keys that stay here, what their
//! workplaces become, answers to their tools.

mod answers;
pub(crate) mod evidence;
mod families;
mod give;
mod grants;
mod keys;
mod meter;
mod pace;
mod pulls;
mod setup;
mod tokens;
mod wanted;

use std::collections::BTreeMap;
use std::sync::Arc;

use ::metrics::counter;
use async_trait::async_trait;
use camino::Utf8PathBuf;
use doors::forge::{Apps, Forges};
use doors::models::Upstream;
use doors::{Git, Models, NetworkError};
use model::session::Place;
use model::{Clock, Id, Organisation, Secret};
use provider::{Provider, Stream};
use serde_json::Value;
use sessions::{Handle, Visitor};
use store::Store;
use wire::link::{Asked, Boot, Failed, GitRepo, GitVerb, Model, ModelProvider, Usage};
use wire::v1::ModelInfo;

use self::evidence::Showing;
use self::grants::Granted;
pub(crate) use self::grants::spelled;
use self::keys::Keyring;
use self::meter::Book;
use self::pace::Pace;
use self::tokens::Tokens;
pub(crate) use self::wanted::{NoPull, Wanted as WantedPull};
use crate::Address;
use crate::vault::Vault;

/// What the outside is made of.
#[derive(Debug)]
pub struct OutsideParts {
    pub store: Store,
    pub vault: Arc<Vault>,
    pub clock: Arc<dyn Clock>,
    pub address: Address,
    /// The same that the sessions have.
    pub providers: Vec<Arc<dyn Provider>>,
    pub models: doors::models::Config,
    pub git: doors::git::Config,
    /// Keys of model providers for organisations that have none of their own, by provider.
    pub keys: BTreeMap<String, Secret>,
    /// The model of sessions that name none.
    pub default_model: Option<String>,
    pub uploads: Utf8PathBuf,
}

#[derive(Debug)]
pub struct Outside {
    store: Store,
    vault: Arc<Vault>,
    clock: Arc<dyn Clock>,
    providers: Vec<Arc<dyn Provider>>,
    origin: String,
    models: Models,
    meter: Arc<Book>,
    git: Git,
    forges: Arc<Forges>,
    tokens: Arc<Tokens>,
    keys: Arc<Keyring>,
    default_model: Option<String>,
    uploads: Utf8PathBuf,
    /// Of snapshots that tools ask for.
    pace: Pace,
    showing: Showing,
}

const DOORS: [&str; 2] = ["model", "git"];

impl Outside {
    pub fn new(parts: OutsideParts) -> Result<Self, NetworkError> {
        let keys = Arc::new(Keyring {
            store: parts.store.clone(),
            vault: Arc::clone(&parts.vault),
            usual: parts.keys,
        });
        let budget = parts.models.budget;
        let meter = Book::new(parts.store.clone(), Arc::clone(&parts.clock), budget);
        let meter = Arc::new(meter);
        let forges = Arc::new(Forges::new(&parts.git)?);
        let tokens = Arc::new(Tokens {
            store: parts.store.clone(),
            vault: Arc::clone(&parts.vault),
            forges: Arc::clone(&forges),
            apps: Apps::new(Arc::clone(&parts.clock)),
        });
        let grants = Arc::new(Granted {
            store: parts.store.clone(),
            tokens: Arc::clone(&tokens),
        });
        Ok(Self {
            vault: parts.vault,
            providers: parts.providers,
            models: Models::new(
                parts.models,
                Arc::clone(&keys) as _,
                Arc::clone(&meter) as _,
            )?,
            meter,
            forges,
            git: Git::new(parts.git, grants)?,
            tokens,
            keys,
            store: parts.store,
            clock: parts.clock,
            origin: parts.address.origin(),
            default_model: parts.default_model,
            uploads: parts.uploads,
            pace: Pace::default(),
            showing: Showing::default(),
        })
    }

    /// Until what models took so far is written down.
    pub(crate) async fn flush(&self) {
        self.meter.flush().await;
    }

    pub(crate) fn models(&self) -> &Models {
        &self.models
    }

    pub(crate) fn git(&self) -> &Git {
        &self.git
    }

    /// All that there are, and which can be used.
    pub(crate) async fn models_for(&self, organisation: Id<Organisation>) -> Vec<ModelInfo> {
        let mut models = Vec::new();
        for upstream in self.models.upstreams() {
            let available = !upstream.needs_key || self.keys.has(organisation, &upstream.id).await;
            models.extend(upstream.models.iter().map(|model| ModelInfo {
                id: format!("{}/{}", upstream.id, model.id),
                name: model.name.clone().unwrap_or_else(|| model.id.clone()),
                available,
                is_default: false,
            }));
        }
        let default = self.default_among(&models);
        for model in &mut models {
            model.is_default = Some(&model.id) == default.as_ref();
        }
        models
    }

    /// The configured one where it can be used, else the best that can: a real model before the
    /// scripted one.
    fn default_among(&self, models: &[ModelInfo]) -> Option<String> {
        let usable = |id: &String| {
            models
                .iter()
                .any(|model| model.available && model.id == *id)
        };
        let chosen = self.default_model.clone().filter(usable);
        let of_upstream = |upstream: &Upstream| {
            let model = upstream.default.as_ref()?;
            Some(format!("{}/{model}", upstream.id)).filter(usable)
        };
        let is_demo = |upstream: &&Upstream| upstream.id == doors::demo::PROVIDER;
        let real = self.models.upstreams().filter(|one| !is_demo(one));
        let demo = self.models.upstreams().filter(is_demo);
        chosen.or_else(|| real.chain(demo).find_map(of_upstream))
    }
}

#[async_trait]
impl sessions::Outside for Outside {
    fn doors(&self) -> &'static [&'static str] {
        &DOORS
    }

    async fn visit(&self, door: &'static str, visitor: Visitor, stream: Box<dyn Stream>) {
        let visitor = doors::Visitor {
            organisation: visitor.organisation.to_string(),
            session: visitor.session.to_string(),
            generation: visitor.generation,
        };
        counter!("nacre_door_visits_total", "door" => door).increment(1);
        match door {
            "model" => self.models.serve(visitor, stream).await,
            "git" => self.git.serve(visitor, stream).await,
            _ => {}
        }
    }

    fn dress(&self, _visitor: &Visitor, mut boot: Boot) -> Boot {
        boot.agent.providers = self.models.upstreams().map(told).collect();
        boot.origins = vec![self.origin.clone()];
        let repos = boot.repos.iter().filter(|repo| !repo.url.is_empty());
        boot.git_access = repos
            .map(|repo| GitRepo {
                url: repo.url.clone(),
                verbs: vec![GitVerb::Fetch, GitVerb::Push],
            })
            .collect();
        boot
    }

    async fn is_up(&self, session: Handle, place: Place) -> Result<(), String> {
        give::all(self, &session, place).await
    }

    fn cost(&self, model: &str, usage: &Usage) -> Option<u64> {
        let (provider, model) = model.split_once('/')?;
        self.models.cost(provider, model, usage)
    }

    async fn answer(&self, session: Handle, asked: Asked) -> Result<Value, Failed> {
        answers::answer(self, session, asked).await
    }
}

/// As workplaces hear of it.
fn told(upstream: &Upstream) -> ModelProvider {
    let models = upstream.models.iter().map(|model| Model {
        id: model.id.clone(),
        name: model.name.clone(),
        context_limit: model.context_limit,
        output_limit: model.output_limit,
    });
    ModelProvider {
        id: upstream.id.clone(),
        name: upstream.name.clone(),
        models: models.collect(),
    }
}
