//! The double of the hub, as a program.

use std::io::{BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use camino_tempfile::Utf8TempDir;
use serde_json::{Value, json};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn connect(path: &str) -> UnixStream {
    let limit = Instant::now() + Duration::from_secs(20);
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < limit, "nobody listens: {error}"),
        }
        std::thread::yield_now();
    }
}

fn line(from: &mut impl std::io::BufRead) -> Value {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn it_greets_shows_what_it_hears_says_what_it_is_told_and_remembers_what_it_acknowledged() {
    let directory = Utf8TempDir::new().unwrap();
    let socket = directory.path().join("link").to_string();
    let ledger = directory.path().join("ledger").to_string();
    for (round, seen) in [(0, json!([])), (1, json!([{"boot": "b1", "seq": 1}]))] {
        let _ = fs_err::remove_file(&socket);
        let mut hub = Command::new(env!("CARGO_BIN_EXE_nacre-hub"))
            .args(["--session", "ses_1", "--term", "4", "--ledger", &ledger])
            .arg(format!("unix:{socket}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map(Running)
            .unwrap();
        let mut runner = connect(&socket);
        let mut from_hub = BufReader::new(runner.try_clone().unwrap());
        let mut shown = BufReader::new(hub.0.stdout.take().unwrap());
        let hello = json!({
            "type": "hello", "session": "ses_1", "generation": 1, "boot": "b1", "protocol": 1,
            "term": 0, "offers": [{"boot": "b1", "first": 1, "last": 1}],
        });
        writeln!(runner, "{hello}").unwrap();
        let answer = line(&mut from_hub);
        assert_eq!(
            (&answer["type"], &answer["term"]),
            (&json!("hello"), &json!(4))
        );
        assert_eq!(answer["seen"], if round == 0 { json!([]) } else { seen });
        assert_eq!(line(&mut from_hub)["type"], "init");
        assert_eq!(line(&mut from_hub)["type"], "agent_config");
        assert_eq!(line(&mut shown), hello);

        let title = json!({"type": "title", "seq": 1, "title": "a pearl"});
        writeln!(runner, "{title}").unwrap();
        assert_eq!(
            line(&mut from_hub),
            json!({"type": "ack", "term": 4, "seq": 1})
        );
        assert_eq!(line(&mut shown), title);

        let stdin = hub.0.stdin.as_mut().unwrap();
        writeln!(stdin, r#"{{"type": "cancel", "channel": "web:default"}}"#).unwrap();
        stdin.flush().unwrap();
        let cancel = json!({"type": "cancel", "term": 4, "channel": "web:default"});
        assert_eq!(line(&mut from_hub), cancel);
    }
}
