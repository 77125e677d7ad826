//! A host that a session is refused, asked for and let through: a real server, a real sandbox.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use client::Client;
use wire::v1::{Allow, AllowEgress, Egress, EgressPolicy, Fork, NewSession, Status};

use crate::front::{Front, run};

/// Answers every request with `pearl`, as long as the test runs.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut asked = [0; 4096];
                while stream.read(&mut asked).is_ok_and(|read| read > 0) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\npearl");
                }
            });
        }
    });
    port
}

/// What the proxy says to a program inside.
async fn get(client: &Client, session: &str, host: &str) -> String {
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET http://{host}/ HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3"
    );
    run(client, session, &script).await
}

async fn until_blocked(client: &Client, session: &str) -> Egress {
    let begun = Instant::now();
    loop {
        let egress = client.egress(session).await.unwrap();
        if !egress.blocked.is_empty() {
            return egress;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing is told");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_was_blocked_is_let_through_once_and_then_for_good() {
    let Some(mut front) = Front::with_base() else {
        return;
    };
    let home = front.world.nacre.home.path();
    // Every name of this machine is private; the one that answers here is excepted.
    let settings = "[egress]\nprivate = [\"127.0.0.0/8\"]\n";
    fs_err::write(home.join("nacre.toml"), settings).unwrap();
    front.start().await;
    let client = front.client();
    let port = server();
    let host = format!("localhost:{port}");
    let id = client
        .create_session(&NewSession::default())
        .await
        .unwrap()
        .id;
    assert_eq!(client.resume(&id).await.unwrap().status, Status::Running);

    let refused = get(&client, &id, &host).await;
    assert!(refused.contains("reason=not-listed"), "{refused}");
    let egress = until_blocked(&client, &id).await;
    assert_eq!(egress.policy, EgressPolicy::Proxy);
    let blocked = &egress.blocked[0];
    assert_eq!((&*blocked.host, blocked.port), ("localhost", port));
    assert!(blocked.can_allow);

    let wanted = |host: &str, allow| AllowEgress {
        host: host.to_owned(),
        port: Some(port),
        allow,
    };
    let once = client
        .allow_egress(&id, &wanted("localhost", Allow::Once))
        .await;
    assert!(once.unwrap().applied);
    let answer = get(&client, &id, &host).await;
    assert!(answer.ends_with("pearl"), "{answer}");
    // By its address it is another host, and nobody is let through to a private one.
    let by_address = format!("127.0.0.1:{port}");
    let refused = get(&client, &id, &by_address).await;
    assert!(refused.contains("reason=not-listed"), "{refused}");
    let private = client
        .allow_egress(&id, &wanted("127.0.0.1", Allow::Once))
        .await;
    private.expect_err("a private address");

    let fork = client.fork(&id, &Fork::default()).await.unwrap().id;
    client.resume(&fork).await.unwrap();
    let refused = get(&client, &fork, &host).await;
    assert!(refused.contains("reason=not-listed"), "{refused}");

    // For good: after a pause, a killed server, and in the next fork.
    let always = client
        .allow_egress(&id, &wanted("localhost", Allow::Always))
        .await;
    assert!(always.unwrap().applied);
    client.pause(&id).await.unwrap();
    front.kill();
    front.start().await;
    let client = front.client();
    client.resume(&id).await.unwrap();
    let answer = get(&client, &id, &host).await;
    assert!(answer.ends_with("pearl"), "{answer}");
    let egress = client.egress(&id).await.unwrap();
    assert_eq!(egress.allow, std::slice::from_ref(&host));
    let second = client.fork(&id, &Fork::default()).await.unwrap().id;
    client.resume(&second).await.unwrap();
    let answer = get(&client, &second, &host).await;
    assert!(answer.ends_with("pearl"), "{answer}");
    for session in [&id, &fork, &second] {
        client.stop(session).await.unwrap();
    }
}
