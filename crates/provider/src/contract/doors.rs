//! Connections into a sandbox (dial) and out of it (serve).

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use super::output::next_line;
use super::wait::{fast, soon};
use super::world::{Guest, World, refused};
use crate::probe::pattern;
use crate::{Capability, Exec, ExecInput, ProviderError, Stream};

const PORT: u16 = 8021;
/// More than one buffer on the way holds.
const MUCH: usize = 1 << 20;

pub async fn a_port_in_the_sandbox_answers_over_dial(world: &World<'_>) {
    if !world.can(Capability::Dial).await {
        return;
    }
    let guest = world.sandbox().await;
    let _listening = listen(&guest).await;
    let stream = soon("dial", guest.provider().await.dial(guest.id, PORT)).await;
    let (mut reader, mut writer) = tokio::io::split(stream.expect("the port is open"));
    let wanted = pattern(0, MUCH);
    let send = async {
        writer.write_all(&wanted).await.expect("it takes bytes");
        writer.flush().await.expect("it takes bytes");
    };
    let mut back = vec![0; MUCH];
    let receive = async {
        reader
            .read_exact(&mut back)
            .await
            .expect("it gives them back")
    };
    soon("an echo", async { tokio::join!(send, receive) }).await;
    assert!(back == wanted, "the bytes differ");
}

pub async fn two_dialled_connections_are_apart(world: &World<'_>) {
    if !world.can(Capability::Dial).await {
        return;
    }
    let guest = world.sandbox().await;
    let _listening = listen(&guest).await;
    let provider = guest.provider().await;
    let mut one = provider
        .dial(guest.id, PORT)
        .await
        .expect("the port is open");
    let mut other = provider
        .dial(guest.id, PORT)
        .await
        .expect("the port is open");
    one.write_all(b"one").await.expect("it takes bytes");
    other.write_all(b"two").await.expect("it takes bytes");
    for (stream, wanted) in [(&mut other, b"two"), (&mut one, b"one")] {
        let mut back = [0; 3];
        soon("an echo", stream.read_exact(&mut back))
            .await
            .expect("it gives them back");
        assert_eq!(&back, wanted);
    }
}

pub async fn the_end_of_a_dialled_connection_is_seen(world: &World<'_>) {
    if !world.can(Capability::Dial).await {
        return;
    }
    let guest = world.sandbox().await;
    let listening = listen(&guest).await;
    let mut stream = guest
        .provider()
        .await
        .dial(guest.id, PORT)
        .await
        .expect("the port is open");
    drop(listening);
    let mut rest = Vec::new();
    // Closed or reset: both are an end.
    let _ = soon("the end", stream.read_to_end(&mut rest)).await;
    assert!(rest.is_empty());
}

pub async fn a_closed_port_is_refused_at_once(world: &World<'_>) {
    if !world.can(Capability::Dial).await {
        return;
    }
    let guest = world.sandbox().await;
    let answer = fast("dial", guest.provider().await.dial(guest.id, 8022))
        .await
        .map(drop);
    assert!(
        matches!(
            answer,
            Err(ProviderError::Refused { .. } | ProviderError::Unavailable { .. })
        ),
        "{answer:?}"
    );
}

pub async fn a_paused_sandbox_refuses_dial_and_serve_at_once(world: &World<'_>) {
    if !world.can(Capability::Pause).await {
        return;
    }
    let guest = world.sandbox().await;
    let provider = guest.provider().await;
    let can_dial = world.can(Capability::Dial).await;
    let _listening = if can_dial {
        Some(listen(&guest).await)
    } else {
        None
    };
    guest.pause().await;
    if can_dial {
        refused("dial", fast("dial", provider.dial(guest.id, PORT)).await);
    }
    if world.can(Capability::Serve).await {
        refused(
            "serve",
            fast("serve", provider.serve(guest.id, "bell")).await,
        );
    }
}

