//! The ways in which hub and runner find each other.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::hub::{Carrier, Ended, Hub, Manners, Way};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use wire::link::Close;
use workplace::link::Address;

use super::world::{SESSION, World, soon, titles};

/// A hub on a loopback port. Remembers what the upgrades looked like.
async fn listening(
    hub: Hub,
    tasks: &mut JoinSet<()>,
) -> (String, Arc<Mutex<Vec<(String, String)>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let upgrades = Arc::clone(&seen);
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let hub = hub.clone();
            let upgrades = Arc::clone(&upgrades);
            connections.spawn(async move {
                #[expect(clippy::result_large_err, reason = "the library's own type")]
                let check = |request: &Request, response: Response| {
                    let header = request.headers().get("authorization");
                    let token = header
                        .map_or("", |value| value.to_str().unwrap())
                        .to_owned();
                    let is_good = token == "Bearer good";
                    upgrades
                        .lock()
                        .unwrap()
                        .push((request.uri().to_string(), token));
                    if is_good {
                        return Ok(response);
                    }
                    let mut refusal = ErrorResponse::new(None);
                    *refusal.status_mut() = 401.try_into().unwrap();
                    Err(refusal)
                };
                let accepted = tokio_tungstenite::accept_hdr_async(stream, check).await;
                if let Ok(socket) = accepted {
                    let stream = socket.into_inner();
                    hub.serve(Carrier::new(stream, Way::WebSocketServer).await)
                        .await;
                }
            });
        }
    });
    (
        format!("ws://{address}/v1/link?session={SESSION}&role=runner"),
        seen,
    )
}

#[tokio::test]
async fn a_runner_that_dials_shows_its_token_in_a_header_alone() {
    let mut world = World::new();
    let mut tasks = JoinSet::new();
    let (url, upgrades) = listening(world.hub.clone(), &mut tasks).await;
    let runner = world.start_with(Some(Box::new(Address {
        url,
        token: "good".to_owned(),
    })));
    runner.say_title("over a WebSocket").await;
    soon(runner.handle.drain()).await.unwrap();
    assert_eq!(titles(&world.hub), ["over a WebSocket"]);
    let upgrades = upgrades.lock().unwrap().clone();
    assert_eq!(
        upgrades,
        [(
            format!("/v1/link?session={SESSION}&role=runner"),
            "Bearer good".to_owned()
        )]
    );
}

#[tokio::test]
async fn a_runner_that_is_refused_goes_on_trying() {
    let mut world = World::new();
    let mut tasks = JoinSet::new();
    let (url, upgrades) = listening(world.hub.clone(), &mut tasks).await;
    let runner = world.start_with(Some(Box::new(Address {
        url,
        token: "bad".to_owned(),
    })));
    while upgrades.lock().unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!runner.handle.state().is_connected);
    assert!(!runner.is_over());
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_dials_is_the_same_hub_and_a_newer_connection_replaces_the_older() {
    let mut world = World::new();
    let runner = world.start_with(None);
    runner.say_title("kept until somebody comes").await;
    let older = Hub::new(SESSION, 1);
    older.behave(Manners {
        withholds_acks: true,
        ..Manners::default()
    });
    let mut dials = JoinSet::new();
    for (times, hub) in [(1, older.clone()), (2, world.hub.clone())] {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let carrier = Carrier::new(theirs, Way::WebSocketClient).await;
        dials.spawn(async move { hub.serve(carrier).await });
        runner.handle.adopt(ours, Vec::new()).await.unwrap();
        soon(runner.connected(times)).await;
        soon(older.wait_until(|ledger| ledger.frames.len() == 1)).await;
    }
    let ended = soon(dials.join_next()).await.unwrap().unwrap();
    assert_eq!(ended, Ended::Said(Close::normal(Close::REPLACED)));
    runner.say_title("to the newer one").await;
    soon(runner.handle.drain()).await.unwrap();
    let expected = ["kept until somebody comes", "to the newer one"];
    assert_eq!(titles(&world.hub), expected);
    assert!(!runner.is_over());
}

#[tokio::test(start_paused = true)]
async fn a_runner_of_another_session_is_refused_with_the_reason_and_waits() {
    let mut world = World::new();
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let runner = world.start_with(None);
    let other = Hub::new("ses_other", 1);
    let serving = async {
        other
            .serve(Carrier::new(theirs, Way::WebSocketClient).await)
            .await
    };
    let adopting = runner.handle.adopt(ours, Vec::new());
    let (ended, adopted) = soon(async { tokio::join!(serving, adopting) }).await;
    adopted.unwrap();
    assert_eq!(ended, Ended::Refused(Close::OTHER_SESSION));
    assert!(!runner.is_over());
    assert!(!runner.handle.state().is_connected);
}

