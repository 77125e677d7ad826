//! Secrets of every kind are planted, a session is led through its life, and everything that anybody
//! could get hold of is searched for them, in every spelling.

mod needles;
mod upstream;

use std::process::{Command, Stdio};
use std::time::Duration;

use camino::Utf8PathBuf;
use camino_tempfile::Utf8TempDir;
use client::{Bearer, Client};
use serde_json::json;
use wire::v1::{
    ExecRequest, NewRepo, NewSecret, NewSession, NewSnapshot, PromptStatus, SecretScope, Status,
};

use self::needles::Needles;
use self::upstream::Upstream;
use crate::front::{Front, Watcher, ask, run};
use crate::world::{World, eventually};

/// Of those that a sandbox is given.
const GIVEN: [&str; 3] = ["ORG_CANARY", "REPO_CANARY", "SESSION_CANARY"];

/// Prints where the needles are that its arguments have, each written backwards so that it does not
/// find itself.
const SEARCH: &str = r#"
import os, sys
needles = [(n, a[::-1].encode()) for n, a in enumerate(sys.argv[1:])]
def look(path):
    try:
        with open(path, "rb") as file:
            content = file.read(32 << 20)
    except OSError:
        return
    for number, needle in needles:
        if needle in content:
            print(number, path)
for top, below, names in os.walk("/"):
    if top == "/":
        below[:] = [name for name in below if name not in ("proc", "sys", "dev")]
    for name in names:
        path = os.path.join(top, name)
        if os.path.isfile(path) and not os.path.islink(path):
            look(path)
for number in filter(str.isdigit, os.listdir("/proc")):
    for what in ("environ", "cmdline"):
        look(f"/proc/{number}/{what}")
"#;

async fn keep(client: &Client, name: &str, scope: SecretScope, value: String) {
    let new = NewSecret {
        name: name.to_owned(),
        scope,
        value,
    };
    client.put_secret(&new).await.unwrap();
}

/// One session with all of them, and where everything about it lies.
struct Story {
    front: Front,
    client: Client,
    needles: Needles,
    upstream: Upstream,
    session: String,
    home: Utf8PathBuf,
    /// Beside the home, which is searched.
    aside: Utf8TempDir,
    watcher: Watcher,
}

impl Story {
    async fn begin() -> Option<Self> {
        let front = Front::with_base()?;
        let aside = camino_tempfile::tempdir().unwrap();
        fs_err::create_dir(aside.path().join("cores")).unwrap();
        let kinds = ["org", "repo", "session", "model", "git"];
        let needles = Needles::plant(&kinds, aside.path());
        let upstream = Upstream::start(needles.raw("model"), needles.raw("git"));
        let home = front.world.nacre.home.path().to_owned();
        let settings = format!(
            "[git]\nhosts = [\"{0}\"]\n[[models.custom]]\nid = \"canary\"\nurl = \"{0}/v1\"\n\
             needs_key = true\nmodels = [\"m\"]\n",
            upstream.url
        );
        fs_err::write(home.join("nacre.toml"), settings).unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut story = Self {
            // Another once the server runs, which makes the token.
            client: Client::new("http://127.0.0.1:1", Bearer::new("none")).unwrap(),
            front,
            needles,
            upstream,
            session: String::new(),
            home,
            aside,
            watcher: Watcher::new(),
        };
        story.start().await;
        story.plant().await;
        Some(story)
    }

    fn log(&self) -> Utf8PathBuf {
        self.aside.path().join("server.log")
    }

    fn cores(&self) -> Utf8PathBuf {
        self.aside.path().join("cores")
    }

