use std::rc::Rc;
use std::time::{Duration, Instant};

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use wire::guest::WindowSize;
use workplace::terminal::{MAX_TERMINALS, Terminals, serve_plain, serve_ttyd};

use crate::world::{World, eventually, in_world, is_alive};

struct Client {
    socket: WebSocketStream<DuplexStream>,
    seen: Vec<u8>,
}

impl Client {
    async fn plain(terminals: &Terminals, name: &str) -> Self {
        Self::with_room(terminals, name, 1 << 20).await
    }

    async fn with_room(terminals: &Terminals, name: &str, room: usize) -> Self {
        let (ours, theirs) = tokio::io::duplex(room);
        let (terminals, name) = (terminals.clone(), name.to_owned());
        tokio::task::spawn_local(async move {
            let size = WindowSize {
                rows: 24,
                columns: 80,
            };
            serve_plain(&terminals, &name, Some(size), theirs).await;
        });
        let socket = WebSocketStream::from_raw_socket(ours, Role::Client, None).await;
        Self {
            socket,
            seen: Vec::new(),
        }
    }

    async fn ttyd(terminals: &Terminals, name: &str) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (terminals, name) = (terminals.clone(), name.to_owned());
        tokio::task::spawn_local(async move { serve_ttyd(&terminals, &name, theirs).await });
        let socket = WebSocketStream::from_raw_socket(ours, Role::Client, None).await;
        Self {
            socket,
            seen: Vec::new(),
        }
    }

    async fn keys(&mut self, keys: &str) {
        let message = Message::binary(keys.as_bytes().to_vec());
        self.socket.send(message).await.unwrap();
    }

    async fn say(&mut self, order: Value) {
        self.socket
            .send(Message::text(order.to_string()))
            .await
            .unwrap();
    }

    async fn binary(&mut self) -> Vec<u8> {
        loop {
            match self.socket.next().await.expect("not closed").unwrap() {
                Message::Binary(bytes) => return bytes.to_vec(),
                Message::Close(frame) => panic!("closed: {frame:?}"),
                _ => {}
            }
        }
    }

    /// Reads on until the text came.
    async fn until(&mut self, text: &str) -> String {
        while !String::from_utf8_lossy(&self.seen).contains(text) {
            let bytes = self.binary().await;
            self.seen.extend(bytes);
        }
        let seen = String::from_utf8_lossy(&self.seen).into_owned();
        let end = seen.find(text).unwrap() + text.len();
        self.seen = seen.as_bytes()[end..].to_vec();
        seen
    }
}

fn terminals(world: &World) -> Terminals {
    Terminals::new(
        Rc::clone(&world.hands),
        world.place.clone(),
        std::sync::Arc::clone(&world.clock),
    )
}

#[test]
fn a_typed_command_runs_as_the_user_in_the_workspace() {
    in_world(|world: Rc<World>| async move {
        let terminals = terminals(&world);
        terminals.probe().await.unwrap();
        let mut client = Client::plain(&terminals, "main").await;
        client.keys("id -u; pwd; echo en''d\n").await;
        let seen = client.until("end").await;
        assert!(seen.contains("4242\r\n"), "{seen}");
        assert!(seen.contains(world.place.workspace.as_str()), "{seen}");
        assert!(terminals.typed_at().is_some());
    });
}

#[test]
fn a_terminal_that_nobody_looks_at_goes_on_and_is_shown_again() {
    in_world(|world: Rc<World>| async move {
        let terminals = terminals(&world);
        let mut client = Client::plain(&terminals, "main").await;
        client.keys("echo fi''rst; sleep 0.3; echo la''ter\n").await;
        client.until("first").await;
        drop(client);
        eventually("nobody looks", || terminals.list()[0].viewers == 0).await;
        let mut client = Client::plain(&terminals, "main").await;
        let seen = client.until("later").await;
        assert!(seen.starts_with("\x1bc"), "a fresh screen");
        assert!(seen.contains("first"), "what was there before: {seen:?}");
        assert_eq!(terminals.list().len(), 1);
    });
}

