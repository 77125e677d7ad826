//! A real Chromium without a window, driven over a pair of pipes in its own protocol: a request is a
//! JSON object with an id and a NUL behind it, and so is what comes back.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// For an answer, and for something on a page to become so, on a machine that does other things, too.
const PATIENCE: Duration = Duration::from_mins(1);
const BETWEEN: Duration = Duration::from_millis(50);
/// For its processes to end.
const FAREWELL: Duration = Duration::from_secs(10);

/// It reaches this machine and nothing else, and keeps nothing. Without a sandbox of its own, since
/// it runs as root; what it shows is ours.
const ARGUMENTS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1280,800",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost",
    "--remote-debugging-pipe",
];

/// Ends with the test.
pub(super) struct Chromium {
    wire: Arc<Wire>,
    child: Child,
    _tasks: JoinSet<()>,
    profile: camino_tempfile::Utf8TempDir,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Held {
    Nothing = 0,
    Control = 2,
}

/// A tab.
pub(super) struct Page {
    wire: Arc<Wire>,
    session: String,
}

struct Wire {
    to: tokio::sync::Mutex<ChildStdin>,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    /// What pages asked for: the session and the address.
    requests: Mutex<Vec<(String, String)>>,
    /// What their sockets were told: the session and the text.
    told: Mutex<Vec<(String, String)>>,
}

impl Chromium {
    /// `None` where it is not installed; that is said.
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    pub(super) fn start() -> Option<Self> {
        let profile = camino_tempfile::tempdir().unwrap();
        // The pipes are to be descriptors 3 and 4.
        let script = r#"exec chromium "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;
        if !is_installed() {
            eprintln!("skipped: there is no chromium on this machine; `apt install chromium`");
            return None;
        }
        let mut child = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(ARGUMENTS)
            .arg(format!("--user-data-dir={}", profile.path()))
            .arg("about:blank")
            .env("TMPDIR", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let to = tokio::sync::Mutex::new(child.stdin.take().unwrap());
        let from = BufReader::new(child.stdout.take().unwrap());
        let wire = Arc::new(Wire {
            to,
            next: AtomicU64::new(1),
            waiting: Mutex::default(),
            requests: Mutex::default(),
            told: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        let hearing = Arc::clone(&wire);
        tasks.spawn(async move {
            let mut messages = from.split(0);
            while let Ok(Some(message)) = messages.next_segment().await {
                hearing.hear(&serde_json::from_slice(&message).unwrap());
            }
            // Whoever waits is told that nothing comes.
            hearing.waiting.lock().unwrap().clear();
        });
        Some(Self {
            wire,
            child,
            _tasks: tasks,
            profile,
        })
    }

    pub(super) async fn page(&self) -> Page {
        let target = self
            .wire
            .ask(None, "Target.createTarget", json!({"url": "about:blank"}))
            .await;
        let attached = self
            .wire
            .ask(
                None,
                "Target.attachToTarget",
                json!({"targetId": target["targetId"], "flatten": true}),
            )
            .await;
        let page = Page {
            wire: Arc::clone(&self.wire),
            session: attached["sessionId"].as_str().unwrap().to_owned(),
        };
        page.ask("Page.enable", json!({})).await;
        page.ask("Network.enable", json!({})).await;
        page
    }
}

impl Drop for Chromium {
    /// Its processes write into the profile until the last of them is gone.
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        let begun = Instant::now();
        let profile = self.profile.path();
        while matches!(self.child.try_wait(), Ok(None))
            || fs_err::remove_dir_all(profile).is_err() && profile.exists()
        {
            if begun.elapsed() > FAREWELL {
                return;
            }
            std::thread::sleep(BETWEEN);
        }
    }
}

fn is_installed() -> bool {
    let found = std::process::Command::new("sh")
        .args(["-c", "command -v chromium"])
        .stdout(Stdio::null())
        .status();
    found.unwrap().success()
}

impl Wire {
    async fn ask(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id, answer);
        let mut request = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            request["sessionId"] = json!(session);
        }
        let mut bytes = request.to_string().into_bytes();
        bytes.push(0);
        self.to.lock().await.write_all(&bytes).await.unwrap();
        let answered = tokio::time::timeout(PATIENCE, answered).await;
        let answered = answered.unwrap_or_else(|_| panic!("{method}: chromium does not answer"));
        let answered = answered.unwrap_or_else(|_| panic!("{method}: chromium has ended"));
        assert!(answered["error"].is_null(), "{method}: {answered}");
        answered["result"].clone()
    }

