//! What reaches a backend, and what comes back.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{Method, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use workplace::gateway::Limits;
use workplace::tunnels::Protocol;

use super::ask::HOST;
use super::world::{AGENT_PASSWORD, Setup, World, with_either, with_either_of, with_gateway};

#[test]
fn the_first_prefix_is_taken_off_and_the_query_stays() {
    with_either(async |world| {
        for (asked, got) in [
            ("/vscode/", "/"),
            ("/vscode/a/b?x=1&x=%202&&y", "/a/b?x=1&x=%202&&y"),
            ("/vscode/vscode/x", "/vscode/x"),
            ("/vscode/a%2Fb", "/a%2Fb"),
            ("/vscode//x", "//x"),
            ("/vscode/?", "/?"),
        ] {
            let reply = world.get_as_ada(asked).send().await;
            assert_eq!(reply.json()["target"], got, "{asked}");
        }
    });
}

#[test]
fn a_bare_prefix_is_sent_to_itself_with_a_slash() {
    with_either(async |world| {
        let reply = world.get_as_ada("/vscode?folder=/x").send().await;
        assert_eq!(reply.status, StatusCode::TEMPORARY_REDIRECT);
        assert_eq!(reply.header("location"), "/vscode/?folder=/x");
    });
}

#[test]
fn the_desktops_root_leads_to_a_viewer_that_knows_its_socket() {
    with_either(async |world| {
        let reply = world.get_as_ada("/vnc/").send().await;
        let address = reply.header("location");
        assert!(
            address.starts_with("/vnc/vnc.html?path=vnc/websockify&"),
            "{address}"
        );
        let viewer = world.get_as_ada(address).send().await.json();
        assert!(
            viewer["target"]
                .as_str()
                .unwrap()
                .starts_with("/vnc.html?path=")
        );
    });
}

#[test]
fn what_no_route_knows_is_not_found() {
    with_either(async |world| {
        for path in [
            "/",
            "/vscodex",
            "/vscodex/",
            "/api/tunnels",
            "/t/",
            "/t",
            "/t/none/x",
        ] {
            let status = world.get_as_ada(path).status().await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        }
    });
}

#[test]
fn nothing_of_ours_reaches_a_backend_and_what_is_its_own_does() {
    with_gateway(async |world| {
        let token = world.token();
        let cookie = world.cookie().await;

        let by_bearer = world
            .get("/vscode/")
            .bearer(&token)
            .header("cookie", "own=1")
            .send()
            .await;
        assert!(!by_bearer.text().contains(&token));
        assert_eq!(by_bearer.got("cookie"), ["own=1"]);

        let ask = world
            .get("/vscode/")
            .header("cookie", "a=1")
            .cookie(&cookie);
        let ask = ask
            .header("cookie", "b=2")
            .header("authorization", "Bearer its-own");
        let by_cookie = ask.send().await;
        assert!(!by_cookie.text().contains(&cookie));
        assert_eq!(by_cookie.got("cookie"), ["a=1; b=2"]);
        assert_eq!(by_cookie.got("authorization"), ["Bearer its-own"]);

        // Ours beside the cookie, also once it has expired.
        for token in [token, expired(&world)] {
            let both = world
                .get("/vscode/")
                .cookie(&cookie)
                .bearer(&token)
                .send()
                .await;
            assert_eq!(both.status, StatusCode::OK);
            assert_eq!(both.got("authorization"), Vec::<String>::new());
            assert!(!both.text().contains(&token));
        }

        let code = world.code("/");
        let ask = world.ask(Method::POST, &format!("/vscode/x?nacre_code={code}&own=1"));
        let with_code = ask.cookie(&cookie).send().await;
        assert_eq!(with_code.json()["target"], "/x?own=1");
        assert!(!with_code.text().contains(&code));
    });
}

fn expired(world: &World) -> String {
    let claims = wire::keys::token::Claims {
        exp: 1,
        ..world.claims()
    };
    claims.sign(&super::world::token_key())
}

