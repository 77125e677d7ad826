//! Sockets through the gateway.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use hyper::{Method, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::http::HeaderName;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use workplace::gateway::Limits;
use workplace::tunnels::Protocol;

use super::ask::HOST;
use super::backend::echo_socket;
use super::world::{Setup, World, with, with_gateway};

type Connected = (WebSocketStream<TcpStream>, Response);

/// Opens a socket, or says with which status it was refused.
pub(super) async fn connect(
    world: &World,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Connected, StatusCode> {
    let mut request = format!("ws://{HOST}{path}").into_client_request().unwrap();
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        request.headers_mut().append(name, value.parse().unwrap());
    }
    let stream = TcpStream::connect(world.address).await.unwrap();
    match tokio_tungstenite::client_async(request, stream).await {
        Ok(connected) => Ok(connected),
        Err(Error::Http(response)) => Err(response.status()),
        Err(other) => panic!("{other}"),
    }
}

pub(super) async fn connect_as_ada(world: &World, path: &str) -> Result<Connected, StatusCode> {
    let bearer = format!("Bearer {}", world.token());
    connect(world, path, &[("authorization", &bearer)]).await
}

#[test]
fn sockets_are_proxied_on_every_route() {
    with_gateway(async |world| {
        world
            .tunnels
            .register("web", world.echo, Protocol::Auto)
            .unwrap();
        for path in [
            "/vscode/ws",
            "/vnc/websockify",
            "/opencode/ws",
            "/t/web/ws",
            "/ttyd/ws",
        ] {
            let (mut socket, _) = connect_as_ada(&world, path).await.unwrap();
            socket.send("hello".into()).await.unwrap();
            assert_eq!(
                socket.next().await.unwrap().unwrap(),
                "hello".into(),
                "{path}"
            );
        }
    });
}

#[test]
fn text_stays_text_and_binary_stays_binary() {
    with_gateway(async |world| {
        let (mut socket, _) = connect_as_ada(&world, "/vscode/ws").await.unwrap();
        let mut state = 1_u32;
        let megabyte: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .take(1 << 20)
        .collect();
        for message in [
            Message::binary(megabyte),
            Message::text("text: ä"),
            Message::binary(Vec::new()),
            Message::text(""),
        ] {
            socket.send(message.clone()).await.unwrap();
            assert!(socket.next().await.unwrap().unwrap() == message);
        }
    });
}

#[test]
fn sub_protocols_are_offered_and_the_chosen_one_echoed_by_cookie_and_by_token() {
    with_gateway(async |world| {
        let cookie = format!("__Host-gateway_session={}", world.cookie().await);
        let bearer = format!("Bearer {}", world.token());
        for (name, value) in [("cookie", cookie), ("authorization", bearer)] {
            for path in ["/vscode/ws", "/vnc/ws", "/opencode/ws"] {
                let headers = [
                    (name, value.as_str()),
                    ("sec-websocket-protocol", "one, two"),
                ];
                let (_, response) = connect(&world, path, &headers).await.unwrap();
                assert_eq!(
                    response.headers()["sec-websocket-protocol"],
                    "two",
                    "{path}"
                );
            }
        }
    });
}

#[test]
fn the_terminal_speaks_tty_whether_it_is_asked_to_or_not() {
    with_gateway(async |world| {
        let cookie = format!("__Host-gateway_session={}", world.cookie().await);
        let headers = [
            ("cookie", cookie.as_str()),
            ("sec-websocket-protocol", "x, tty"),
        ];
        let (_, response) = connect(&world, "/ttyd/ws", &headers).await.unwrap();
        assert_eq!(response.headers()["sec-websocket-protocol"], "tty");

        let (mut socket, response) = connect_as_ada(&world, "/ttyd/ws").await.unwrap();
        assert!(!response.headers().contains_key("sec-websocket-protocol"));
        socket.send("id".into()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), "id".into());
    });
}

