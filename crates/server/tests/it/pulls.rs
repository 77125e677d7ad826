//! Pull requests: by HTTP, by the socket's frame and by the agent's tool, at a forge that stands in.

use std::sync::{Arc, Mutex};

use doors::forge::Forge;
use doors::git::Config;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::runner::Runner;
use crate::stand_in::{Asked, StandIn};
use crate::world::{Somebody, World};

const TOKEN: &str = "ghp_token-of-the-organisation";

/// Pull requests of `octo/pearl`, whose branches are `main` and `shine`.
#[derive(Debug, Default)]
struct State {
    opened: Vec<Value>,
    is_down: bool,
}

fn answer(state: &Mutex<State>, asked: &Asked) -> (u16, Value) {
    let mut state = state.lock().unwrap();
    if state.is_down {
        return (503, json!({ "message": "we are down" }));
    }
    if asked.token() != format!("Bearer {TOKEN}") {
        return (401, json!({ "message": "Bad credentials" }));
    }
    let (what, _) = asked.what.split_once('?').unwrap_or((&asked.what, ""));
    match what {
        "GET /repos/octo/pearl" => (200, json!({ "default_branch": "main" })),
        "GET /repos/octo/pearl/git/ref/heads/shine" => (200, json!({})),
        "GET /repos/octo/pearl/pulls" => {
            let open = state.opened.iter().filter(|pull| pull["state"] == "open");
            (200, open.cloned().collect())
        }
        "GET /repos/octo/pearl/pulls/1" => (200, state.opened[0].clone()),
        "POST /repos/octo/pearl/pulls" => {
            let wanted: Value = serde_json::from_slice(&asked.body).unwrap();
            let number = state.opened.len() + 1;
            let pull = json!({ "number": number, "title": wanted["title"], "state": "open",
                "html_url": format!("https://git.example/octo/pearl/pull/{number}"),
                "head": { "ref": wanted["head"] }, "base": { "ref": wanted["base"] } });
            state.opened.push(pull.clone());
            (201, pull)
        }
        _ => (404, json!({ "message": "Not Found" })),
    }
}

struct Stage {
    world: World,
    ada: Somebody,
    forge: StandIn,
    state: Arc<Mutex<State>>,
    session: Value,
    path: String,
    tasks: JoinSet<()>,
}

impl Stage {
    async fn set() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let of_forge = Arc::clone(&state);
        let forge = StandIn::start(move |asked| {
            let (status, body) = answer(&of_forge, asked);
            (status, "application/json", body.to_string())
        })
        .await;
        let git = Config {
            forges: vec![Forge {
                host: "git.example".to_owned(),
                api: format!("http://{}", forge.address),
            }],
            ..Config::default()
        };
        let world = World::with(doors::models::Config::default(), git).await;
        let ada = world.somebody().await;
        let repos = json!({ "repos": [{ "url": "https://git.example/octo/pearl.git" }] });
        let made = world.post(&ada, "/v1/sessions", repos).await;
        let path = format!("/v1/sessions/{}", made["id"].as_str().unwrap());
        let session = world.post(&ada, &format!("{path}/resume"), json!({})).await;
        Self {
            world,
            ada,
            forge,
            state,
            session,
            path,
            tasks: JoinSet::new(),
        }
    }

    async fn with_token(self) -> Self {
        let secret = json!({ "name": "token", "scope": { "git": "git.example" }, "value": TOKEN });
        let set = self
            .world
            .say(&self.ada, Method::PUT, "/v1/secrets", secret);
        assert_eq!(set.await.status, 200);
        self
    }

    async fn open(&self, body: Value) -> (u16, Value) {
        let path = format!("{}/pulls", self.path);
        let answer = self.world.say(&self.ada, Method::POST, &path, body).await;
        (answer.status, answer.json())
    }

    async fn list(&self) -> Vec<Value> {
        let path = format!("{}/pulls", self.path);
        let listed = self.world.get(&self.ada, &path).await;
        listed["items"].as_array().unwrap().clone()
    }

    /// Dev tools in the sandbox, on a branch, whose pushes come to this.
    async fn tools(&mut self, branch: &'static str, push: Value) -> Arc<Mutex<Vec<String>>> {
        let sandbox = self.session["sandbox_id"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let mut listener = self.world.fake.listen(sandbox, 4000).await.unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let of_tools = Arc::clone(&asked);
        self.tasks.spawn(async move {
            while let Some(stream) = listener.accept().await {
                let (asked, push) = (Arc::clone(&of_tools), push.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let (asked, push) = (Arc::clone(&asked), push.clone());
                    async move {
                        let what = format!("{} {}", request.method(), request.uri());
                        let body = request.into_body().collect().await?.to_bytes();
                        let body = String::from_utf8_lossy(&body).into_owned();
                        let answer = match &*what {
                            "POST /api/git/push" => push,
                            _ => json!({ "branch": branch }),
                        };
                        asked.lock().unwrap().push(format!("{what} {body}"));
                        let answer = Full::<Bytes>::from(answer.to_string());
                        Ok::<_, hyper::Error>(Response::new(answer))
                    }
                });
                let _ended = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            }
        });
        asked
    }

    async fn told(&self) -> Vec<Value> {
        let id = self.session["id"].as_str().unwrap().parse().unwrap();
        let replay = self.world.store.events_after(id, 0, 1000).await.unwrap();
        let store::Replay::Events { events, .. } = replay else {
            panic!("the log is not whole");
        };
        let bodies = events
            .iter()
            .map(|event| serde_json::from_str(&event.body).unwrap());
        bodies
            .filter(|body: &Value| body["type"] == "pull_request")
            .collect()
    }
}