#[test]
fn a_backend_cannot_set_our_cookie_but_its_own() {
    with_gateway(async |world| {
        let cookie = world.cookie().await;
        let reply = world.get("/vscode/cookies").cookie(&cookie).send().await;
        let set: Vec<_> = reply.headers.get_all("set-cookie").iter().collect();
        assert_eq!(set, ["own=1; Path=/"]);
    });
}

#[test]
fn the_agent_gets_its_password_and_the_client_need_not_know_it() {
    with_gateway(async |world| {
        let reply = world.get_as_ada("/opencode/session").send().await;
        assert_eq!(reply.json()["target"], "/session");
        // opencode:agent-password
        assert_eq!(
            reply.got("authorization"),
            ["Basic b3BlbmNvZGU6YWdlbnQtcGFzc3dvcmQ="]
        );
        assert!(!world.log().contains(AGENT_PASSWORD));

        world.agent.send_replace(None);
        let status = world.get_as_ada("/opencode/session").status().await;
        assert_eq!(status, StatusCode::BAD_GATEWAY);
    });
}

#[test]
fn a_backend_is_told_who_asked_and_under_which_address() {
    with_either(async |world| {
        let ask = world.get_as_ada("/vscode/x");
        let ask = ask
            .header("x-forwarded-for", "203.0.113.7")
            .header("accept-encoding", "br");
        let ask = ask
            .header("connection", "x-hop, keep-alive")
            .header("x-hop", "1");
        let ask = ask
            .header("keep-alive", "timeout=1")
            .header("te", "trailers");
        let reply = ask.header("proxy-authorization", "x").send().await;
        assert_eq!(reply.got("x-forwarded-for"), ["203.0.113.7, 127.0.0.1"]);
        assert_eq!(reply.got("x-forwarded-proto"), ["http"]);
        assert_eq!(reply.got("x-forwarded-host"), [HOST]);
        assert_eq!(reply.got("x-forwarded-prefix"), ["/vscode"]);
        assert_eq!(reply.got("host"), [format!("localhost:{}", world.echo)]);
        assert_eq!(reply.got("accept-encoding"), ["br"]);
        for name in [
            "connection",
            "x-hop",
            "keep-alive",
            "te",
            "proxy-authorization",
            "upgrade",
        ] {
            assert_eq!(reply.got(name), Vec::<String>::new(), "{name}");
        }
    });
}

#[test]
fn an_encoding_passes_as_it_is_and_hops_do_not() {
    with_either(async |world| {
        let reply = world.get_as_ada("/vscode/encoded").send().await;
        assert_eq!(reply.header("content-encoding"), "br");
        assert_eq!(reply.text(), "not really compressed");
        assert!(!reply.headers.contains_key("x-hop"));
    });
}

#[test]
fn a_redirect_arrives_as_one_under_the_prefix() {
    with_either(async |world| {
        let inside = format!("http://localhost:{}/login", world.echo);
        for (to, expected) in [
            ("/login", "/vscode/login"),
            (inside.as_str(), "/vscode/login"),
            ("https://box.example/login", "/vscode/login"),
            ("/vscode/login", "/vscode/login"),
            ("login", "login"),
            ("https://example.com/", "https://example.com/"),
        ] {
            let reply = world
                .get_as_ada(&format!("/vscode/redirect?{to}"))
                .send()
                .await;
            assert_eq!(reply.status, StatusCode::FOUND);
            assert_eq!(reply.header("location"), expected);
        }
    });
}

#[test]
fn every_method_and_body_passes() {
    with_gateway(async |world| {
        for method in [
            "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "GET", "PROPFIND",
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let ask = world.ask(method.clone(), "/vscode/").bearer(&world.token());
            let got = ask.body("a body").send().await.json();
            assert_eq!(got["method"], method.as_str());
            assert_eq!(got["body"], "a body");
        }
        let head = world
            .ask(Method::HEAD, "/vscode/")
            .bearer(&world.token())
            .send()
            .await;
        assert_eq!(head.status, StatusCode::OK);
        assert!(head.body.is_empty() && head.header("content-length") != "0");
    });
}

