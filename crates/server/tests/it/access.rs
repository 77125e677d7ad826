//! Who gets in: every route is walked, with nothing, with another's token, as a viewer.

use http_body_util::Full;
use hyper::Method;
use hyper::header;
use model::{Clock as _, Id, SignedDuration, SystemClock};
use nacre_server::vault::tokens::{self, Kind};
use serde_json::{Value, json};
use store::accounts::{Role, TokenHash};
use store::logins::Login;

use crate::world::{Somebody, World, new_token};

/// Those that anybody may ask; each has a reason.
const OPEN: [&str; 7] = [
    // Pages of the browser client, and whatever is no route.
    "/",
    "/healthz",
    "/readyz",
    // The same for everybody.
    "/openapi.json",
    // They bring a code or a cookie instead of a token.
    "/v1/login",
    "/v1/login/token",
    "/v1/logout",
];

/// Every operation of the description: method, path.
fn operations() -> Vec<(Method, String)> {
    let described: Value = serde_json::from_str(&nacre_server::openapi()).unwrap();
    let mut all = Vec::new();
    for (path, operations) in described["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            if let Ok(method) = method.to_uppercase().parse() {
                all.push((method, path.clone()));
            }
        }
    }
    assert!(all.len() > 30, "{all:?}");
    all
}

/// Every path that the router itself knows, described or not.
fn routed(world: &World) -> Vec<String> {
    let shown = format!("{:?}", world.front);
    let named = shown.split("RouteId(").filter_map(|after| {
        let (number, rest) = after.split_once("): \"")?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let path = rest.split_once('"')?.0;
        (is_number && path.starts_with('/')).then(|| path.to_owned())
    });
    let mut all: Vec<String> = named.filter(|path| !path.contains("__private__")).collect();
    all.sort();
    all.dedup();
    all
}

fn filled(path: &str, id: &str) -> String {
    let filled = path
        .replace("{id}", id)
        .replace("{prompt}", "p1")
        .replace("{share}", "shr_00000000000000000000000000")
        .replace("{name}", "web")
        .replace("{action}", "start")
        .replace("{port}", "3000")
        .replace("{session}", "ses_00000000000000000000000000")
        .replace("{invocation}", "act_00000000000000000000000000")
        .replace("{evidence}", "evd_00000000000000000000000000")
        .replace("{user}", "usr_00000000000000000000000000")
        .replace("{*rest}", "x/y");
    assert!(!filled.contains('{'), "{path} is not filled: say with what");
    filled
}

/// Good for its route, so that only who asks can be wrong.
fn good_body(path: &str) -> Value {
    match path.rsplit('/').next().unwrap() {
        "recover" => json!({ "accept": true }),
        "exec" => json!({ "argv": ["true"] }),
        "prompts" | "{prompt}" => json!({ "content": "x" }),
        "open" => json!({ "target": "editor" }),
        "shares" => json!({ "port": 3000, "expires_in_ms": 1000 }),
        "env" => json!({ "values": {} }),
        "egress" => json!({ "host": "pearl.example", "allow": "once" }),
        "repos" => json!({ "url": "https://git.example/a/b" }),
        "orgs" | "tokens" => json!({ "name": "x" }),
        "members" => json!({ "email": "x@example.org", "role": "viewer" }),
        "{id}" if path.starts_with("/v1/orgs/") => json!({ "name": "x" }),
        "pulls" => json!({ "title": "x", "branch": "x" }),
        "secrets" => json!({ "name": "x", "scope": "organisation", "value": "x" }),
        _ => json!({}),
    }
}

#[tokio::test]
async fn no_route_answers_without_a_token_but_those_that_are_listed() {
    let world = World::new().await;
    let all = routed(&world);
    for (_, path) in operations() {
        assert!(all.contains(&path), "{path} is described and not there");
    }
    let (mut asked, methods) = (0, ["GET", "PUT", "POST", "PATCH", "DELETE"]);
    for path in all.iter().filter(|path| !OPEN.contains(&&***path)) {
        for method in methods {
            let request = world
                .request(method.parse().unwrap(), &filled(path, "ses_0"))
                .header(header::CONTENT_TYPE, "application/json")
                .body(Full::from("{}"));
            let status = world.send(request.unwrap()).await.status;
            // Who is asked too often has asked who it is.
            assert!(
                matches!(status, 401 | 405 | 429),
                "{method} {path}: {status}"
            );
            asked += usize::from(status != 405);
        }
    }
    assert!(asked > 50, "{asked}");
}