#[tokio::test]
async fn a_pull_request_is_opened_once_listed_and_told() {
    let stage = Stage::set().await.with_token().await;
    let wanted = json!({ "branch": "shine", "title": "Shine", "body": "It shines." });
    let (status, opened) = stage.open(wanted.clone()).await;
    assert_eq!(status, 201, "{opened}");
    assert_eq!(opened["number"], 1);
    assert_eq!(opened["repo"], "git.example/octo/pearl");
    assert_eq!(
        (&opened["branch"], &opened["base"]),
        (&json!("shine"), &json!("main"))
    );
    let (status, again) = stage.open(wanted).await;
    assert_eq!((status, &again["number"]), (201, &json!(1)), "{again}");
    assert_eq!(stage.state.lock().unwrap().opened.len(), 1);
    let listed = stage.list().await;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["url"], opened["url"]);
    let told = stage.told().await;
    assert_eq!(told.len(), 1, "what is no news is not told again: {told:?}");
    assert_eq!(told[0]["status"], "open");
    let all = format!("{opened} {again} {listed:?} {told:?}");
    assert!(!all.contains(TOKEN));
}

#[tokio::test]
async fn what_is_checked_out_is_pushed_first() {
    let mut stage = Stage::set().await.with_token().await;
    let pushed = json!({ "action": "push", "success": true, "code": "SUCCESS", "message": "" });
    let asked = stage.tools("shine", pushed).await;
    let (status, opened) = stage.open(json!({ "title": "Shine" })).await;
    assert_eq!(status, 201, "{opened}");
    assert_eq!(opened["branch"], "shine");
    assert_eq!(
        *asked.lock().unwrap(),
        [
            "GET /api/git/status?repo=pearl ",
            "POST /api/git/push {\"repo\":\"pearl\"}"
        ]
    );
}

#[tokio::test]
async fn the_branch_that_would_be_merged_into_is_not_pushed() {
    let mut stage = Stage::set().await.with_token().await;
    let pushed = json!({ "success": true, "code": "SUCCESS", "message": "" });
    let asked = stage.tools("main", pushed).await;
    let (status, refused) = stage.open(json!({ "title": "Shine" })).await;
    assert_eq!(status, 409, "{refused}");
    assert!(
        refused["detail"]
            .as_str()
            .unwrap()
            .contains("make a branch first")
    );
    assert!(!asked.lock().unwrap().iter().any(|one| one.contains("push")));
}

#[tokio::test]
async fn a_push_that_fails_is_said_with_its_words_and_no_code_of_the_sandboxs_own() {
    let mut stage = Stage::set().await.with_token().await;
    let failed = json!({ "success": false, "code": "PWNED", "message": "rejected" });
    stage.tools("shine", failed).await;
    let (status, refused) = stage.open(json!({ "title": "Shine" })).await;
    assert_eq!((status, &refused["code"]), (409, &json!("pull-refused")));
    assert_eq!(refused["detail"], "rejected");
    assert!(stage.state.lock().unwrap().opened.is_empty());
}

#[tokio::test]
async fn why_there_is_none_is_told() {
    let stage = Stage::set().await;
    let wanted = json!({ "branch": "shine", "title": "Shine" });
    let (status, refused) = stage.open(wanted.clone()).await;
    assert_eq!((status, &refused["code"]), (409, &json!("token-refused")));
    let detail = refused["detail"].as_str().unwrap();
    assert!(
        detail.contains("nacre secret set --git git.example"),
        "{detail}"
    );
    assert!(stage.forge.asked().is_empty());
    let stage = stage.with_token().await;
    for (body, status, code) in [
        (json!({ "branch": "gone", "title": "t" }), 409, "no-remote"),
        (
            json!({ "branch": "a..b", "title": "t" }),
            409,
            "pull-refused",
        ),
        (
            json!({ "branch": "shine", "title": " " }),
            409,
            "pull-refused",
        ),
        (
            json!({ "branch": "shine", "title": "t", "repo": "other" }),
            409,
            "not-a-repo",
        ),
    ] {
        let (said, refused) = stage.open(body.clone()).await;
        assert_eq!((said, &refused["code"]), (status, &json!(code)), "{body}");
    }
    stage.state.lock().unwrap().is_down = true;
    let (status, refused) = stage.open(wanted).await;
    assert_eq!(
        (status, &refused["code"]),
        (502, &json!("forge-unavailable"))
    );
}

/// A request of the runner, with its result.
async fn tool(runner: &mut Runner, id: &str, payload: Value) -> Value {
    runner
        .say(json!({ "type": "request", "id": id, "kind": "create_pr", "payload": payload }))
        .await;
    runner.hear("result").await
}

#[tokio::test]
async fn the_agents_tool_opens_one_without_any_token() {
    let stage = Stage::set().await.with_token().await;
    let mut runner = Runner::of(&stage.world, &stage.session).await;
    let wanted = json!({ "branch": "shine", "title": "Shine" });
    let opened = tool(&mut runner, "r1", wanted).await;
    assert_eq!(opened["ok"]["number"], 1, "{opened}");
    assert_eq!(opened["ok"]["state"], "open");
    let gone = json!({ "branch": "gone", "title": "Shine" });
    let refused = tool(&mut runner, "r2", gone).await;
    assert_eq!(refused["error"]["code"], "no_remote", "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("push it first"), "{message}");
    assert_eq!(stage.told().await.len(), 1);
}
