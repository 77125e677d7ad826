use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A model's API that refuses every key and repeats it, and a git host with an empty repository for
/// those who have its token.
pub(super) struct Upstream {
    pub(super) url: String,
    seen: Arc<Seen>,
}

struct Seen {
    key: String,
    token: String,
    has_key: AtomicBool,
    has_token: AtomicBool,
}

impl Upstream {
    pub(super) fn start(key: &str, token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Seen {
            key: key.to_owned(),
            token: token.to_owned(),
            has_key: AtomicBool::new(false),
            has_token: AtomicBool::new(false),
        });
        let all = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&all);
                std::thread::spawn(move || seen.answer(stream));
            }
        });
        Self { url, seen }
    }

    pub(super) fn has_seen_the_key(&self) -> bool {
        self.seen.has_key.load(Ordering::Relaxed)
    }

    pub(super) fn has_seen_the_token(&self) -> bool {
        self.seen.has_token.load(Ordering::Relaxed)
    }
}

impl Seen {
    fn answer(&self, mut stream: TcpStream) {
        let Some(head) = read(&mut stream) else {
            return;
        };
        let answer = if head.starts_with("POST /v1/") || head.starts_with("GET /v1/") {
            if head.contains(&self.key) {
                self.has_key.store(true, Ordering::Relaxed);
            }
            let body = format!(
                "{{\"error\":{{\"message\":\"the key {} is not good\",\"type\":\"invalid_request_error\"}}}}",
                self.key
            );
            respond("401 Unauthorized", "application/json", body.as_bytes())
        } else if self.is_let_in(&head) {
            self.has_token.store(true, Ordering::Relaxed);
            let kind = "application/x-git-upload-pack-advertisement";
            respond("200 OK", kind, &empty_repository())
        } else {
            let refused = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            refused.as_bytes().to_vec()
        };
        let _ = stream.write_all(&answer);
    }

    fn is_let_in(&self, head: &str) -> bool {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let mut values = lines
            .filter(|(name, _)| name.eq_ignore_ascii_case("authorization"))
            .map(|(_, value)| value);
        values.any(|value| match value.strip_prefix("Basic ") {
            Some(encoded) => {
                let decoded = STANDARD.decode(encoded.trim()).unwrap_or_default();
                String::from_utf8_lossy(&decoded).contains(&self.token)
            }
            None => value.contains(&self.token),
        })
    }
}

/// A head, with the body that follows it read and left.
fn read(stream: &mut TcpStream) -> Option<String> {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    let end = loop {
        if let Some(end) = all.windows(4).position(|some| some == b"\r\n\r\n") {
            break end + 4;
        }
        let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
        all.extend_from_slice(&piece[..read]);
    };
    let head = String::from_utf8_lossy(&all[..end]).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let is_it = name.eq_ignore_ascii_case("content-length");
        is_it.then(|| value.trim().parse::<usize>().ok())?
    });
    let mut left = length.unwrap_or(0).saturating_sub(all.len() - end);
    while left > 0 {
        let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
        left = left.saturating_sub(read);
    }
    Some(head)
}

fn respond(status: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// What git is told of a repository without a commit.
fn empty_repository() -> Vec<u8> {
    let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
    let service = line("# service=git-upload-pack\n");
    let nothing = line(&format!(
        "{} capabilities^{{}}\0agent=canary\n",
        "0".repeat(40)
    ));
    format!("{service}0000{nothing}0000").into_bytes()
}