#[tokio::test(start_paused = true)]
async fn a_runner_of_an_older_generation_is_refused() {
    let mut world = World::new();
    world.hub = Hub::new(SESSION, 2);
    let runner = world.start_with(None);
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let hub = world.hub.clone();
    let serving = async {
        hub.serve(Carrier::new(theirs, Way::WebSocketClient).await)
            .await
    };
    let adopting = runner.handle.adopt(ours, Vec::new());
    let (ended, _) = soon(async { tokio::join!(serving, adopting) }).await;
    assert_eq!(ended, Ended::Refused(Close::OLDER_GENERATION));
}

/// PID 1, as far as the link door is concerned: one end of its conversation with the workplace, and
/// a thread that opens the door.
mod at_the_door {
    use std::io::{IoSlice, IoSliceMut};
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::path::Path;
    use std::sync::Arc;

    use camino_tempfile::Utf8TempDir;
    use rustix::net::{
        AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    };
    use testkit::hub::{Carrier, Hub, Way};
    use tokio::net::UnixListener;
    use tokio::task::JoinSet;
    use wire::workplace::{Link, Order, Reply, Request};
    use workplace::hands::Hands;
    use workplace::link::from_order;

    use super::{SESSION, soon, titles};

    fn send(to: &OwnedFd, message: &[u8], descriptor: Option<&OwnedFd>) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<_> = descriptor.iter().map(|fd| fd.as_fd()).collect();
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        sendmsg(
            to,
            &[IoSlice::new(message)],
            &mut control,
            SendFlags::NOSIGNAL,
        )
        .unwrap();
    }

    /// Until the workplace is gone.
    fn open_doors(conversation: &OwnedFd, door: &Path) {
        loop {
            let mut bytes = vec![0; 4096];
            let mut control = RecvAncillaryBuffer::new(&mut []);
            let mut pieces = [IoSliceMut::new(&mut bytes)];
            let received = recvmsg(conversation, &mut pieces, &mut control, RecvFlags::empty());
            let length = received.map_or(0, |received| received.bytes);
            if length == 0 {
                return;
            }
            let Request::Knock { door: name } = serde_json::from_slice(&bytes[..length]).unwrap()
            else {
                panic!("it was to knock");
            };
            assert_eq!(name, "link");
            let stream = std::os::unix::net::UnixStream::connect(door).unwrap();
            let reply = serde_json::to_vec(&Reply::Door).unwrap();
            send(conversation, &reply, Some(&stream.into()));
        }
    }

    #[tokio::test]
    async fn a_workplace_finds_its_hub_through_pid_1() {
        let directory = Utf8TempDir::new().unwrap();
        let door = directory.path().join("link").into_std_path_buf();
        let listener = UnixListener::bind(&door).unwrap();
        let (pid_1, ours) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let order = Order {
            sandbox: "sbx_1".to_owned(),
            generation: 1,
            boot: "b".to_owned(),
            session: Some(SESSION.to_owned()),
            link: Some(Link::Door),
            secret: None,
            journal_key: Some("a key".to_owned()),
        };
        send(&pid_1, &serde_json::to_vec(&order).unwrap(), None);
        let opening = std::thread::spawn(move || open_doors(&pid_1, &door));

        let hub = Hub::new(SESSION, 1);
        let mut tasks = JoinSet::new();
        let host = hub.clone();
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                host.serve(Carrier::new(stream, Way::Lines).await).await;
            }
        });
        let (hands, order) = Hands::take(ours).unwrap();
        let hands = Arc::new(hands);
        let state = directory.path().join("state");
        let (link, handle, _hears) = from_order(&order, &hands, Path::new(state.as_str())).unwrap();
        tasks.spawn(link.run());
        handle.accept("p1", "web:default").await.unwrap();
        handle
            .say(super::super::world::title("through the door"))
            .await
            .unwrap();
        soon(handle.drain()).await.unwrap();
        assert_eq!(titles(&hub), ["through the door"]);
        let hello = hub.hellos().remove(0);
        assert!(hello.boot.starts_with("b."), "{}", hello.boot);
        assert!(state.join("journal").is_dir());
        handle.shut_down().await;
        drop(hands);
        tasks.shutdown().await;
        opening.join().unwrap();
    }
}