#[test]
fn a_large_body_passes_whole() {
    with_gateway(async |world| {
        let ask = world
            .ask(Method::POST, "/vscode/length")
            .bearer(&world.token());
        let reply = ask.body(Bytes::from(vec![7; 8 << 20])).send().await;
        assert_eq!(reply.text(), (8 << 20).to_string());
    });
}

#[test]
fn the_first_event_arrives_before_the_second_exists() {
    with_either(async |mut world| {
        let ask = world.get_as_ada("/vscode/events");
        let mut events = ask.open(&mut world.tasks).await;
        assert_eq!(events.headers()["content-type"], "text/event-stream");
        let first = events.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first, "data: 0\n\n");
        world.get_as_ada("/vscode/events/second").send().await;
        let second = events.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(second, "data: 1\n\n");
        assert!(events.frame().await.is_none());
    });
}

#[test]
fn a_request_streams_to_the_backend_before_it_is_whole() {
    with_gateway(async |world| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        world.tunnels.register("raw", port, Protocol::Http).unwrap();
        let mut client = TcpStream::connect(world.address).await.unwrap();
        let head = format!(
            "POST /t/raw/ HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {}\r\n\
             transfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n",
            world.token()
        );
        client.write_all(head.as_bytes()).await.unwrap();
        let (mut backend, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        while !got.ends_with(b"5\r\nfirst\r\n") {
            assert_ne!(backend.read_buf(&mut got).await.unwrap(), 0);
        }
        client.write_all(b"0\r\n\r\n").await.unwrap();
        backend
            .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
            .await
            .unwrap();
        let mut answer = vec![0; 12];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, b"HTTP/1.1 204");
    });
}

#[test]
fn a_client_that_asks_first_is_told_to_go_on() {
    with_gateway(async |world| {
        let mut client = TcpStream::connect(world.address).await.unwrap();
        let head = format!(
            "POST /vscode/ HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {}\r\n\
             expect: 100-continue\r\ncontent-length: 4\r\nconnection: close\r\n\r\n",
            world.token()
        );
        client.write_all(head.as_bytes()).await.unwrap();
        let mut told = [0; 25];
        client.read_exact(&mut told).await.unwrap();
        assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
        client.write_all(b"body").await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains(r#""body":"body""#), "{answer}");
        assert!(!answer.contains("expect"), "{answer}");
    });
}

#[test]
fn a_backend_that_is_down_is_a_bad_gateway_and_comes_back() {
    with_either(async |world| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        world.tunnels.register("app", port, Protocol::Http).unwrap();
        let reply = world.get_as_ada("/t/app/").send().await;
        assert_eq!(reply.status, StatusCode::BAD_GATEWAY);
        world
            .tunnels
            .register("app", world.echo, Protocol::Http)
            .unwrap();
        assert_eq!(world.get_as_ada("/t/app/").status().await, StatusCode::OK);
    });
}

#[test]
fn a_backend_that_speaks_no_http_is_a_bad_gateway() {
    with_either(async |mut world| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        world.tasks.spawn_local(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"SSH-2.0-OpenSSH\r\n").await.unwrap();
        });
        world.tunnels.register("app", port, Protocol::Http).unwrap();
        assert_eq!(
            world.get_as_ada("/t/app/").status().await,
            StatusCode::BAD_GATEWAY
        );
    });
}

/// A backend that says exactly this to everybody.
pub(super) async fn say(world: &mut World, answer: &'static [u8]) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    world
        .tunnels
        .register("said", port, Protocol::Http)
        .unwrap();
    world.tasks.spawn_local(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer).await;
        }
    });
}

#[test]
fn a_backend_that_switches_unasked_is_a_bad_gateway() {
    with_either(async |mut world| {
        let answer = b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
        say(&mut world, answer).await;
        let status = world.get_as_ada("/t/said/").status().await;
        assert_eq!(status, StatusCode::BAD_GATEWAY);
    });
}