#[test]
fn a_close_passes_both_ways_with_code_and_reason() {
    with_gateway(async |world| {
        let (mut socket, _) = connect_as_ada(&world, "/vscode/ws").await.unwrap();
        socket.send("close 4001".into()).await.unwrap();
        let close = CloseFrame {
            code: 4001.into(),
            reason: "because".into(),
        };
        let expected = Message::Close(Some(close));
        assert_eq!(socket.next().await.unwrap().unwrap(), expected);

        let (mut socket, _) = connect_as_ada(&world, "/vscode/ws").await.unwrap();
        let close = CloseFrame {
            code: 4002.into(),
            reason: "mine".into(),
        };
        socket.close(Some(close.clone())).await.unwrap();
        let echoed = socket.next().await.unwrap().unwrap();
        assert_eq!(echoed, Message::Close(Some(close)));
    });
}

#[test]
fn a_backend_that_breaks_off_closes_with_1011() {
    with_gateway(async |world| {
        let (mut socket, _) = connect_as_ada(&world, "/vscode/ws").await.unwrap();
        socket.send("hello".into()).await.unwrap();
        socket.next().await.unwrap().unwrap();
        socket.send("break".into()).await.unwrap();
        let Message::Close(Some(close)) = socket.next().await.unwrap().unwrap() else {
            panic!("no close");
        };
        assert_eq!(u16::from(close.code), 1011);
    });
}

#[test]
fn a_backend_that_is_down_or_refuses_is_told_before_the_handshake() {
    with_gateway(async |world| {
        let refused = connect_as_ada(&world, "/vscode/ws/refused").await.err();
        assert_eq!(refused, Some(StatusCode::FORBIDDEN));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        world.tunnels.register("app", port, Protocol::Ws).unwrap();
        let down = connect_as_ada(&world, "/t/app/").await.err();
        assert_eq!(down, Some(StatusCode::BAD_GATEWAY));
    });
}

