//! A person at a terminal: tmux types and looks, against a real server, a real sandbox, the real
//! agent and the demo model.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use camino::Utf8Path;
use wire::v1::{NewSession, Status};

use crate::front::Front;
use crate::world::Running;

/// A start of the agent and its answer, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// A terminal of 100 by 30, and what runs in it.
struct Tmux {
    socket: String,
}

impl Tmux {
    fn running(front: &Front, arguments: &[&str]) -> Self {
        static OPENED: AtomicU32 = AtomicU32::new(0);
        let home = front.world.nacre.home.path();
        let opened = OPENED.fetch_add(1, Ordering::Relaxed);
        let tmux = Self {
            socket: format!("nacre-test-{}-{opened}", std::process::id()),
        };
        let nacre = env!("CARGO_BIN_EXE_nacre");
        let line = format!(
            "env NACRE_HOME={home} {nacre} {}; echo \"ended $?\"; exec cat",
            arguments.join(" ")
        );
        tmux.tell(&["new-session", "-d", "-x", "100", "-y", "30", &line]);
        tmux
    }

    fn tell(&self, arguments: &[&str]) -> String {
        let ran = Command::new("tmux")
            .args(["-L", &self.socket, "-f", "/dev/null"])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }

    fn write(&self, text: &str) {
        self.tell(&["send-keys", "-l", text]);
    }

    fn press(&self, key: &str) {
        self.tell(&["send-keys", key]);
    }

    fn shown(&self) -> String {
        self.tell(&["capture-pane", "-p"])
    }

    /// Looks until it is so.
    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let shown = self.shown();
            if is_so(&shown) {
                return shown;
            }
            assert!(begun.elapsed() < PATIENCE, "never: {what}\n{shown}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn until_shown(&self, text: &str) -> String {
        self.until(text, |shown| shown.contains(text))
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux")
            .args(["-L", &self.socket, "kill-server"])
            .stderr(Stdio::null())
            .status();
    }
}

