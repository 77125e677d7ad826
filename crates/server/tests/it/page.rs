//! The browser client, as it is served; or the page in its place, in a build without it.

use http_body_util::Full;
use hyper::Method;
use hyper::header;

use crate::world::World;

#[tokio::test]
async fn a_browser_gets_a_page_that_may_do_little() {
    let world = World::new().await;
    for place in ["/", "/login", "/sessions/ses_1"] {
        let request = world
            .request(Method::GET, place)
            .header(header::ACCEPT, "text/html")
            .body(Full::default());
        let answer = world.send(request.unwrap()).await;
        assert_eq!(answer.status, 200, "{place}");
        let text = |name: &str| answer.headers[name].to_str().unwrap().to_owned();
        assert_eq!(text("content-type"), "text/html; charset=utf-8");
        assert_eq!(text("x-content-type-options"), "nosniff");
        assert_eq!(text("x-frame-options"), "DENY");
        assert_eq!(text("cache-control"), "no-cache");
        let policy = text("content-security-policy");
        assert!(policy.starts_with("default-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}

#[tokio::test]
async fn a_page_that_a_browser_has_is_not_sent_again() {
    let world = World::new().await;
    let first = world.request(Method::GET, "/").body(Full::default());
    let first = world.send(first.unwrap()).await;
    let again = world
        .request(Method::GET, "/")
        .header(header::IF_NONE_MATCH, &first.headers["etag"])
        .body(Full::default());
    let again = world.send(again.unwrap()).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
}

#[tokio::test]
async fn what_is_for_programs_is_not_shadowed() {
    let world = World::new().await;
    for path in ["/v1/nothing", "/assets/none-1.js", "/readyz/x"] {
        let request = world
            .request(Method::GET, path)
            .header(header::ACCEPT, "text/html")
            .body(Full::default());
        let answer = world.send(request.unwrap()).await;
        assert_eq!(
            (answer.status, answer.code()),
            (404, "not-found".to_owned()),
            "{path}"
        );
    }
    let request = world
        .request(Method::GET, "/openapi.json")
        .header(header::ACCEPT, "text/html")
        .body(Full::default());
    let answer = world.send(request.unwrap()).await;
    assert_eq!(
        answer.json()["openapi"].as_str().map(|v| &v[..2]),
        Some("3.")
    );
}