/// A client that does not wait for the answer to its handshake.
async fn impatient(world: &World, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {HOST}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         authorization: Bearer {}\r\n\r\n",
        world.token()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// A text frame as clients send it, with a mask of zeros.
fn frame(text: &str) -> Vec<u8> {
    let mut bytes = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
    bytes.extend(text.as_bytes());
    bytes
}

#[test]
fn frames_sent_before_the_backend_has_agreed_arrive_in_order() {
    with_gateway(async |world| {
        let mut stream = impatient(&world, "/vscode/ws/slow").await;
        for n in 0..100 {
            stream
                .write_all(&frame(&format!("early {n}")))
                .await
                .unwrap();
        }
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 101"));
        for n in 0..100 {
            let expected = format!("early {n}");
            let mut header = [0; 2];
            stream.read_exact(&mut header).await.unwrap();
            let mut text = vec![0; header[1].into()];
            stream.read_exact(&mut text).await.unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    });
}

#[test]
fn a_flood_before_the_backend_has_agreed_is_held_back() {
    with_gateway(async |world| {
        let mut stream = impatient(&world, "/vscode/ws/never").await;
        let flood = vec![0x82; 1 << 20];
        let mut sent = 0;
        let limit = Duration::from_millis(500);
        while let Ok(written) = tokio::time::timeout(limit, stream.write(&flood)).await {
            sent += written.unwrap();
            assert!(sent < 64 << 20, "the gateway takes it all");
        }
    });
}

#[test]
fn a_backend_that_does_not_agree_is_a_gateway_timeout() {
    let limits = Limits {
        handshake: Duration::from_millis(100),
        ..Limits::usual()
    };
    with(
        Setup {
            limits,
            ..Setup::usual()
        },
        async |mut world| {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            world.tunnels.register("mute", port, Protocol::Ws).unwrap();
            world.tasks.spawn_local(async move {
                let _kept = listener.accept().await;
                std::future::pending::<()>().await;
            });
            let late = connect_as_ada(&world, "/t/mute/").await.err();
            assert_eq!(late, Some(StatusCode::GATEWAY_TIMEOUT));
        },
    );
}

#[test]
fn a_frame_of_any_length_passes_without_being_kept() {
    with_gateway(async |world| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        world.tunnels.register("raw", port, Protocol::Ws).unwrap();
        let mut client = impatient(&world, "/t/raw/").await;
        let (mut backend, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(backend.read_u8().await.unwrap());
        }
        let answer = b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
        backend.write_all(answer).await.unwrap();
        let giant = [
            &[0x82, 0xff][..],
            &u64::MAX.to_be_bytes(),
            &[0; 4],
            &[7; 1000],
        ]
        .concat();
        client.write_all(&giant).await.unwrap();
        let mut got = vec![0; giant.len()];
        backend.read_exact(&mut got).await.unwrap();
        assert!(got == giant);
    });
}

#[test]
fn nothing_of_ours_reaches_a_backend_in_a_handshake() {
    with_gateway(async |world| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        world.tunnels.register("raw", port, Protocol::Ws).unwrap();
        let (cookie, code, token) = (world.cookie().await, world.code("/"), world.token());
        let cookies = format!("own=1; __Host-gateway_session={cookie}");
        let path = format!("/t/raw/x?own=2&nacre_code={code}");
        let bearer = format!("Bearer {token}");
        let headers = [("cookie", cookies.as_str()), ("authorization", &bearer)];
        let client = connect(&world, &path, &headers);
        let backend = async {
            let (mut backend, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(backend.read_u8().await.unwrap());
            }
            backend.write_all(b"HTTP/1.1 403 No\r\n\r\n").await.unwrap();
            String::from_utf8(head).unwrap()
        };
        let (refused, head) = futures::future::join(client, backend).await;
        assert_eq!(refused.err(), Some(StatusCode::FORBIDDEN));
        assert!(head.starts_with("GET /x?own=2 HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("cookie: own=1\r\n"), "{head}");
        for ours in [cookie, code, token] {
            assert!(!head.contains(&ours), "{head}");
        }
    });
}

#[test]
fn a_handshake_of_another_kind_is_refused() {
    with_gateway(async |world| {
        let upgrade = |method: Method| {
            let ask = world.ask(method, "/ttyd/ws").bearer(&world.token());
            ask.header("connection", "upgrade")
                .header("upgrade", "websocket")
        };
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        for ask in [
            upgrade(Method::GET),
            upgrade(Method::GET).header("sec-websocket-version", "13"),
            upgrade(Method::GET)
                .header("sec-websocket-version", "8")
                .header("sec-websocket-key", key),
            upgrade(Method::POST)
                .header("sec-websocket-version", "13")
                .header("sec-websocket-key", key),
        ] {
            assert_eq!(ask.status().await, StatusCode::BAD_REQUEST);
        }
    });
}

#[test]
fn an_upgrade_to_something_else_is_a_plain_request() {
    with_gateway(async |world| {
        let ask = world
            .get_as_ada("/vscode/")
            .header("connection", "upgrade, http2-settings");
        let reply = ask
            .header("upgrade", "h2c")
            .header("http2-settings", "x")
            .send()
            .await;
        assert_eq!(reply.status, StatusCode::OK);
        assert_eq!(reply.got("upgrade"), Vec::<String>::new());
        assert_eq!(reply.got("http2-settings"), Vec::<String>::new());
    });
}

#[test]
fn the_link_is_handed_on_as_it_is_and_opens_to_its_own_token_alone() {
    with_gateway(async |mut world| {
        let cookie = format!("__Host-gateway_session={}", world.cookie().await);
        let code = format!("/link?nacre_code={}", world.code("/"));
        assert_eq!(
            connect(&world, "/link", &[("cookie", &cookie)]).await.err(),
            UNAUTHORIZED
        );
        assert_eq!(connect_as_ada(&world, "/link").await.err(), UNAUTHORIZED);
        assert_eq!(connect(&world, &code, &[]).await.err(), UNAUTHORIZED);

        let bearer = format!("Bearer {}", world.link_token());
        let plain = world
            .get("/link")
            .bearer(&world.link_token())
            .status()
            .await;
        assert_eq!(plain, StatusCode::UPGRADE_REQUIRED);
        assert_eq!(
            connect(&world, "/vscode/ws", &[("authorization", &bearer)])
                .await
                .err(),
            UNAUTHORIZED
        );

        let connected = connect(&world, "/link", &[("authorization", &bearer)]).await;
        let (mut socket, _) = connected.unwrap();
        let second = connect(&world, "/link", &[("authorization", &bearer)]).await;
        assert_eq!(second.err(), Some(StatusCode::SERVICE_UNAVAILABLE));
        let handed = world.links.recv().await.unwrap();
        assert_eq!(handed.user, "hub");
        world.tasks.spawn_local(echo_socket(handed.stream));
        socket.send("hello".into()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), "hello".into());
    });
}

const UNAUTHORIZED: Option<StatusCode> = Some(StatusCode::UNAUTHORIZED);