    fn hear(&self, message: &Value) {
        if let Some(id) = message["id"].as_u64() {
            if let Some(waiting) = self.waiting.lock().unwrap().remove(&id) {
                let _ = waiting.send(message.clone());
            }
            return;
        }
        let params = &message["params"];
        let (list, text) = match message["method"].as_str() {
            Some("Network.requestWillBeSent") => (&self.requests, &params["request"]["url"]),
            Some("Network.webSocketCreated") => (&self.requests, &params["url"]),
            Some("Network.webSocketFrameReceived") => {
                (&self.told, &params["response"]["payloadData"])
            }
            _ => return,
        };
        if let (Some(session), Some(text)) = (message["sessionId"].as_str(), text.as_str()) {
            let entry = (session.to_owned(), text.to_owned());
            list.lock().unwrap().push(entry);
        }
    }
}

impl Page {
    async fn ask(&self, method: &str, params: Value) -> Value {
        self.wire.ask(Some(&self.session), method, params).await
    }

    /// The status of the page that the address led to in the end.
    pub(super) async fn open(&self, address: &str) -> u64 {
        self.ask("Page.navigate", json!({"url": address})).await;
        self.until(
            address,
            "location.href !== 'about:blank' && document.readyState === 'complete'",
        )
        .await;
        let status = "performance.getEntriesByType('navigation')[0].responseStatus";
        self.eval(status).await.as_u64().unwrap_or(0)
    }

    /// What an expression, or the promise that it is, comes to.
    pub(super) async fn eval(&self, expression: &str) -> Value {
        let done = self.evaluated(expression).await;
        let failed = &done["exceptionDetails"];
        assert!(failed.is_null(), "{expression}: {failed}");
        done["result"]["value"].clone()
    }

    async fn evaluated(&self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        self.ask("Runtime.evaluate", asked).await
    }

    /// Waits until an expression is true. A page that is being replaced is looked at again.
    pub(super) async fn until(&self, what: &str, expression: &str) {
        let begun = Instant::now();
        loop {
            let done = self.evaluated(expression).await;
            if done["result"]["value"] == json!(true) {
                return;
            }
            if begun.elapsed() > PATIENCE {
                let text = self.eval("document.body.innerText.slice(0, 2000)").await;
                panic!("{what}: not so: {expression}: {done}; the page says {text}");
            }
            tokio::time::sleep(BETWEEN).await;
        }
    }

    /// Waits until a socket of this page was told something, and forgets it.
    pub(super) async fn until_told(&self, text: &str) {
        let begun = Instant::now();
        let is_it =
            |(session, told): &(String, String)| *session == self.session && told.contains(text);
        loop {
            {
                let mut told = self.wire.told.lock().unwrap();
                if told.iter().any(is_it) {
                    told.retain(|entry| !is_it(entry));
                    return;
                }
                assert!(begun.elapsed() < PATIENCE, "no {text} in {told:?}");
            }
            tokio::time::sleep(BETWEEN).await;
        }
    }

    pub(super) async fn type_text(&self, text: &str) {
        self.ask("Input.insertText", json!({"text": text})).await;
    }

    /// A key by its name and number, with what is held.
    pub(super) async fn press(&self, key: &str, code: u32, held: Held) {
        let is_enter = key == "Enter";
        let modifiers = held as u32;
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({
                "type": kind,
                "key": key,
                "modifiers": modifiers,
                "windowsVirtualKeyCode": code,
                "nativeVirtualKeyCode": code,
            });
            if is_enter && kind == "keyDown" {
                event["text"] = json!("\r");
            }
            self.ask("Input.dispatchKeyEvent", event).await;
        }
    }

    pub(super) async fn press_enter(&self) {
        self.press("Enter", 13, Held::Nothing).await;
    }

    /// In the middle of the first element that a selector finds.
    pub(super) async fn click(&self, selector: &str) {
        self.click_with("left", selector).await;
    }

    pub(super) async fn click_with(&self, button: &str, selector: &str) {
        let middle = format!(
            "(() => {{ const r = document.querySelector({selector:?}).getBoundingClientRect(); \
             return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        );
        let middle = self.eval(&middle).await;
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({
                "type": kind, "x": middle[0], "y": middle[1], "button": button, "clickCount": 1,
            });
            self.ask("Input.dispatchMouseEvent", event).await;
        }
    }

    /// What the page asked for, as far as it left the browser.
    pub(super) fn requests(&self) -> Vec<String> {
        let all = self.wire.requests.lock().unwrap();
        all.iter()
            .filter(|(session, url)| *session == self.session && !url.starts_with("data:"))
            .map(|(_, url)| url.clone())
            .collect()
    }
}