    /// Starts the server so that it says all it ever says, and would leave a core where it dies.
    async fn start(&mut self) {
        let plain = self.front.command();
        let log = fs_err::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log());
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit -c unlimited; exec \"$@\"", "sh"])
            .arg(plain.get_program())
            .args(plain.get_args())
            .env_clear()
            .envs(
                plain
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env("NACRE_LOG", "trace")
            .current_dir(self.cores())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.unwrap().into_parts().0);
        self.front.start_by(command).await;
        self.client = self.front.client();
    }

    async fn plant(&mut self) {
        let client = &self.client;
        let raw = |kind: &str| self.needles.raw(kind).to_owned();
        let host = self.upstream.url.strip_prefix("http://").unwrap();
        // Inside it is called so; the door knows that this host has no TLS.
        let repo = format!("https://{host}/o/pearl");
        let of_repo = SecretScope::Repository(repo.clone());
        let of_model = SecretScope::Model("canary".to_owned());
        let of_git = SecretScope::Git(host.to_owned());
        keep(client, "ORG_CANARY", SecretScope::Organisation, raw("org")).await;
        keep(client, "REPO_CANARY", of_repo, raw("repo")).await;
        keep(client, "key", of_model, raw("model")).await;
        keep(client, "token", of_git, raw("git")).await;
        let new = NewSession {
            repos: vec![NewRepo {
                url: Some(repo),
                ..NewRepo::default()
            }],
            model: Some("canary/m".to_owned()),
            ..NewSession::default()
        };
        let id = client.create_session(&new).await.unwrap().id;
        let of_session = SecretScope::Session(id.clone());
        keep(client, "SESSION_CANARY", of_session, raw("session")).await;
        client.resume(&id).await.unwrap();
        self.session = id;
    }

    /// What the sandbox's root finds of one inside, as `form path`.
    async fn found_inside(&self, kind: &str) -> String {
        let mut argv = ["sudo", "-n", "python3", "-c", SEARCH]
            .map(str::to_owned)
            .to_vec();
        let forms = self.needles.of(kind).iter();
        argv.extend(forms.map(|form| form.chars().rev().collect::<String>()));
        let request = ExecRequest {
            argv,
            timeout_ms: Some(120_000),
            ..ExecRequest::default()
        };
        let ran = self.client.exec(&self.session, &request).await.unwrap();
        assert_eq!(ran.exit_code, 0, "{ran:?}");
        ran.stdout
    }

    /// Those that belong inside are there, in memory, behind a link.
    async fn some_are_inside_and_in_memory(&self) {
        let keys: Vec<_> = GIVEN.iter().map(|key| json!({ "key": key })).collect();
        let spec = json!([{ "path": ".env.local", "keys": keys }]).to_string();
        let apply = "cd ~/workspace && nacre env apply --spec \"$1\"";
        let request = ExecRequest {
            argv: ["bash", "-lc", apply, "x", &spec]
                .map(str::to_owned)
                .to_vec(),
            ..ExecRequest::default()
        };
        let (client, id) = (&self.client, &*self.session);
        let mut applied = client.exec(id, &request).await.unwrap();
        // They are given once the workplace is up, a moment after the session runs.
        for _ in 0..100 {
            if applied.exit_code == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            applied = client.exec(id, &request).await.unwrap();
        }
        assert_eq!(applied.exit_code, 0, "{applied:?}");
        let seen = run(client, id, "cat ~/workspace/.env.local").await;
        for kind in ["org", "repo", "session"] {
            assert!(seen.contains(self.needles.raw(kind)), "{kind} is missing");
            let places = self.found_inside(kind).await;
            assert!(!places.is_empty(), "the search finds nothing that is there");
            for place in places.lines() {
                assert!(place.contains(" /run/nacre/env/"), "{kind}: {place}");
            }
        }
        let link = run(client, id, "readlink ~/workspace/.env.local").await;
        assert!(link.starts_with("/run/nacre/env/"), "{link}");
    }

    /// Those that do not belong inside were used, outside; and what repeats them comes in without.
    async fn the_others_stay_outside(&mut self) {
        ask(&self.client, &self.session, "p1", "say something").await;
        let ended = self.watcher.until(&self.client, &self.session, "p1").await;
        assert_ne!(ended, PromptStatus::Finished, "the model refuses all");
        assert!(self.upstream.has_seen_the_key(), "the key was never used");
        let was_used = self.upstream.has_seen_the_token();
        assert!(was_used, "the token was never used");
        for kind in ["model", "git"] {
            let places = self.found_inside(kind).await;
            assert_eq!(places, "", "{kind} is in the sandbox");
        }
        let told = self.watcher.frames.iter().map(|(_, text)| &**text);
        let told = told.collect::<Vec<&str>>().join("\n");
        self.needles
            .are_not_in("what clients are told", told.as_bytes());
    }

    /// Refusals among them.
    async fn no_answer_has_them(&self) {
        let token = fs_err::read_to_string(self.home.join("token")).unwrap();
        let bearer = format!("Bearer {}", token.trim());
        let session = format!("/v1/sessions/{}", self.session);
        for path in [
            "/v1/secrets".to_owned(),
            "/v1/models".to_owned(),
            "/v1/sessions".to_owned(),
            session.clone(),
            format!("{session}/messages"),
            format!("{session}/egress"),
        ] {
            let answer = self.front.get(&path, &[("authorization", &bearer)]).await;
            let answer = answer.unwrap();
            assert_eq!(answer.0, 200, "{path}: {answer:?}");
            self.needles.are_not_in(&path, answer.2.as_bytes());
        }
        let bad = NewSecret {
            name: "not a name".to_owned(),
            scope: SecretScope::Organisation,
            value: self.needles.raw("org").to_owned(),
        };
        let refused = self.client.put_secret(&bad).await.unwrap_err();
        let refused = format!("{refused:?}");
        self.needles.are_not_in("a problem", refused.as_bytes());
    }

    /// And nothing of them leaves the machine.
    async fn no_snapshot_has_them(&self) {
        let new = NewSnapshot::default();
        let receipt = self.client.create_snapshot(&self.session, &new).await;
        let snapshot = receipt.unwrap().snapshot;
        let exported = self.aside.path().join("export.nacre");
        let export = ["snapshot", "export", &snapshot, exported.as_str()];
        self.front.world.ok(&export);
        let elsewhere = World::new();
        elsewhere.ok(&["snapshot", "import", exported.as_str()]);
        let other = elsewhere.nacre.home.path();
        let link = Command::new("find")
            .args([other.as_str(), "-name", ".env.local"])
            .output();
        let link = link.unwrap().stdout;
        assert!(!link.is_empty(), "the export lacks the workspace");
        self.needles.are_in_no_file(other);
        self.client.pause(&self.session).await.unwrap();
        self.needles.are_in_no_file(&self.home);
    }

    /// A server that crashes leaves no memory behind, where another program would.
    async fn no_crash_leaves_them(&mut self) {
        let dies = Command::new("sh")
            .args(["-c", "ulimit -c unlimited; kill -ABRT $$"])
            .current_dir(self.cores())
            .status();
        assert!(!dies.unwrap().success());
        // Where the machine keeps no cores at all, this shows nothing.
        let control = fs_err::read_dir(self.cores()).unwrap().count();
        self.signal("-ABRT");
        let left = fs_err::read_dir(self.cores()).unwrap().count();
        assert_eq!(left, control, "the server's memory is on the disk");
        self.start().await;
    }

    fn signal(&mut self, signal: &str) {
        let server = self.front.server.as_mut().unwrap();
        let id = server.0.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.unwrap().success());
        server.0.wait().unwrap();
    }

    async fn end(mut self) {
        let stopped = self.client.stop(&self.session).await.unwrap();
        assert_eq!(stopped.session.status, Status::Stopped);
        eventually("no sandbox is left", || {
            self.front.world.ok(&["sandbox", "ls"])["sandboxes"] == json!([])
        });
        self.needles.are_in_no_file(&self.home);
        self.signal("-TERM");
        self.needles.are_in_no_file(&self.home);
        let said = fs_err::read(self.log()).unwrap();
        assert!(said.len() > 1000, "the server said nothing");
        self.needles.are_not_in("the server's log", &said);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planted_secret_is_found_nowhere_but_where_it_belongs() {
    let Some(mut story) = Story::begin().await else {
        return;
    };
    story.some_are_inside_and_in_memory().await;
    story.the_others_stay_outside().await;
    story.no_answer_has_them().await;
    story.needles.are_in_no_process();
    story.needles.are_in_no_file(&story.home);
    story.no_snapshot_has_them().await;
    story.no_crash_leaves_them().await;
    story.end().await;
}
