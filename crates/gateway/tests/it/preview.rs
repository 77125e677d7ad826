//! What runs in a sandbox, as browsers see it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use model::session::PauseReason;
use nacre_gateway::preview::Target;
use nacre_gateway::{Leave, Settings, Terminal, Visit};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use wire::v1::Role;

use crate::shown::{COOKIE, Shown, body, echo, nothing, socket_echo, text};
use crate::world::{World, caller};

#[tokio::test(flavor = "multi_thread")]
async fn a_program_sees_localhost_and_who_asked_and_nothing_of_ours() {
    let mut shown = Shown::new().await;
    shown.program(3000, |request| echo(&request)).await;
    let request = shown
        .request(Target::Port(3000), "/a?b=1")
        .header("cookie", format!("x=1; {COOKIE}"))
        .header("x-forwarded-for", "1.2.3.4")
        .header("connection", "x-private")
        .header("x-private", "1");
    let response = shown.send(request.body(nothing()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::OK);
    let cookies: Vec<_> = response.headers().get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["theirs=1"]);
    let host = shown.host(Target::Port(3000));
    let seen = text(response).await;
    let mut lines: Vec<&str> = seen.lines().collect();
    lines.sort_unstable();
    let forwarded = format!("x-forwarded-host: {host}");
    assert_eq!(
        lines,
        [
            "GET /a?b=1",
            "cookie: x=1",
            "host: localhost:3000",
            "x-forwarded-for: 203.0.113.9",
            &forwarded,
            "x-forwarded-proto: http",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_cookie_nobody_gets_in() {
    let mut shown = Shown::new().await;
    shown.program(3000, |request| echo(&request)).await;
    for cookie in ["", "x=1", "__Host-nacre-preview=bad", "nacre-preview=good"] {
        let request = shown
            .request(Target::Port(3000), "/")
            .header("cookie", cookie);
        let response = shown.send(request.body(nothing()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{cookie}");
    }
    let planted = shown
        .request(Target::Port(3000), "/")
        .header("cookie", format!("__Host-nacre-preview=planted; {COOKIE}"));
    let response = shown.send(planted.body(nothing()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_becomes_a_cookie_once_and_leaves_the_address() {
    let mut shown = Shown::new().await;
    shown.program(3000, |request| echo(&request)).await;
    let asked = || shown.request(Target::Port(3000), "/x?a=1&nacre_code=once");
    let response = shown.send(asked().body(nothing()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::FOUND);
    assert_eq!(response.headers()["location"], "/x?a=1");
    assert_eq!(response.headers()["referrer-policy"], "no-referrer");
    let cookie = response.headers()["set-cookie"].to_str().unwrap();
    assert_eq!(
        cookie,
        "__Host-nacre-preview=good; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure"
    );
    let again = shown.send(asked().body(nothing()).unwrap()).await;
    assert_eq!(again.status(), StatusCode::UNAUTHORIZED);
    let here = asked().header("cookie", COOKIE).body(nothing()).unwrap();
    assert_eq!(shown.send(here).await.status(), StatusCode::FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_ports_are_not_shown() {
    let shown = Shown::new().await;
    for port in wire::workplace::OUR_PORTS {
        let response = shown.get(Target::Port(port), "/").await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{port}");
    }
    let routes = shown.get(Target::Exposed, "/_nacre/mcp/api/health").await;
    assert_eq!(routes.status(), StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_editor_is_reached_by_a_token_and_nothing_beside_it() {
    let mut shown = Shown::new().await;
    shown.program(9000, |request| echo(&request)).await;
    let root = shown.get(Target::Editor, "/").await;
    assert_eq!(root.headers()["location"], "/vscode/");
    let editor = text(shown.get(Target::Editor, "/vscode/x").await).await;
    assert!(editor.contains("authorization: Bearer "), "{editor}");
    for path in [
        "/opencode/session",
        "/link",
        "/vnc/",
        "/vscode/../link",
        "/vscode/%2e%2e/link",
        "/vscode",
    ] {
        let response = shown.get(Target::Editor, path).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_editors_own_page_is_of_the_origin_that_it_is_told() {
    let mut shown = Shown::new().await;
    shown.program(9000, |request| echo(&request)).await;
    let host = shown.host(Target::Editor);
    let asked = shown
        .request(Target::Editor, "/vscode/x")
        .header("cookie", COOKIE)
        .header("origin", format!("http://{host}"))
        .body(nothing())
        .unwrap();
    let seen = text(shown.send(asked).await).await;
    assert!(seen.contains(&format!("origin: http://{host}")), "{seen}");
    assert!(
        seen.contains(&format!("x-forwarded-host: {host}")),
        "{seen}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_editor_that_is_not_up_yet_is_looked_for_again() {
    let mut shown = Shown::new().await;
    let down = |_| {
        let mut answer = hyper::Response::new(body("down"));
        *answer.status_mut() = StatusCode::BAD_GATEWAY;
        answer
    };
    shown.program(9000, down).await;
    let asked = |accept: &str| {
        let request = shown.request(Target::Editor, "/vscode/");
        let request = request.header("cookie", COOKIE).header("accept", accept);
        request.body(nothing()).unwrap()
    };
    let page = shown.send(asked("text/html")).await;
    assert_eq!(page.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(text(page).await.contains("http-equiv=\"refresh\""));
    let script = shown.send(asked("*/*")).await;
    assert_eq!(script.status(), StatusCode::BAD_GATEWAY);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_change_nothing() {
    let mut shown = Shown::new().await;
    shown.program(3000, |request| echo(&request)).await;
    let post = |origin: String| {
        shown
            .request(Target::Port(3000), "/")
            .method("POST")
            .header("cookie", COOKIE)
            .header("origin", origin)
            .body(nothing())
            .unwrap()
    };
    let foreign = shown.send(post("http://evil.example".to_owned())).await;
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN);
    let sibling = format!("http://{}", shown.host(Target::Port(3001)));
    assert_eq!(
        shown.send(post(sibling)).await.status(),
        StatusCode::FORBIDDEN
    );
    let own = format!("http://{}", shown.host(Target::Port(3000)));
    let own = shown.send(post(own)).await;
    assert_eq!(own.status(), StatusCode::OK);
    assert!(text(own).await.contains("origin: http://localhost:3000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_go_through_whole_both_ways() {
    let mut shown = Shown::new().await;
    let back = |request: Request<Incoming>| {
        Response::new(
            request
                .into_body()
                .map_err(std::io::Error::other)
                .boxed_unsync(),
        )
    };
    shown.program(3000, back).await;
    let sent: Vec<u8> = (0..5_000_000u32)
        .map(|n| n.to_le_bytes()[n as usize % 3])
        .collect();
    let request = shown
        .request(Target::Port(3000), "/")
        .method("POST")
        .header("cookie", COOKIE)
        .body(Full::new(Bytes::from(sent.clone())))
        .unwrap();
    let response = shown.send(request).await;
    let got = response.into_body().collect().await.unwrap().to_bytes();
    assert!(got == sent, "{} of {}", got.len(), sent.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_streamed_comes_as_it_is_said() {
    let mut shown = Shown::new().await;
    let (say, said) = tokio::sync::mpsc::channel::<&'static str>(4);
    let said = Arc::new(Mutex::new(Some(said)));
    let program = move |_: Request<Incoming>| {
        let said = said.lock().unwrap().take().unwrap();
        let frames = futures::stream::unfold(said, |mut said| async {
            let word = said.recv().await?;
            Some((Ok(Frame::data(Bytes::from(word))), said))
        });
        Response::new(StreamBody::new(frames).boxed_unsync())
    };
    shown.program(3000, program).await;
    say.send("one").await.unwrap();
    let mut body = shown.get(Target::Port(3000), "/").await.into_body();
    for word in ["one", "two", "three"] {
        if word != "one" {
            say.send(word).await.unwrap();
        }
        let frame = tokio::time::timeout(Duration::from_secs(10), body.frame()).await;
        let frame = frame.unwrap().unwrap().unwrap();
        assert_eq!(frame.data_ref().unwrap(), word);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_are_joined_and_only_for_their_own_pages() {
    let mut shown = Shown::new().await;
    shown.program(5173, socket_echo).await;
    let host = shown.host(Target::Port(5173));
    for (origin, is_ours) in [
        (format!("http://{host}"), true),
        ("http://evil.example".to_owned(), false),
    ] {
        let mut request = format!("ws://{host}/hmr").into_client_request().unwrap();
        let headers = request.headers_mut();
        headers.insert("cookie", COOKIE.parse().unwrap());
        headers.insert("origin", origin.parse().unwrap());
        let stream = shown.connect();
        let shaken = tokio_tungstenite::client_async(request, stream).await;
        assert_eq!(shaken.is_ok(), is_ours, "{origin}");
        let Ok((mut socket, _)) = shaken else {
            continue;
        };
        socket.send(Message::text("hot")).await.unwrap();
        let heard = socket.next().await.unwrap().unwrap();
        assert_eq!(heard, Message::text("hot"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_loses_the_right_to_a_preview_loses_its_open_sockets() {
    let mut shown = Shown::new().await;
    shown.program(5173, socket_echo).await;
    let host = shown.host(Target::Port(5173));
    let mut request = format!("ws://{host}/hmr").into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("cookie", COOKIE.parse().unwrap());
    headers.insert("origin", format!("http://{host}").parse().unwrap());
    let shaken = tokio_tungstenite::client_async(request, shown.connect()).await;
    let (mut socket, _) = shaken.unwrap();
    socket.send(Message::text("hot")).await.unwrap();
    assert!(socket.next().await.unwrap().is_ok());
    shown.previews.look_again();
    socket.send(Message::text("still")).await.unwrap();
    assert!(socket.next().await.unwrap().is_ok());
    shown.change_the_keys();
    let ended = tokio::time::timeout(Duration::from_secs(10), socket.next()).await;
    assert!(!matches!(ended.unwrap(), Some(Ok(Message::Text(_)))));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_looks_wakes_nobody() {
    let shown = Shown::new().await;
    shown.handle.pause(PauseReason::Manual).await.unwrap();
    let request = Request::get("/")
        .header("host", shown.host(Target::Port(3000)))
        .header("cookie", "__Host-nacre-preview=looks");
    let response = shown.send(request.body(body("")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    let status = shown.handle.seen().borrow().status;
    assert_eq!(status, model::session::ClientStatus::Paused);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_listens_the_page_says_what_does() {
    let mut shown = Shown::new().await;
    let ports = |_: Request<Incoming>| {
        Response::new(body(r#"{"ports":[{"port":5173,"reach":"loopback"}]}"#))
    };
    shown.program(4000, ports).await;
    let response = shown.get(Target::Port(3000), "/").await;
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    let page = text(response).await;
    assert!(
        page.contains("port 3000") && page.contains("5173"),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_session_wakes_when_it_is_looked_at() {
    let shown = Shown::new().await;
    shown.handle.pause(PauseReason::Manual).await.unwrap();
    let response = shown.get(Target::Port(3000), "/").await;
    // Nothing listens there; but somebody looked.
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    let status = shown.handle.seen().borrow().status;
    assert_eq!(status, model::session::ClientStatus::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_takes_long_to_wake_is_waited_for_on_a_page() {
    let shown = Shown::with(Settings {
        wake: Duration::from_millis(50),
        ..Settings::usual()
    })
    .await;
    shown.handle.pause(PauseReason::Manual).await.unwrap();
    shown.world.fake.outage(true);
    let request = shown
        .request(Target::Port(3000), "/")
        .header("cookie", COOKIE)
        .header("accept", "text/html,*/*");
    let response = shown.send(request.body(nothing()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["retry-after"], "2");
    assert!(text(response).await.contains("http-equiv=\"refresh\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_session_says_what_to_do() {
    let shown = Shown::new().await;
    let reason = model::session::StopReason::Manual;
    shown.handle.stop(reason).await.unwrap();
    let response = shown.get(Target::Port(3000), "/").await;
    assert_eq!(response.status(), StatusCode::GONE);
    assert!(text(response).await.contains("Fork it"));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_at_once_are_turned_away() {
    let mut shown = Shown::with(Settings {
        visits: 1,
        ..Settings::usual()
    })
    .await;
    shown.program(3000, |request| echo(&request)).await;
    let first = shown.get(Target::Port(3000), "/").await;
    let second = shown.get(Target::Port(3000), "/").await;
    assert_eq!(second.status(), StatusCode::SERVICE_UNAVAILABLE);
    drop(first);
    let third = shown.get(Target::Port(3000), "/").await;
    assert_eq!(third.status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_no_previews_are_not_found() {
    let shown = Shown::new().await;
    for host in [
        "preview.nacre.localhost",
        "x.preview.nacre.localhost",
        "evil.example",
        "",
    ] {
        let request = Request::builder().uri("/").header("host", host);
        let request = request.header("cookie", COOKIE).body(nothing()).unwrap();
        assert_eq!(
            shown.send(request).await.status(),
            StatusCode::NOT_FOUND,
            "{host}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_joined_with_the_one_in_the_sandbox() {
    let mut shown = Shown::new().await;
    shown.program(4000, socket_echo).await;
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (gateway, session) = (shown.world.gateway.clone(), shown.handle.session());
    shown.world.tasks.spawn(async move {
        let service = service_fn(move |mut request: Request<Incoming>| {
            let gateway = gateway.clone();
            async move {
                let ada = visit(session, Role::Member);
                let asked = Terminal::default();
                let answered = gateway.terminal(&mut request, &ada, &asked);
                Ok::<_, Infallible>(answered.await)
            }
        });
        let _ = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(theirs), service)
            .with_upgrades()
            .await;
    });
    let (mut socket, _) = tokio_tungstenite::client_async("ws://nacre.localhost/", ours)
        .await
        .unwrap();
    socket
        .send(Message::binary(b"ls\r".to_vec()))
        .await
        .unwrap();
    let heard = socket.next().await.unwrap().unwrap();
    assert_eq!(heard.into_data(), &b"ls\r"[..]);
}

fn visit(session: model::Id<model::Session>, role: Role) -> Visit {
    Visit {
        session,
        caller: caller("ada", role),
        leave: Leave::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_has_no_keyboard() {
    let world = World::new().await;
    let session = world.running().await.session();
    let mut request = Request::new(nothing());
    let eve = visit(session, Role::Viewer);
    let answered = world
        .gateway
        .terminal(&mut request, &eve, &Terminal::default())
        .await;
    assert_eq!(answered.status(), StatusCode::FORBIDDEN);
}
