//! What the git door does with hosts and sandboxes that play tricks.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::header::LOCATION;
use nacre_doors::Git;

use crate::backend::TOKEN;
use crate::git::door;
use crate::upstream::{Upstream, whole};
use crate::world::{shown, visitor};

struct Came {
    status: u16,
    location: Option<String>,
    /// Headers and body.
    all: String,
}

async fn ask(git: &Git, request: Request<Full<Bytes>>) -> Came {
    let answer = git.handle(&visitor(), request).await;
    let status = answer.status().as_u16();
    let location = answer.headers().get(LOCATION);
    let location = location.map(|value| value.to_str().unwrap().to_owned());
    let headers = shown(answer.headers());
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    Came {
        status,
        location,
        all: format!("{headers}{}", String::from_utf8_lossy(&body)),
    }
}

fn refs(path: &str) -> Request<Full<Bytes>> {
    let uri = format!("{path}/info/refs?service=git-upload-pack");
    Request::get(uri).body(Full::default()).unwrap()
}

async fn start() -> (Upstream, Git, String) {
    let upstream = Upstream::start().await;
    let host = upstream.address.to_string();
    let git = door(&host, |config| {
        config.limits.per_minute = 10_000.try_into().unwrap();
    });
    (upstream, git, host)
}

#[tokio::test]
async fn paths_with_tricks_in_them_never_leave() {
    let (upstream, git, host) = start().await;
    for path in [
        format!("/git/https/{host}/team/../team/readable"),
        format!("/git/https/{host}/team/private/../readable"),
        format!("/git/https/{host}/team/readable/../private"),
        format!("/git/https/{host}/team%2freadable"),
        format!("/git/https/{host}/team/%72eadable"),
        format!("/git/https/{host}/team/readable%00"),
        format!("/git/https/{host}//team/readable"),
        format!("/git/https/{host}/team//readable"),
        format!("/git/https/{host}/team/./readable"),
        format!("/git/https/{host}/team/readable/"),
        format!("/git/https/user@{host}/team/readable"),
        format!("/git/https/user:pass@{host}/team/readable"),
        format!("/git/http/{host}/team/readable"),
        "/git/https/127.0.0.1:1/team/readable".to_owned(),
        "/git/https/localhost/team/readable".to_owned(),
        "/git/https/169.254.169.254/team/readable".to_owned(),
        "/team/readable".to_owned(),
    ] {
        let came = ask(&git, refs(&path)).await;
        assert!(matches!(came.status, 403 | 404), "{path}: {}", came.status);
        assert!(came.all.contains("text/plain"), "{path}");
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn only_smart_requests_leave() {
    let (upstream, git, host) = start().await;
    let base = format!("/git/https/{host}/team/readable");
    for (method, path) in [
        ("GET", "/info/refs"),
        ("GET", "/info/refs?service=git-upload-archive"),
        ("GET", "/HEAD"),
        ("GET", "/objects/info/packs"),
        ("PUT", "/git-upload-pack"),
        ("POST", "/git-upload-archive"),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(format!("{base}{path}"));
        let came = ask(&git, request.body(Full::default()).unwrap()).await;
        assert_eq!(came.status, 403, "{method} {path}");
    }
    let batch = Request::post(format!("{base}.git/info/lfs/objects/batch"));
    let came = ask(&git, batch.body(Full::default()).unwrap()).await;
    assert_eq!(came.status, 501);
    assert!(
        came.all.contains("application/vnd.git-lfs+json"),
        "{}",
        came.all
    );
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn redirects_lead_only_to_another_spelling_of_the_same_repository() {
    let (upstream, git, host) = start().await;
    let service = "service=git-upload-pack";
    let redirected = async |to: &str| {
        let mut answer = whole(301, "text/html", "moved");
        answer.headers_mut().insert(LOCATION, to.parse().unwrap());
        upstream.then(answer);
        ask(&git, refs(&format!("/git/https/{host}/team/readable"))).await
    };
    let came = redirected(&format!(
        "http://{host}/team/readable.git/info/refs?{service}"
    ))
    .await;
    assert_eq!(came.status, 302);
    let to = format!("../../readable.git/info/refs?{service}");
    assert_eq!(came.location.as_deref(), Some(to.as_str()));

    let asked = upstream.seen().len();
    let hostile = [
        format!("http://elsewhere.example/team/readable.git/info/refs?{service}"),
        format!("http://{host}/team/private/info/refs?{service}"),
        format!("http://{host}/team/readable/info/refs?{service}"),
        format!("http://{host}/team/readable.git/info/refs?service=git-receive-pack"),
        format!("http://{host}/team/readable.git/info/refs"),
        format!("http://user:{TOKEN}@{host}/team/readable.git/info/refs?{service}"),
        format!("https://{host}/team/readable.git/info/refs?{service}"),
        "http://127.0.0.1:1/team/readable.git/info/refs".to_owned(),
        "file:///etc/passwd".to_owned(),
        "//".to_owned(),
        "/login".to_owned(),
    ];
    for to in &hostile {
        let came = redirected(to).await;
        assert_eq!((came.status, came.location), (502, None), "{to}");
        assert!(came.all.contains("does not follow"), "{}", came.all);
        assert!(!came.all.contains(TOKEN));
    }
    assert_eq!(upstream.seen().len(), asked + hostile.len());
}

#[tokio::test]
async fn a_redirected_pack_is_not_sent_again() {
    let (upstream, git, host) = start().await;
    let mut answer = whole(307, "text/plain", "");
    let to = format!("http://{host}/team/readable.git/git-upload-pack");
    answer.headers_mut().insert(LOCATION, to.parse().unwrap());
    upstream.then(answer);
    let request = Request::post(format!("/git/https/{host}/team/readable/git-upload-pack"));
    let came = ask(&git, request.body(Full::from("0000")).unwrap()).await;
    assert_eq!((came.status, came.location), (502, None));
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn what_a_host_says_comes_in_without_the_token() {
    let (upstream, git, host) = start().await;
    let path = format!("/git/https/{host}/team/readable");
    let told = format!("you sent {TOKEN} \u{1b}[31m");
    for (status, becomes) in [(401, 403), (403, 403), (404, 404), (429, 429), (500, 500)] {
        let mut answer = whole(status, "text/plain", told.clone());
        answer
            .headers_mut()
            .insert("retry-after", "9".parse().unwrap());
        answer
            .headers_mut()
            .insert("x-echo", TOKEN.parse().unwrap());
        upstream.then(answer);
        let came = ask(&git, refs(&path)).await;
        assert_eq!(came.status, becomes);
        assert!(!came.all.contains(TOKEN), "{}", came.all);
        assert!(
            came.all.contains("says: you sent [redacted]"),
            "{}",
            came.all
        );
        assert!(came.all.contains("retry-after: 9"), "{}", came.all);
        assert!(came.all.contains("team/readable") && !came.all.contains('\u{1b}'));
    }
    let mut answer = whole(200, "application/x-git-upload-pack-advertisement", "0000");
    answer
        .headers_mut()
        .insert("x-echo", TOKEN.parse().unwrap());
    answer
        .headers_mut()
        .insert("set-cookie", "a=b".parse().unwrap());
    upstream.then(answer);
    let came = ask(&git, refs(&path)).await;
    assert_eq!(came.status, 200);
    assert!(!came.all.contains(TOKEN) && !came.all.contains("set-cookie"));
}

#[tokio::test]
async fn a_page_is_no_repository_and_nobody_is_no_host() {
    let (upstream, git, host) = start().await;
    let path = format!("/git/https/{host}/team/readable");
    upstream.then(whole(200, "text/html", "<h1>sign in</h1>"));
    let came = ask(&git, refs(&path)).await;
    assert_eq!(came.status, 502);
    assert!(
        came.all.contains("did not answer as a git server"),
        "{}",
        came.all
    );
    drop(upstream);
    let came = ask(&git, refs(&path)).await;
    assert_eq!(came.status, 502);
    assert!(came.all.contains("cannot get an answer"), "{}", came.all);
}