#[test]
fn what_a_program_asked_of_the_terminal_is_not_asked_again() {
    in_world(|world: Rc<World>| async move {
        let terminals = terminals(&world);
        let mut client = Client::plain(&terminals, "main").await;
        client
            .keys("printf 'q:\\033[6n:\\033[c:q'; echo en''d\n")
            .await;
        let seen = client.until("end").await;
        assert!(seen.contains("q:\x1b[6n:\x1b[c:q"), "live, it is: {seen:?}");
        let mut again = Client::plain(&terminals, "main").await;
        let seen = again.until("end").await;
        assert!(seen.contains("q:::q"), "{seen:?}");
        again.keys("printf '\\033[6n'; echo li''ve\n").await;
        assert!(again.until("live").await.contains("\x1b[6nlive"));
    });
}

#[test]
fn two_viewers_see_the_same_and_either_can_type() {
    in_world(|world: Rc<World>| async move {
        let terminals = terminals(&world);
        let mut one = Client::plain(&terminals, "main").await;
        one.until("\x1bc").await;
        let mut two = Client::ttyd(&terminals, "main").await;
        two.say(json!({"AuthToken": "", "columns": 100, "rows": 30}))
            .await;
        two.keys("0echo from t''wo\n").await;
        one.until("from two").await;
        one.keys("stty size; echo from o''ne\n").await;
        let seen = two.until("from one").await;
        assert!(
            seen.contains("30 100"),
            "the last one to say sets the size: {seen}"
        );
        assert!(seen.starts_with("1main ("), "the title first: {seen:?}");
        assert_eq!(terminals.list().len(), 1);
    });
}

#[test]
fn json_that_is_typed_is_typed_and_not_obeyed() {
    in_world(|world: Rc<World>| async move {
        let terminals = terminals(&world);
        let mut client = Client::plain(&terminals, "main").await;
        client.keys("echo re''ady; cat\n").await;
        client.until("ready").await;
        client
            .keys("{\"type\":\"resize\",\"columns\":33,\"rows\":44}\n")
            .await;
        client.until("\"rows\":44}\r\n{\"type\"").await;
        assert_eq!(terminals.list()[0].columns, 80);
        client
            .say(json!({"type": "resize", "cols": 33, "rows": 44}))
            .await;
        eventually("resized", || terminals.list()[0].columns == 33).await;
        client.keys("\x04").await;
        client.keys("stty size\n").await;
        client.until("44 33").await;
    });
}

#[test]
fn output_that_is_no_text_gets_through() {
    in_world(|world: Rc<World>| async move {
        let terminals = terminals(&world);
        let mut client = Client::plain(&terminals, "main").await;
        client
            .keys("stty -opost; printf 'a\\377\\376\\000b'; echo en''d\n")
            .await;
        let mut seen = Vec::new();
        while !seen.windows(3).any(|window| window == b"end") {
            seen.extend(client.binary().await);
        }
        assert!(seen.windows(5).any(|window| window == b"a\xff\xfe\0b"));
    });
}

#[test]
fn a_viewer_that_does_not_read_is_shown_the_screen_anew_and_holds_nobody_up() {
    in_world(|world: Rc<World>| async move {
        let terminals = terminals(&world);
        let mut slow = Client::with_room(&terminals, "main", 4 << 10).await;
        slow.until("\x1bc").await;
        let mut quick = Client::plain(&terminals, "main").await;
        quick.keys("seq 1 400000; echo d''one\n").await;
        let since = Instant::now();
        quick.until("done").await;
        assert!(since.elapsed() < Duration::from_secs(20));
        // What waits for it is a few frames, not three megabytes.
        let mut read = 0;
        let seen = loop {
            let bytes = slow.binary().await;
            read += bytes.len();
            slow.seen.extend(bytes);
            if String::from_utf8_lossy(&slow.seen).contains("done") {
                break String::from_utf8_lossy(&slow.seen).into_owned();
            }
        };
        assert!(read < 1 << 20, "{read}");
        assert!(seen.contains("\x1bc"), "a fresh screen");
    });
}

