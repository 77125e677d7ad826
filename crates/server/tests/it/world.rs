use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use camino_tempfile::Utf8TempDir;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use model::{Clock as _, Id, Organisation, Secret, SnapshotId, SystemClock, User};
use nacre_server::vault::Vault;
use nacre_server::vault::tokens::{self, Kind};
use nacre_server::{Address, Front, Offer, Outside, OutsideParts, Parts, Roles};
use provider::fake::Fake;
use provider::{Provider, ProviderError};
use serde_json::{Value, json};
use sessions::{Makings, Sessions, Settings};
use store::accounts::{NewToken, Role, TokenHash, UserRecord};
use store::{Config, Store};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::v1;

/// A server that listens, and what it is made of.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) fake: Fake,
    pub(crate) address: std::net::SocketAddr,
    pub(crate) directory: Utf8TempDir,
    pub(crate) sessions: Sessions,
    pub(crate) outside: Arc<Outside>,
    pub(crate) front: Front,
    pub(crate) vault: Arc<Vault>,
    pub(crate) tasks: JoinSet<()>,
}

/// Somebody with a token.
#[derive(Debug, Clone)]
pub(crate) struct Somebody {
    pub(crate) organisation: Id<Organisation>,
    pub(crate) user: Id<User>,
    pub(crate) token: String,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&self.body)))
    }

    /// A problem that programs can tell from others.
    fn is_of_a_known_kind(&self) {
        let kind = self.headers.get(header::CONTENT_TYPE);
        if kind.is_some_and(|kind| kind == "application/problem+json") {
            let code = self.code();
            assert!(wire::v1::CODES.contains(&&*code), "{code} is not listed");
        }
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

#[derive(Debug)]
struct OnlyTheFake;

#[async_trait]
impl Offer for OnlyTheFake {
    fn default_provider(&self) -> &'static str {
        "fake"
    }

    fn base(&self, _provider: &str) -> Option<SnapshotId> {
        None
    }

    fn reached_everywhere(&self) -> Vec<String> {
        vec!["pypi.org".to_owned()]
    }

    async fn storage(&self) -> Result<Option<v1::Storage>, ProviderError> {
        Ok(Some(v1::Storage {
            layers: v1::StoragePart {
                count: 2,
                bytes: 4096,
            },
            ..v1::Storage::default()
        }))
    }

    async fn doctor(&self) -> Result<Option<Vec<v1::Finding>>, ProviderError> {
        Ok(Some(vec![v1::Finding {
            name: "kernel".to_owned(),
            status: v1::FindingStatus::Missing,
            found: "none".to_owned(),
            advice: Some("get one".to_owned()),
        }]))
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::at_port(0).await
    }

    /// Port 0 is one that is free.
    pub(crate) async fn at_port(port: u16) -> Self {
        let (models, git) = (
            doors::models::Config::default(),
            doors::git::Config::default(),
        );
        Self::set(port, models, git).await
    }

    /// Whose doors lead there.
    pub(crate) async fn with(models: doors::models::Config, git: doors::git::Config) -> Self {
        Self::set(0, models, git).await
    }

    async fn set(port: u16, models: doors::models::Config, git: doors::git::Config) -> Self {
        let directory = camino_tempfile::tempdir().unwrap();
        let location = format!("sqlite:{}", directory.path().join("nacre.db"));
        let config = Config::new(location.parse().unwrap());
        let store = Store::open(&config).await.unwrap();
        let clock = Arc::new(SystemClock);
        let vault = Arc::new(Vault::open(directory.path(), clock.now()).unwrap());
        let fake = Fake::builder().build();
        let providers: Vec<Arc<dyn Provider>> = vec![Arc::new(fake.clone())];
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let address = Address {
            scheme: "http".to_owned(),
            authority: format!("nacre.localhost:{}", at.port()),
            preview_domain: "preview.nacre.localhost".to_owned(),
            also: vec![at.to_string()],
        };
        let uploads = directory.path().join("uploads");
        let outside = Outside::new(OutsideParts {
            store: store.clone(),
            vault: Arc::clone(&vault),
            clock: clock.clone(),
            address: address.clone(),
            providers: providers.clone(),
            models,
            git,
            keys: BTreeMap::new(),
            default_model: None,
            uploads: uploads.clone(),
        });
        let outside = Arc::new(outside.unwrap());
        let sessions = Sessions::new(Makings {
            store: store.clone(),
            providers: providers.clone(),
            clock: clock.clone(),
            owner: "a test".to_owned(),
            outside: Arc::clone(&outside) as _,
            settings: Settings {
                lease: Duration::from_hours(1),
                retries: [Duration::from_millis(10)].into(),
                ..Settings::usual()
            },
        });
        let front = Front::new(Parts {
            store: store.clone(),
            sessions: sessions.clone(),
            providers,
            clock,
            address,
            offer: Arc::new(OnlyTheFake),
            outside: Arc::clone(&outside),
            vault: Arc::clone(&vault),
            uploads,
            roles: Roles::ALL,
        });
        let mut tasks = JoinSet::new();
        let serving = front.clone();
        tasks.spawn(async move { serving.serve(listener, CancellationToken::new()).await });
        Self {
            fake,
            sessions,
            outside,
            front,
            store,
            address: at,
            directory,
            vault,
            tasks,
        }
    }

    /// In an organisation of their own.
    pub(crate) async fn somebody(&self) -> Somebody {
        let organisation = Id::new(&SystemClock);
        let mut tx = self.store.begin().await.unwrap();
        tx.create_organisation(organisation, "theirs", SystemClock.now())
            .await
            .unwrap();
        tx.commit().await.unwrap();
        self.member(organisation, Role::Owner).await
    }

    pub(crate) async fn member(&self, organisation: Id<Organisation>, role: Role) -> Somebody {
        let (user, now) = (Id::new(&SystemClock), SystemClock.now());
        let token = tokens::make(Kind::Token).unwrap();
        let mut tx = self.store.begin().await.unwrap();
        tx.create_user(&UserRecord {
            id: user,
            email: format!("{user}@example"),
            name: "Ada".to_owned(),
            created_at: now,
        })
        .await
        .unwrap();
        tx.set_role(organisation, user, role, now).await.unwrap();
        tx.create_token(&new_token(organisation, Some(user), &token))
            .await
            .unwrap();
        tx.commit().await.unwrap();
        Somebody {
            organisation,
            user,
            token: token.expose().to_owned(),
        }
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        let talk = async {
            let answer = sender.send_request(request).await.unwrap();
            let (head, body) = answer.into_parts();
            let answer = Answer {
                status: head.status.as_u16(),
                headers: head.headers,
                body: body.collect().await.unwrap().to_bytes().to_vec(),
            };
            answer.is_of_a_known_kind();
            answer
        };
        let mut connection = std::pin::pin!(connection);
        let mut talk = std::pin::pin!(talk);
        tokio::select! {
            answer = &mut talk => answer,
            _ = &mut connection => talk.await,
        }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> hyper::http::request::Builder {
        Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.address.to_string())
    }

    pub(crate) async fn ask(&self, who: &Somebody, method: Method, path: &str) -> Answer {
        let request = self
            .request(method, path)
            .header(header::AUTHORIZATION, format!("Bearer {}", who.token))
            .body(Full::default());
        self.send(request.unwrap()).await
    }

    pub(crate) async fn say(
        &self,
        who: &Somebody,
        method: Method,
        path: &str,
        body: Value,
    ) -> Answer {
        let request = self
            .request(method, path)
            .header(header::AUTHORIZATION, format!("Bearer {}", who.token))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(body.to_string()));
        self.send(request.unwrap()).await
    }

    pub(crate) async fn get(&self, who: &Somebody, path: &str) -> Value {
        let answer = self.ask(who, Method::GET, path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    pub(crate) async fn post(&self, who: &Somebody, path: &str, body: Value) -> Value {
        let answer = self.say(who, Method::POST, path, body).await;
        assert!(answer.status < 300, "{path}: {answer:?}");
        answer.json()
    }

    /// A new session's id.
    pub(crate) async fn session(&self, who: &Somebody) -> String {
        let session = self.post(who, "/v1/sessions", json!({})).await;
        session["id"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn new_token(
    organisation: Id<Organisation>,
    user: Option<Id<User>>,
    token: &Secret,
) -> NewToken {
    NewToken {
        id: Id::new(&SystemClock),
        organisation,
        user,
        name: "a test".to_owned(),
        hash: TokenHash::of(token),
        expires_at: None,
        at: SystemClock.now(),
    }
}
