//! What somebody at a terminal is told while a session takes its time.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::json;

use crate::Nacre;
use crate::exec::Terminal;
use crate::world::Running;

/// Longer than it takes until anything is shown.
const SLOW: Duration = Duration::from_secs(3);

/// A server whose only session moves for ever, and where everything that is asked of it takes long
/// and comes to nothing. Its address.
fn slow_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answer(stream.unwrap()));
        }
    });
    format!("http://{address}")
}

fn answer(mut stream: TcpStream) {
    let mut asked = [0; 8192];
    let length = stream.read(&mut asked).unwrap_or(0);
    let asked = String::from_utf8_lossy(&asked[..length]);
    let (status, body) = match asked.split(' ').collect::<Vec<_>>()[..] {
        ["GET", "/v1/sessions/ses_1", ..] => ("200 OK", session()),
        [method, ..] => {
            if method == "POST" {
                std::thread::sleep(SLOW);
            }
            let problem = json!({"type": "about:blank", "title": "No", "status": 404,
                "detail": "nothing came of it", "code": "not-found"});
            ("404 Not Found", problem)
        }
        [] => return,
    };
    let body = body.to_string();
    let length = body.len();
    // Whoever asked may be gone.
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
}

fn session() -> serde_json::Value {
    let at = "2026-01-01T00:00:00Z";
    json!({"id": "ses_1", "org_id": "org_1", "title": "pearls", "status": "migrating",
        "client_status": "migrating", "type": "coding", "channel": "cli", "provider": "local",
        "agent": "opencode", "generation": 2, "created_at": at, "last_active_at": at,
        "last_seq": 9, "phases": [
            {"name": "sandbox", "state": "done", "took_ms": 80, "started_at": at},
            {"name": "clone", "state": "done", "took_ms": 2100, "started_at": at},
            {"name": "agent", "state": "started", "started_at": at}]})
}

#[test]
fn what_takes_long_is_told_phase_by_phase() {
    let nacre = Nacre::new()
        .with("NACRE_URL", &slow_server())
        .with("NACRE_TOKEN", "nac_x")
        .with("TERM", "xterm");
    let cases: [(&[&str], &str); 6] = [
        (&["resume", "ses_1"], "resuming"),
        (&["migrate", "ses_1"], "moving"),
        (&["stop", "ses_1"], "stopping"),
        (&["pause", "ses_1"], "pausing"),
        (&["fork", "ses_1"], "forking"),
        (&["exec", "ses_1", "--", "true"], "waking the session first"),
    ];
    let started = cases.map(|(arguments, doing)| {
        let terminal = Terminal::open(24, 120);
        let mut command = nacre.command([&["session"], arguments].concat());
        let command = command.stdout(terminal.end()).stderr(terminal.end());
        (Running(command.spawn().unwrap()), terminal, doing)
    });
    for (_running, mut terminal, doing) in started {
        terminal.shows(&format!("{doing}: sandbox 80 ms, clone 2.1 s, agent …"));
        terminal.shows("nothing came of it");
    }
}