#[test]
fn a_paste_that_nobody_reads_does_not_hold_up_what_is_shown() {
    in_world(|world: Rc<World>| async move {
        let terminals = terminals(&world);
        let mut client = Client::plain(&terminals, "main").await;
        client
            .keys("stty -echo; echo re''ady; sleep 0.5; echo sh''own; exec cat >/dev/null\n")
            .await;
        client.until("ready").await;
        for _ in 0..100 {
            client.keys(&"y\n".repeat(5000)).await;
        }
        client.until("shown").await;
    });
}

#[test]
fn a_shell_that_ends_says_so_and_the_name_is_free_again() {
    in_world(|world: Rc<World>| async move {
        let terminals = terminals(&world);
        let mut client = Client::plain(&terminals, "main").await;
        client.keys("exit 7\n").await;
        let exit = loop {
            if let Message::Text(text) = client.socket.next().await.unwrap().unwrap() {
                let value: Value = serde_json::from_str(&text).unwrap();
                if value["type"] == "exit" {
                    break value;
                }
            }
        };
        assert_eq!(exit["code"], 7);
        eventually("it is gone", || terminals.list().is_empty()).await;
        let mut client = Client::plain(&terminals, "main").await;
        client.keys("echo ag''ain\n").await;
        client.until("again").await;
    });
}

#[test]
fn closing_a_terminal_ends_what_runs_in_it() {
    in_world(|world: Rc<World>| async move {
        let terminals = terminals(&world);
        let mut client = Client::plain(&terminals, "work").await;
        client
            .keys("setsid sh -c 'trap \"\" HUP TERM; echo pid=$$.; exec sleep 1000' &\n")
            .await;
        let pid: i32 = loop {
            client.until("pid=").await;
            let rest = client.until(".").await;
            if let Ok(pid) = rest.split('.').next().unwrap().parse() {
                break pid;
            }
        };
        assert!(is_alive(pid));
        terminals.close("work").await.unwrap();
        eventually("dead", || !is_alive(pid)).await;
        assert!(terminals.close("work").await.is_err());
    });
}

#[test]
fn names_and_numbers_of_terminals_are_bounded() {
    in_world(|world: Rc<World>| async move {
        let terminals = terminals(&world);
        for bad in ["", "..", "a/b", "a b", &"x".repeat(33)] {
            assert!(terminals.open(bad, None).await.is_err(), "{bad:?}");
        }
        for number in 0..MAX_TERMINALS {
            terminals.open(&format!("t{number}"), None).await.unwrap();
        }
        assert!(terminals.open("more", None).await.is_err());
    });
}

#[test]
fn a_login_shell_that_fails_is_found_by_the_probe() {
    in_world(|mut world: Rc<World>| async move {
        Rc::get_mut(&mut world).unwrap().place.workspace = "/no/such/workspace".into();
        assert!(terminals(&world).probe().await.is_err());
    });
}

#[test]
fn bench_a_keystroke_is_echoed_within_two_milliseconds() {
    in_world(|world: Rc<World>| async move {
        let terminals = terminals(&world);
        let mut client = Client::plain(&terminals, "main").await;
        client.keys("stty -echo; exec cat\n").await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        client.keys("ready\n").await;
        client.until("ready").await;
        let mut taken = Vec::new();
        for number in 0..200 {
            let since = Instant::now();
            client.keys(&format!("<{number}>\n")).await;
            client.until(&format!("<{number}>")).await;
            taken.push(since.elapsed());
        }
        taken.sort_unstable();
        let p50 = taken[taken.len() / 2];
        assert!(p50 < Duration::from_millis(2), "{p50:?}");
    });
}
