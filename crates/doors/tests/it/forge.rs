//! Pull requests, at a small server that stands in for a forge.

use model::Secret;
use nacre_doors::forge::{Forge, ForgeError, Forges, NewPull, Pull, PullState, Repository};
use nacre_doors::git::Config;
use serde_json::{Value, json};

use crate::upstream::{Upstream, json as answer, whole};

const TOKEN: &str = "ghp_very-secret-token-42";

fn forges(upstream: &Upstream) -> Forges {
    let config = Config {
        forges: vec![Forge {
            host: "git.example".to_owned(),
            api: format!("http://{}/api/v3/", upstream.address),
        }],
        ..Config::default()
    };
    Forges::new(&config).unwrap()
}

async fn open(upstream: &Upstream, new: &NewPull) -> Result<Pull, ForgeError> {
    let token = Secret::new(TOKEN);
    let repository = Repository {
        host: "git.example",
        name: "octo/pearl",
        token: &token,
    };
    forges(upstream).open_pull(repository, new).await
}

fn new() -> NewPull {
    NewPull {
        branch: "feature/shine".to_owned(),
        base: None,
        title: "Shine".to_owned(),
        body: "It shines.".to_owned(),
    }
}

fn pull(state: &str) -> Value {
    json!({ "number": 7, "title": "Shine", "html_url": "https://git.example/octo/pearl/pull/7",
        "state": state, "merged_at": null,
        "head": { "ref": "feature/shine" }, "base": { "ref": "trunk" } })
}

fn repository() -> Value {
    json!({ "default_branch": "trunk" })
}

#[tokio::test]
async fn a_pull_request_is_opened_against_the_default_branch() {
    let upstream = Upstream::start().await;
    upstream.then(answer(200, &repository()));
    upstream.then(answer(200, &json!({ "ref": "refs/heads/feature/shine" })));
    upstream.then(answer(200, &json!([])));
    upstream.then(answer(201, &pull("open")));
    let opened = open(&upstream, &new()).await.unwrap();
    assert_eq!((opened.number, opened.state), (7, PullState::Open));
    assert_eq!(opened.url, "https://git.example/octo/pearl/pull/7");
    assert_eq!(opened.base, "trunk");
    let seen = upstream.seen();
    let asked: Vec<(&str, &str)> = seen
        .iter()
        .map(|one| (one.method.as_str(), one.uri.as_str()))
        .collect();
    assert_eq!(
        asked,
        [
            ("GET", "/api/v3/repos/octo/pearl"),
            (
                "GET",
                "/api/v3/repos/octo/pearl/git/ref/heads/feature/shine"
            ),
            (
                "GET",
                "/api/v3/repos/octo/pearl/pulls?state=open&per_page=1&head=octo%3Afeature%2Fshine&base=trunk"
            ),
            ("POST", "/api/v3/repos/octo/pearl/pulls"),
        ]
    );
    for one in &seen {
        assert_eq!(one.headers["authorization"], format!("Bearer {TOKEN}"));
    }
    let sent: Value = serde_json::from_slice(&seen[3].body).unwrap();
    assert_eq!(
        sent,
        json!({ "title": "Shine", "body": "It shines.",
        "head": "feature/shine", "base": "trunk" })
    );
}

#[tokio::test]
async fn one_that_is_open_is_answered_and_no_second_is_made() {
    let upstream = Upstream::start().await;
    upstream.then(answer(200, &json!({})));
    upstream.then(answer(200, &json!([pull("open")])));
    let mut wanted = new();
    wanted.base = Some("trunk".to_owned());
    let opened = open(&upstream, &wanted).await.unwrap();
    assert_eq!(opened.number, 7);
    assert!(upstream.seen().iter().all(|one| one.method == "GET"));
}

#[tokio::test]
async fn who_comes_second_gets_what_the_first_made() {
    let upstream = Upstream::start().await;
    upstream.then(answer(200, &repository()));
    upstream.then(answer(200, &json!({})));
    upstream.then(answer(200, &json!([])));
    let message = "A pull request already exists for octo:feature/shine.";
    let refused = json!({ "message": "Validation Failed", "errors": [{ "message": message }] });
    upstream.then(answer(422, &refused));
    upstream.then(answer(200, &json!([pull("open")])));
    assert_eq!(open(&upstream, &new()).await.unwrap().number, 7);
}

