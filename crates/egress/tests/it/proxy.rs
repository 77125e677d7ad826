use std::time::Duration;

use nacre_egress::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::{Setup, World, read_head};

/// A list that admits loopback servers by any port that a test's server has.
fn everything_here(port: u16) -> (String, [&'static str; 1]) {
    (format!("*:{port}"), ["127.0.0.0/8"])
}

/// Says what it was asked and keeps the connection.
async fn echo_heads(mut stream: TcpStream) {
    loop {
        let head = read_head(&mut stream).await;
        if head.is_empty() {
            return;
        }
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}",
            head.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn world_with<F, A>(server: F) -> (World, u16)
where
    F: Fn(TcpStream) -> A + Send + 'static,
    A: Future<Output = ()> + Send + 'static,
{
    // The port is known only once the server is there, and the list wants it.
    let mut servers = World::new(Setup::default()).await;
    let port = servers.server(server).await;
    let (rule, private) = everything_here(port);
    let mut world = World::new(Setup {
        allow: &[&rule],
        private: &private,
        ..Setup::default()
    })
    .await;
    world.keep(servers);
    (world, port)
}

#[tokio::test]
async fn a_listed_server_is_reached_by_its_name() {
    let (world, port) = world_with(echo_heads).await;
    let answer = world
        .ask(format!(
            "GET http://Some.Example:{port}/path?q=1 HTTP/1.1\r\nHost: liar\r\nConnection: close\r\n\r\n"
        ))
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.ends_with(&format!(
            "GET /path?q=1 HTTP/1.1\r\nHost: some.example:{port}\r\n\r\n"
        )),
        "{answer}"
    );
    assert_eq!(world.asked(), ["some.example"]);
}

#[tokio::test]
async fn a_name_that_is_not_listed_is_refused_and_never_looked_up() {
    let world = World::new(Setup {
        allow: &["pypi.org"],
        ..Setup::default()
    })
    .await;
    for request in [
        "CONNECT secret-data.evil.example:443 HTTP/1.1\r\n\r\n",
        "GET http://secret-data.evil.example/ HTTP/1.1\r\n\r\n",
        "CONNECT pypi.org.evil.example:443 HTTP/1.1\r\n\r\n",
        "CONNECT pypi.org:22 HTTP/1.1\r\n\r\n",
        "CONNECT evil.example\0.pypi.org:443 HTTP/1.1\r\n\r\n",
    ] {
        let answer = world.ask(request).await;
        assert!(answer.starts_with("HTTP/1.1 40"), "{request}: {answer}");
        assert!(
            answer.contains("X-Nacre-Egress: refused; reason="),
            "{answer}"
        );
    }
    assert!(world.asked().is_empty(), "{:?}", world.asked());
}

#[tokio::test]
async fn a_refusal_says_what_to_do() {
    let world = World::new(Setup::default()).await;
    let answer = world.ask("CONNECT example.org:443 HTTP/1.1\r\n\r\n").await;
    let first = answer.lines().next().unwrap_or_default();
    assert_eq!(
        first,
        "HTTP/1.1 403 example.org:443 is not on this sandbox's list; create it with `--allow example.org`, or add it to `egress.allow`"
    );
}

#[tokio::test]
async fn a_listed_name_with_a_private_address_is_refused() {
    let world = World::new(Setup {
        allow: &["*"],
        ..Setup::default()
    })
    .await;
    let answer = world
        .ask("CONNECT rebind.example:443 HTTP/1.1\r\n\r\n")
        .await;
    assert!(answer.contains("reason=loopback"), "{answer}");
    let answer = world
        .ask("GET http://169.254.169.254/latest HTTP/1.1\r\n\r\n")
        .await;
    assert!(answer.contains("reason=metadata"), "{answer}");
    assert_eq!(world.asked(), ["rebind.example"]);
}

#[tokio::test]
async fn a_tunnel_carries_both_ways_and_half_an_end() {
    let (world, port) = world_with(|mut stream: TcpStream| async move {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
        all.reverse();
        let _ = stream.write_all(&all).await;
    })
    .await;
    let mut stream = world.connect().await;
    // What follows the head at once is the tunnel's already.
    let ask = format!("CONNECT a.example:{port} HTTP/1.1\r\nHost: x\r\n\r\nearly ");
    stream.write_all(ask.as_bytes()).await.expect("it is sent");
    let head = read_head(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let large = vec![b'x'; 3 << 20];
    stream.write_all(&large).await.expect("it is sent");
    stream.shutdown().await.expect("half an end");
    let mut back = Vec::new();
    stream.read_to_end(&mut back).await.expect("it comes back");
    assert_eq!(back.len(), large.len() + 6);
    assert!(back.ends_with(b" ylrae"));
}

#[tokio::test]
async fn each_request_of_a_connection_is_checked() {
    let (world, port) = world_with(echo_heads).await;
    let answer = world
        .ask(format!(
            "GET http://a.example:{port}/1 HTTP/1.1\r\n\r\nGET http://a.example:{port}/2 HTTP/1.1\r\n\r\nGET http://b.example:1/3 HTTP/1.1\r\n\r\nGET http://a.example:{port}/4 HTTP/1.1\r\n\r\n"
        ))
        .await;
    assert!(answer.contains("GET /1 "), "{answer}");
    assert!(answer.contains("GET /2 "), "{answer}");
    assert!(answer.contains("reason=port-not-listed"), "{answer}");
    assert!(!answer.contains("GET /4 "), "{answer}");
    assert_eq!(world.asked(), ["a.example"], "one connection for both");
}

#[tokio::test]
async fn what_could_smuggle_a_request_is_refused() {
    let (world, port) = world_with(echo_heads).await;
    let url = format!("http://a.example:{port}/");
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Content-Length: 4\r\nContent-Length: 5",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding : chunked",
        "X: y\r\n Content-Length: 4",
        "X: y\nContent-Length: 4",
    ] {
        let answer = world
            .ask(format!("POST {url} HTTP/1.1\r\n{fields}\r\n\r\n0\r\n\r\n"))
            .await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{fields}: {answer}");
    }
    assert!(world.asked().is_empty());
}

#[tokio::test]
async fn bodies_of_every_kind_are_carried() {
    let (world, port) = world_with(|mut stream: TcpStream| async move {
        let head = read_head(&mut stream).await;
        let answer: &[u8] = if head.starts_with("POST /length") {
            let mut body = vec![0u8; 100_000];
            let _ = stream.read_exact(&mut body).await;
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfound\r\n0\r\n\r\n"
        } else if head.starts_with("POST /chunks") {
            let mut body = [0u8; 15];
            let _ = stream.read_exact(&mut body).await;
            assert_eq!(&body, b"5\r\nhello\r\n0\r\n\r\n");
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nuntil the end"
        } else {
            b"HTTP/1.1 204 No Content\r\n\r\n"
        };
        let _ = stream.write_all(answer).await;
    })
    .await;
    let posted = |path: &str, field: &str, body: &str| {
        format!(
            "POST http://a.example:{port}/{path} HTTP/1.1\r\nConnection: close\r\n{field}\r\n\r\n{body}"
        )
    };
    let answer = world
        .ask(posted(
            "length",
            "Content-Length: 100000",
            &"x".repeat(100_000),
        ))
        .await;
    assert!(
        answer.ends_with("\r\n\r\n5\r\nfound\r\n0\r\n\r\n"),
        "{answer}"
    );
    let answer = world
        .ask(posted(
            "chunks",
            "Transfer-Encoding: chunked",
            "5\r\nhello\r\n0\r\n\r\n",
        ))
        .await;
    assert!(answer.starts_with("HTTP/1.1 100 "), "{answer}");
    assert!(
        answer.ends_with("Connection: close\r\n\r\nuntil the end"),
        "{answer}"
    );
    let answer = world.ask(posted("none", "Content-Length: 0", "")).await;
    assert!(
        answer.starts_with("HTTP/1.1 204 No Content\r\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_or_understood_is_told_apart() {
    let (world, port) = world_with(|mut stream: TcpStream| async move {
        read_head(&mut stream).await;
        let _ = stream.write_all(b"SSH-2.0-OpenSSH\r\n\r\n").await;
    })
    .await;
    let answer = world
        .ask(format!("GET http://a.example:{port}/ HTTP/1.1\r\n\r\n"))
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 502 ") && answer.contains("reason=bad-answer"),
        "{answer}"
    );
    let nobody = World::new(Setup {
        allow: &["*:1"],
        private: &["127.0.0.1"],
        ..Setup::default()
    })
    .await;
    let answer = nobody.ask("CONNECT a.example:1 HTTP/1.1\r\n\r\n").await;
    assert!(
        answer.starts_with("HTTP/1.1 502 ") && answer.contains("reason=unreachable"),
        "{answer}"
    );
}

#[tokio::test]
async fn heads_and_connections_are_bounded() {
    let world = World::new(Setup {
        limits: Limits {
            connections: 2,
            head: Duration::from_millis(300),
            ..Limits::default()
        },
        ..Setup::default()
    })
    .await;
    let large = format!("GET http://a/ HTTP/1.1\r\nA: {}", "x".repeat(20_000));
    let answer = world.ask(&large).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let held = (world.connect().await, world.connect().await);
    let answer = world.ask("").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    drop(held);
    // A head that does not come to its end is not waited for.
    let slow = world.ask("GET http://a/ HTTP").await;
    assert_eq!(slow, "");
}

#[tokio::test]
async fn an_upstream_gets_names_unresolved_and_private_ones_go_past_it() {
    let mut servers = World::new(Setup::default()).await;
    let upstream = servers
        .server(|mut stream: TcpStream| async move {
            let head = read_head(&mut stream).await;
            if head.starts_with("CONNECT ") {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            }
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}",
                head.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        })
        .await;
    let own = servers.server(echo_heads).await;
    let rule = format!("*.internal:{own}");
    let mut world = World::new(Setup {
        allow: &["public.example", "127.0.0.1", &rule],
        private: &["*.internal"],
        upstream: Some(format!("http://me:pw@127.0.0.1:{upstream}")),
        ..Setup::default()
    })
    .await;
    world.keep(servers);
    let answer = world
        .ask("GET http://public.example/x HTTP/1.1\r\nConnection: close\r\n\r\n")
        .await;
    assert!(
        answer.ends_with("GET http://public.example/x HTTP/1.1\r\nHost: public.example\r\nProxy-Authorization: Basic bWU6cHc=\r\n\r\n"),
        "{answer}"
    );
    let answer = world
        .ask("CONNECT public.example:443 HTTP/1.1\r\n\r\n")
        .await;
    assert!(
        answer.contains("CONNECT public.example:443 HTTP/1.1"),
        "{answer}"
    );
    assert!(
        world.asked().is_empty(),
        "the upstream resolves: {:?}",
        world.asked()
    );
    let refused = world.ask("CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n").await;
    assert!(refused.contains("reason=loopback"), "{refused}");
    let answer = world
        .ask(format!(
            "GET http://git.internal:{own}/ HTTP/1.1\r\nConnection: close\r\n\r\n"
        ))
        .await;
    assert!(
        answer.ends_with(&format!(
            "GET / HTTP/1.1\r\nHost: git.internal:{own}\r\n\r\n"
        )),
        "{answer}"
    );
    assert_eq!(world.asked(), ["git.internal"]);
}