async fn session(front: &Front) -> String {
    let new = NewSession {
        title: Some("pearls".to_owned()),
        ..NewSession::default()
    };
    front.client().create_session(&new).await.unwrap().id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_talks_to_the_agent_through_a_restart_of_the_server() {
    let Some(mut front) = Front::up().await else {
        return;
    };
    let id = session(&front).await;
    let tmux = Tmux::running(&front, &["session", "attach", &id]);
    let at_rest = |shown: &str| shown.contains("Ctrl-C twice: leave");
    tmux.until_shown("ask the agent");
    tmux.write("write pearl.txt with grit and nacre");
    tmux.press("Enter");
    tmux.until("an answer", |shown| shown.contains('▸') && at_rest(shown));
    let first = tmux.shown();
    assert!(
        first.contains("> write pearl.txt with grit and nacre"),
        "{first}"
    );
    assert!(first.starts_with("pearls"), "{first}");

    // The server dies and comes back: nobody is thrown out, and nothing is said twice.
    front.kill();
    tmux.until_shown("offline");
    front.start().await;
    tmux.until("the line again", at_rest);
    assert_eq!(tmux.shown().matches("> write pearl.txt").count(), 1);
    tmux.write("run cat pearl.txt");
    tmux.press("Enter");
    tmux.until("a second answer", |shown| {
        shown.contains("> run cat pearl.txt") && at_rest(shown)
    });

    // A call opens where it stands.
    assert!(!tmux.shown().contains("│"), "{}", tmux.shown());
    tmux.press("BTab");
    tmux.press("Enter");
    tmux.until_shown("│");
    tmux.press("Escape");

    // A narrow window shows the same.
    tmux.tell(&["resize-window", "-x", "80", "-y", "20"]);
    tmux.until("a narrow screen", |shown| {
        shown.lines().any(|line| line == "─".repeat(80))
    });

    // A turn is cancelled, and twice leaves: the terminal is as it was.
    tmux.write("slow");
    tmux.press("Enter");
    tmux.until_shown("Ctrl-C cancels");
    tmux.press("C-c");
    tmux.until_shown("· cancelled");
    tmux.until("rest", at_rest);
    tmux.press("C-c");
    tmux.press("C-c");
    tmux.until_shown("ended 0");
    assert_eq!(
        tmux.tell(&["display-message", "-p", "#{alternate_on}"]),
        "0\n"
    );
    tmux.write("still echoed");
    tmux.until_shown("still echoed");
    let session = front.client().session(&id).await.unwrap();
    assert_eq!(session.status, Status::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_has_a_shell_files_and_ports_of_a_session() {
    let Some(front) = Front::up().await else {
        return;
    };
    let id = session(&front).await;
    shell(&front, &id);
    cancelled_prompt(&front, &id);
    files(&front, &id);
    port(&front, &id);
    listed(&front, &id);
    repository(&front);
}

fn shell(front: &Front, id: &str) {
    let tmux = Tmux::running(front, &["session", "shell", id]);
    tmux.until("a prompt", |shown| shown.contains('$'));
    tmux.write("echo $((6 * 7)); stty size");
    tmux.press("Enter");
    tmux.until("output", |shown| shown.contains("\n42\n30 100"));
    tmux.write("kept=here");
    tmux.press("Enter");
    tmux.press("C-]");
    tmux.until_shown("ended 0");
    drop(tmux);
    // It ran on, and its exit code is passed on.
    let again = Tmux::running(front, &["session", "shell", id]);
    again.until_shown("kept=here");
    again.write("echo was $kept; exit 3");
    again.press("Enter");
    again.until_shown("was here");
    again.until_shown("ended 3");
}

fn cancelled_prompt(front: &Front, id: &str) {
    let tmux = Tmux::running(front, &["session", "prompt", id, "slow"]);
    tmux.until("something said", |shown| shown.trim().lines().count() > 0);
    tmux.press("C-c");
    tmux.until_shown("the turn was cancelled");
    tmux.until_shown("ended 1");
}

fn files(front: &Front, id: &str) {
    let nacre = &front.world.nacre;
    let here = nacre.home.path().join("tree");
    fs_err::create_dir_all(here.join("deep/er")).unwrap();
    fs_err::write(here.join("deep/er/pearl.txt"), "grit").unwrap();
    // More than a request may carry.
    fs_err::write(here.join("large"), vec![7; 20 << 20]).unwrap();
    fs_err::os::unix::fs::symlink("deep/er", here.join("link")).unwrap();
    let cp = |from: &str, to: &str| {
        let ran = nacre.run(["--json", "session", "cp", from, to]);
        assert_eq!(ran.code, Some(0), "{}", ran.transcript());
        ran.json()
    };
    let sent = cp(here.as_str(), &format!("{id}:copied"));
    assert_eq!(
        (&sent["files"], &sent["bytes"]),
        (&2.into(), &20_971_524.into())
    );
    let back = nacre.home.path().join("back");
    let fetched = cp(&format!("{id}:copied"), back.as_str());
    assert_eq!(fetched["files"], 2);
    assert_eq!(read(&back.join("deep/er/pearl.txt")), b"grit");
    assert!(read(&back.join("large")) == read(&here.join("large")));
    assert_eq!(
        fs_err::read_link(back.join("link")).unwrap().to_str(),
        Some("deep/er")
    );
    // One file, into a directory and under another name.
    cp(here.join("large").as_str(), &format!("{id}:copied/deep"));
    cp(
        &format!("{id}:copied/deep/large"),
        back.join("other").as_str(),
    );
    assert!(read(&back.join("other")) == read(&here.join("large")));
    let missing = nacre.run(["session", "cp", &format!("{id}:no/such"), back.as_str()]);
    assert_eq!(missing.code, Some(3), "{}", missing.transcript());
}

fn read(path: &Utf8Path) -> Vec<u8> {
    fs_err::read(path).unwrap()
}

fn port(front: &Front, id: &str) {
    let nacre = &front.world.nacre;
    let server =
        "require('http').createServer((q, s) => s.end('pearl ' + q.url)).listen(3000, '127.0.0.1')";
    let service = "printf '%s' \"$1\" > server.js; nacre services start --name web --command 'node server.js'";
    let started = nacre.run([
        "session", "exec", id, "--", "bash", "-lc", service, "x", server,
    ]);
    assert_eq!(started.code, Some(0), "{}", started.transcript());
    let mut command = nacre.command(["session", "port", id, "3000:0", "--json"]);
    let mut forwarding = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut stdout = std::io::BufReader::new(forwarding.0.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    let address = told["listening"].as_str().unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let begun = Instant::now();
    loop {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream
            .write_all(b"GET /shell HTTP/1.0\r\nHost: x\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        if answer.ends_with("pearl /shell") {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{answer}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn listed(front: &Front, id: &str) {
    let tmux = Tmux::running(front, &["session", "ls", "--watch"]);
    tmux.until("the session", |shown| {
        shown.contains(id) && shown.contains("running")
    });
    let paused = front.world.nacre.run(["session", "pause", id]);
    assert_eq!(paused.code, Some(0), "{}", paused.transcript());
    tmux.until("its pause", |shown| {
        shown.contains(id) && shown.contains("paused")
    });
    tmux.press("C-c");
    tmux.until_shown("ended 0");
}

/// What is committed here is there, with every branch.
fn repository(front: &Front) {
    let nacre = &front.world.nacre;
    let here = nacre.home.path().join("pearls");
    let script = "git init -q -b main . && git config user.name ada && git config user.email ada@localhost && \
        echo grit > pearl.txt && git add . && git commit -qm one && git branch other";
    fs_err::create_dir_all(&here).unwrap();
    let mut made = Command::new("sh");
    let made = made.args(["-c", script]).current_dir(&here).status();
    assert!(made.unwrap().success());
    let new = nacre.run(["session", "new", here.as_str(), "--start"]);
    assert_eq!(new.code, Some(0), "{}", new.transcript());
    let id = new.stdout.trim();
    let look =
        "cd pearls && cat pearl.txt && git branch -a --format='%(refname)' && git status --short";
    let found = nacre.run(["session", "exec", id, "--", "sh", "-c", look]);
    assert_eq!(
        found.stdout,
        "grit\nrefs/heads/main\nrefs/remotes/origin/HEAD\nrefs/remotes/origin/main\nrefs/remotes/origin/other\n",
        "{}",
        found.transcript()
    );
}