#[tokio::test]
async fn what_the_forge_refuses_is_said_with_its_words() {
    let upstream = Upstream::start().await;
    upstream.then(answer(200, &repository()));
    upstream.then(answer(200, &json!({})));
    upstream.then(answer(200, &json!([])));
    let message = "No commits between trunk and feature/shine";
    let refused = json!({ "message": "Validation Failed", "errors": [{ "message": message }] });
    upstream.then(answer(422, &refused));
    upstream.then(answer(200, &json!([])));
    let error = open(&upstream, &new()).await.unwrap_err();
    assert!(matches!(error, ForgeError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains(message), "{error}");
}

#[tokio::test]
async fn a_branch_that_is_not_there_is_told_from_a_repository_that_is_not() {
    let upstream = Upstream::start().await;
    upstream.then(answer(200, &repository()));
    upstream.then(answer(404, &json!({ "message": "Not Found" })));
    upstream.then(answer(200, &repository()));
    let error = open(&upstream, &new()).await.unwrap_err();
    assert!(matches!(error, ForgeError::NoBranch { .. }), "{error:?}");
    assert!(error.to_string().contains("push it first"), "{error}");
    upstream.then(answer(404, &json!({ "message": "Not Found" })));
    let error = open(&upstream, &new()).await.unwrap_err();
    assert!(
        matches!(error, ForgeError::NoRepository { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_token_that_is_repeated_does_not_come_back() {
    let upstream = Upstream::start().await;
    for status in [401, 403, 422, 500] {
        upstream.then(answer(
            status,
            &json!({ "message": format!("bad {TOKEN}") }),
        ));
        let error = open(&upstream, &new()).await.unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(!said.contains(TOKEN), "{said}");
        let is_right = match status {
            401 => matches!(error, ForgeError::TokenRefused { .. }),
            403 => matches!(error, ForgeError::Forbidden { .. }),
            422 => matches!(error, ForgeError::Refused { .. }),
            _ => matches!(error, ForgeError::Unavailable { .. }),
        };
        assert!(is_right, "{status}: {error:?}");
    }
}

#[tokio::test]
async fn a_forge_that_wants_us_to_wait_says_how_long() {
    let upstream = Upstream::start().await;
    let mut slow = answer(403, &json!({ "message": "secondary rate limit" }));
    slow.headers_mut()
        .insert("retry-after", "30".parse().unwrap());
    upstream.then(slow);
    let error = open(&upstream, &new()).await.unwrap_err();
    assert!(error.to_string().contains("in 30 s"), "{error}");
}

#[tokio::test]
async fn nonsense_and_redirects_are_no_pull_requests() {
    let upstream = Upstream::start().await;
    upstream.then(whole(200, "text/html", "<html>"));
    let error = open(&upstream, &new()).await.unwrap_err();
    assert!(matches!(error, ForgeError::Unavailable { .. }), "{error:?}");
    let mut moved = whole(301, "text/plain", "");
    let elsewhere = "https://elsewhere.example/".parse().unwrap();
    moved.headers_mut().insert("location", elsewhere);
    upstream.then(moved);
    let error = open(&upstream, &new()).await.unwrap_err();
    assert!(error.to_string().contains("new address"), "{error}");
    let mut hostile = pull("open");
    hostile["html_url"] = json!("javascript:alert(1)");
    upstream.then(answer(200, &repository()));
    upstream.then(answer(200, &json!({})));
    upstream.then(answer(200, &json!([hostile])));
    let error = open(&upstream, &new()).await.unwrap_err();
    assert!(matches!(error, ForgeError::Unavailable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_pull_request_that_was_merged_is_not_only_closed() {
    let upstream = Upstream::start().await;
    let token = Secret::new(TOKEN);
    let repository = Repository {
        host: "git.example",
        name: "octo/pearl",
        token: &token,
    };
    let mut merged = pull("closed");
    merged["merged_at"] = json!("2026-01-02T03:04:05Z");
    for (said, state) in [
        (merged, PullState::Merged),
        (pull("closed"), PullState::Closed),
    ] {
        upstream.then(answer(200, &said));
        let found = forges(&upstream).pull(repository, 7).await.unwrap();
        assert_eq!(found.state, state);
    }
}

#[tokio::test]
async fn only_forges_that_are_known_are_asked() {
    let upstream = Upstream::start().await;
    let token = Secret::new(TOKEN);
    let known = forges(&upstream);
    assert!(known.knows("github.com") && known.knows("git.example"));
    let elsewhere = Repository {
        host: "evil.example",
        name: "octo/pearl",
        token: &token,
    };
    let error = known.open_pull(elsewhere, &new()).await.unwrap_err();
    assert!(matches!(error, ForgeError::NotAForge { .. }), "{error:?}");
    let outside = Repository {
        host: "git.example",
        name: "octo/../../user",
        token: &token,
    };
    let error = known.open_pull(outside, &new()).await.unwrap_err();
    assert_eq!(error, ForgeError::NotARepository);
    assert!(upstream.seen().is_empty());
}