/// Of every kind that has an address, one of this organisation.
async fn one_of_each(world: &World, who: &Somebody) -> Vec<(&'static str, String)> {
    let id = |made: &Value| made["id"].as_str().unwrap().to_owned();
    let session = world.session(who).await;
    let path = format!("/v1/sessions/{session}");
    world.post(who, &format!("{path}/resume"), json!({})).await;
    let receipt = world
        .post(who, &format!("{path}/snapshots"), json!({}))
        .await;
    let token = world.post(who, "/v1/tokens", json!({ "name": "t" })).await;
    let repo = json!({ "url": "https://example.com/owner/name" });
    let repo = world.post(who, "/v1/repos", repo).await;
    let secret = json!({ "name": "x", "scope": "organisation", "value": "x" });
    let secret = world.say(who, Method::PUT, "/v1/secrets", secret).await;
    vec![
        ("/v1/sessions/", session),
        (
            "/v1/snapshots/",
            receipt["snapshot"].as_str().unwrap().to_owned(),
        ),
        ("/v1/tokens/", id(&token)),
        ("/v1/repos/", id(&repo)),
        ("/v1/secrets/", id(&secret.json())),
        ("/v1/orgs/", who.organisation.to_string()),
    ]
}

#[tokio::test]
async fn another_organisations_session_is_not_there_on_any_route() {
    let world = World::new().await;
    let (ada, eve) = (world.somebody().await, world.somebody().await);
    let theirs = one_of_each(&world, &ada).await;
    for (method, path) in operations() {
        if !path.contains('{') {
            continue;
        }
        let kind = theirs.iter().find(|(prefix, _)| path.starts_with(prefix));
        let (_, id) = kind.unwrap_or_else(|| panic!("of which organisation is {path}?"));
        let body = good_body(&path);
        let answer = world
            .say(&eve, method.clone(), &filled(&path, id), body)
            .await;
        assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
        assert_eq!(answer.code(), "not-found", "{method} {path}");
    }
    let listed = world.get(&eve, "/v1/sessions").await;
    assert_eq!(listed["items"], json!([]));
}

#[tokio::test]
async fn what_is_part_of_one_session_is_not_there_in_another() {
    let world = World::new().await;
    let (ada, eve) = (world.somebody().await, world.somebody().await);
    let share = json!({ "port": 3000, "expires_in_ms": 60_000 });
    let path = format!("/v1/sessions/{}/shares", world.session(&ada).await);
    let share = world.post(&ada, &path, share).await;
    let own = format!("/v1/sessions/{}/shares", world.session(&eve).await);
    let taken = format!("{own}/{}", share["id"].as_str().unwrap());
    assert_eq!(world.ask(&eve, Method::DELETE, &taken).await.status, 404);
    let listed = world.get(&ada, &path).await;
    assert_eq!(listed["items"][0]["revoked_at"], Value::Null);
}

#[tokio::test]
async fn nothing_that_is_called_json_is_nothing() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let request = world
        .request(Method::POST, "/v1/login/codes")
        .header(header::AUTHORIZATION, format!("Bearer {}", ada.token))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::default());
    let status = world.send(request.unwrap()).await.status;
    assert!(matches!(status, 200 | 201), "{status}");
}

#[tokio::test]
async fn a_viewer_looks_and_changes_nothing() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let vic = world.member(ada.organisation, Role::Viewer).await;
    let session = world.session(&ada).await;
    for (method, path) in operations() {
        if OPEN.contains(&&*path) || method == Method::GET || path == "/v1/login/codes" {
            continue;
        }
        let body = good_body(&path);
        let id = if path.starts_with("/v1/orgs/") {
            ada.organisation.to_string()
        } else {
            session.clone()
        };
        let answer = world
            .say(&vic, method.clone(), &filled(&path, &id), body)
            .await;
        assert_eq!(answer.status, 403, "{method} {path}: {answer:?}");
    }
    let seen = world.get(&vic, &format!("/v1/sessions/{session}")).await;
    assert_eq!(seen["status"], "starting");
}