#[test]
fn an_answer_without_a_body_keeps_the_length_it_speaks_of() {
    with_either(async |mut world| {
        let answer = b"HTTP/1.1 304 Not Modified\r\ncontent-length: 100\r\netag: x\r\n\r\n";
        say(&mut world, answer).await;
        let reply = world.get_as_ada("/t/said/").send().await;
        assert_eq!(reply.status, StatusCode::NOT_MODIFIED);
        assert_eq!(reply.header("etag"), "x");
        assert!(reply.body.is_empty());
    });
}

#[test]
fn hints_before_an_answer_do_not_hide_it() {
    with_either(async |mut world| {
        let answer = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n\
            HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        say(&mut world, answer).await;
        assert_eq!(world.get_as_ada("/t/said/").send().await.text(), "ok");
    });
}

#[test]
fn an_answer_without_a_length_ends_with_its_connection() {
    with_either(async |mut world| {
        say(&mut world, b"HTTP/1.0 200 OK\r\n\r\nall of it").await;
        assert_eq!(
            world.get_as_ada("/t/said/").send().await.text(),
            "all of it"
        );
    });
}

#[test]
fn an_answer_that_breaks_off_does_not_look_whole() {
    with_either(async |mut world| {
        say(
            &mut world,
            b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
        )
        .await;
        let mut tasks = tokio::task::JoinSet::new();
        let answer = world.get_as_ada("/t/said/").open(&mut tasks).await;
        assert!(answer.into_body().collect().await.is_err());
    });
}

#[test]
fn a_backend_that_does_not_answer_is_a_gateway_timeout() {
    let limits = Limits {
        answer: std::time::Duration::from_millis(100),
        ..Limits::usual()
    };
    with_either_of(
        || Setup {
            limits,
            ..Setup::usual()
        },
        async |world| {
            let status = world.get_as_ada("/vscode/slow").status().await;
            assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
        },
    );
}

#[test]
fn a_backend_on_ipv6_alone_is_found() {
    with_either(async |mut world| {
        let listener = TcpListener::bind("[::1]:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        world.tasks.spawn_local(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await.unwrap();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nsix";
            stream.write_all(answer).await.unwrap();
        });
        world.tunnels.register("six", port, Protocol::Http).unwrap();
        assert_eq!(world.get_as_ada("/t/six/").send().await.text(), "six");
    });
}

#[test]
fn connections_to_a_backend_are_kept_and_a_closed_one_is_not_used() {
    with_either(async |mut world| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // Each connection serves two requests and then closes without a word.
        world.tasks.spawn_local(async move {
            for connection in 0.. {
                let (mut stream, _) = listener.accept().await.unwrap();
                for _ in 0..2 {
                    let mut got = Vec::new();
                    while !got.ends_with(b"\r\n\r\n") {
                        assert_ne!(stream.read_buf(&mut got).await.unwrap(), 0);
                    }
                    let answer =
                        format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{connection}");
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            }
        });
        world.tunnels.register("app", port, Protocol::Http).unwrap();
        let mut answers = String::new();
        for _ in 0..6 {
            answers += &world.get_as_ada("/t/app/").send().await.text();
        }
        assert_eq!(answers, "001122");
    });
}

#[test]
fn a_client_that_leaves_takes_its_request_to_the_backend_along() {
    with_either(async |world| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        world.tunnels.register("app", port, Protocol::Http).unwrap();
        let mut client = TcpStream::connect(world.address).await.unwrap();
        let (name, value) = world.adas_header();
        let head = format!("GET /t/app/ HTTP/1.1\r\nhost: {HOST}\r\n{name}: {value}\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        let (mut backend, _) = listener.accept().await.unwrap();
        assert_ne!(backend.read(&mut [0; 1024]).await.unwrap(), 0);
        drop(client);
        assert_eq!(backend.read(&mut [0; 1024]).await.unwrap(), 0);
    });
}

#[test]
fn the_terminal_answers_plain_requests_itself() {
    with_gateway(async |world| {
        let reply = world.get_as_ada("/ttyd/token").send().await;
        assert_eq!(reply.text(), "GET /token");
    });
}