pub async fn a_door_carries_words_both_ways(world: &World<'_>) {
    if !world.can(Capability::Serve).await {
        return;
    }
    let guest = world.sandbox().await;
    let mut door = guest
        .provider()
        .await
        .serve(guest.id, "bell")
        .await
        .expect("the door opens");
    let knock = knock(&guest, "bell", "ping\n").await;
    let mut stream = soon("a knock", door.accept())
        .await
        .expect("someone comes in");
    assert_eq!(line(&mut stream).await, "ping\n");
    stream.write_all(b"pong\n").await.expect("it takes bytes");
    let done = soon("the answer", knock.finish()).await.expect("an exit");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "pong\n");
}

pub async fn two_at_a_door_are_told_apart(world: &World<'_>) {
    if !world.can(Capability::Serve).await {
        return;
    }
    let guest = world.sandbox().await;
    let mut door = guest
        .provider()
        .await
        .serve(guest.id, "bell")
        .await
        .expect("the door opens");
    let knocks = [
        knock(&guest, "bell", "one\n").await,
        knock(&guest, "bell", "two\n").await,
    ];
    let mut first = soon("a knock", door.accept())
        .await
        .expect("someone comes in");
    let mut second = soon("a knock", door.accept())
        .await
        .expect("someone comes in");
    for stream in [&mut second, &mut first] {
        let heard = line(stream).await;
        stream
            .write_all(format!("not {heard}").as_bytes())
            .await
            .expect("it takes bytes");
    }
    for (knock, said) in knocks.into_iter().zip(["one", "two"]) {
        let done = soon("the answer", knock.finish()).await.expect("an exit");
        assert_eq!(
            String::from_utf8_lossy(&done.stdout),
            format!("not {said}\n")
        );
    }
}

pub async fn two_doors_are_apart(world: &World<'_>) {
    if !world.can(Capability::Serve).await {
        return;
    }
    let guest = world.sandbox().await;
    let provider = guest.provider().await;
    let mut bell = provider
        .serve(guest.id, "bell")
        .await
        .expect("the door opens");
    let mut gate = provider
        .serve(guest.id, "gate.2_x")
        .await
        .expect("the door opens");
    let knocks = [
        knock(&guest, "gate.2_x", "gate\n").await,
        knock(&guest, "bell", "bell\n").await,
    ];
    for (door, wanted) in [(&mut bell, "bell\n"), (&mut gate, "gate\n")] {
        let mut stream = soon("a knock", door.accept())
            .await
            .expect("someone comes in");
        assert_eq!(line(&mut stream).await, wanted);
        stream.write_all(b"yes\n").await.expect("it takes bytes");
    }
    for knock in knocks {
        assert_eq!(
            soon("the answer", knock.finish())
                .await
                .expect("an exit")
                .stdout,
            b"yes\n"
        );
    }
}

pub async fn a_bad_name_for_a_door_is_refused(world: &World<'_>) {
    if !world.can(Capability::Serve).await {
        return;
    }
    let guest = world.sandbox().await;
    let long = "x".repeat(300);
    for name in ["", ".", "..", "a/b", "/bell", "../bell", "a\0b", &long] {
        refused(name, guest.provider().await.serve(guest.id, name).await);
    }
}

async fn listen(guest: &Guest<'_>) -> Exec {
    let mut exec = guest
        .exec(guest.command(["listen", &PORT.to_string()]))
        .await;
    assert_eq!(next_line(&mut exec).await, "listening\n");
    exec
}

async fn knock(guest: &Guest<'_>, door: &str, word: &'static str) -> Exec {
    let exec = guest.exec(guest.command(["door", door])).await;
    exec.input
        .send(ExecInput::Data(Bytes::from_static(word.as_bytes())))
        .await
        .expect("it reads");
    exec
}

async fn line(stream: &mut Box<dyn Stream>) -> String {
    let mut text = String::new();
    soon("a line", BufReader::new(stream).read_line(&mut text))
        .await
        .expect("a line comes");
    text
}