#[tokio::test]
async fn tokens_that_are_revoked_expired_forged_or_of_nobody_do_not_let_in() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let made = world.post(&ada, "/v1/tokens", json!({ "name": "t" })).await;
    let with = |token: &str| {
        let mut other = ada.clone();
        token.clone_into(&mut other.token);
        other
    };
    let other = with(made["token"].as_str().unwrap());
    assert_eq!(world.get(&other, "/v1/me").await["role"], "owner");
    let path = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(world.ask(&ada, Method::DELETE, &path).await.status, 204);
    let expired = tokens::make(Kind::Token).unwrap();
    let mut tx = world.store.begin().await.unwrap();
    let mut row = new_token(ada.organisation, Some(ada.user), &expired);
    row.expires_at = Some(SystemClock.now() - SignedDuration::from_secs(1));
    tx.create_token(&row).await.unwrap();
    tx.commit().await.unwrap();
    let none_header = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1c3JfMSIsIm9yZyI6Im9yZ18xIn0.";
    for token in [
        &*other.token,
        expired.expose(),
        none_header,
        "nac_",
        "x",
        "nac_ü",
    ] {
        let answer = world.ask(&with(token), Method::GET, "/v1/me").await;
        assert_eq!(answer.status, 401, "{token}");
    }
}

#[tokio::test]
async fn requests_to_another_name_are_not_answered() {
    let world = World::new().await;
    let ada = world.somebody().await;
    for host in [
        "evil.example",
        "127.0.0.1",
        "nacre.localhost.evil.example:7070",
    ] {
        let request = hyper::Request::builder()
            .uri("/v1/me")
            .header(header::HOST, host)
            .header(header::AUTHORIZATION, format!("Bearer {}", ada.token))
            .body(Full::default());
        let answer = world.send(request.unwrap()).await;
        assert_eq!(answer.status, 421, "{host}");
    }
}

#[tokio::test]
async fn a_code_signs_one_browser_in_and_its_cookie_changes_nothing_by_itself() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let code = world.post(&ada, "/v1/login/codes", json!({})).await;
    let url = code["url"].as_str().unwrap();
    let (page, code) = url.split_once('#').unwrap();
    assert!(page.ends_with("/login"), "{page}");
    let origin = format!("http://nacre.localhost:{}", world.address.port());
    let sign_in = |origin: &str| {
        world
            .request(Method::POST, "/v1/login")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ORIGIN, origin)
            .body(Full::from(json!({ "code": code }).to_string()))
            .unwrap()
    };
    assert_eq!(
        world.send(sign_in("https://evil.example")).await.status,
        403
    );
    let signed_in = world.send(sign_in(&origin)).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    assert_eq!(world.send(sign_in(&origin)).await.status, 401);
    let cookie = signed_in.headers[header::SET_COOKIE].to_str().unwrap();
    for part in [
        "__Host-nacre=",
        "HttpOnly",
        "Secure",
        "SameSite=Strict",
        "Path=/",
    ] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap();
    let by_cookie = |method: Method, path: &str, origin: Option<&str>| {
        let mut request = world
            .request(method, path)
            .header(header::COOKIE, cookie)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        request.body(Full::from("{}")).unwrap()
    };
    let look = world.send(by_cookie(Method::GET, "/v1/me", None)).await;
    assert_eq!(look.status, 200, "{look:?}");
    let foreign = by_cookie(Method::GET, "/v1/me", Some("https://evil.example"));
    assert_eq!(world.send(foreign).await.status, 401);
    let change = by_cookie(Method::POST, "/v1/sessions", Some(&origin));
    assert_eq!(world.send(change).await.status, 401);
    let token = by_cookie(Method::POST, "/v1/login/token", Some(&origin));
    let token = world.send(token).await;
    assert_eq!(token.status, 200, "{token:?}");
    let token = token.json()["token"].as_str().unwrap().to_owned();
    let mut by_token = ada.clone();
    by_token.token = token;
    world.post(&by_token, "/v1/sessions", json!({})).await;
    let out = by_cookie(Method::POST, "/v1/logout", Some(&origin));
    assert_eq!(world.send(out).await.status, 204);
    let look = world.send(by_cookie(Method::GET, "/v1/me", None)).await;
    assert_eq!(look.status, 401);
    let lines = world.store.audit_lines(ada.organisation, None, 1).await;
    assert_eq!(lines.unwrap()[0].action, "logout");
}

#[tokio::test]
async fn a_code_that_is_too_old_signs_nobody_in() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let code = tokens::make(Kind::Code).unwrap();
    let login = Login {
        organisation: ada.organisation,
        user: ada.user,
    };
    let before = SystemClock.now() - SignedDuration::from_mins(1);
    let mut tx = world.store.begin().await.unwrap();
    tx.create_login(&TokenHash::of(&code), login, before, before)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let request = world
        .request(Method::POST, "/v1/login")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::from(json!({ "code": code.expose() }).to_string()));
    let answer = world.send(request.unwrap()).await;
    assert_eq!((answer.status, &*answer.code()), (401, "bad-code"));
}

#[tokio::test]
async fn every_change_is_written_down() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let session = world.session(&ada).await;
    let at = |what: &str| format!("/v1/sessions/{session}/{what}");
    world.post(&ada, &at("resume"), json!({})).await;
    let prompt = json!({ "id": "p", "content": "say one" });
    world.post(&ada, &at("prompts"), prompt.clone()).await;
    // The same again does nothing, and is not written down.
    world.post(&ada, &at("prompts"), prompt).await;
    let refused = world
        .say(
            &ada,
            Method::POST,
            &at("recover"),
            json!({ "accept": true }),
        )
        .await;
    assert_eq!(refused.status, 409);
    let lines = world
        .store
        .audit_lines(ada.organisation, None, 10)
        .await
        .unwrap();
    let told: Vec<(&str, &str)> = lines
        .iter()
        .map(|line| (&*line.action, &*line.actor))
        .collect();
    let ada = ada.user.to_string();
    assert_eq!(
        told,
        [
            // What is refused was asked for, and by whom is known.
            ("session.recover", &*ada),
            ("session.prompt", &*ada),
            ("session.resume", &*ada),
            ("session.create", &*ada)
        ]
    );
    let _: Id<model::Session> = session.parse().unwrap();
}

#[tokio::test]
async fn a_code_of_one_preview_opens_no_other_and_a_viewer_no_terminal() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let vic = world.member(ada.organisation, Role::Viewer).await;
    let (session, other) = (world.session(&ada).await, world.session(&ada).await);
    let code = async |who: &Somebody| {
        let path = format!("/v1/sessions/{session}/open");
        let open = world.post(who, &path, json!({ "target": "3000" })).await;
        let url = open["url"].as_str().unwrap().to_owned();
        url.split_once('?').unwrap().1.to_owned()
    };
    let at = async |target: &str, session: &str, query: &str| {
        let label = session.replace('_', "-");
        let host = format!("{target}-{label}.preview.nacre.localhost");
        let request = hyper::Request::builder()
            .uri(format!("/?{query}"))
            .header(header::HOST, host)
            .body(Full::default());
        world.send(request.unwrap()).await.status
    };
    for (target, session) in [
        ("terminal", &session),
        ("editor", &session),
        ("3001", &session),
        ("3000", &other),
    ] {
        for who in [&ada, &vic] {
            let query = code(who).await;
            assert_eq!(at(target, session, &query).await, 401, "{target} {session}");
        }
    }
    let query = code(&vic).await;
    assert_eq!(at("3000", &session, &query).await, 302);
    assert_eq!(at("3000", &session, &query).await, 401);
    let path = format!("/v1/sessions/{session}/open");
    let terminal = world
        .say(&vic, Method::POST, &path, json!({ "target": "terminal" }))
        .await;
    assert_eq!(terminal.status, 403);
}

#[tokio::test]
async fn a_services_token_makes_no_tokens() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let body = json!({ "name": "robot", "service": true });
    let made = world.post(&ada, "/v1/tokens", body).await;
    let mut robot = ada.clone();
    made["token"].as_str().unwrap().clone_into(&mut robot.token);
    world.session(&robot).await;
    let refused = world
        .say(&robot, Method::POST, "/v1/tokens", json!({ "name": "x" }))
        .await;
    assert_eq!(refused.status, 403);
}
