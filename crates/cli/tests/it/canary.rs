//! Secrets of every kind are planted, a session is led through its life, and everything that anybody
//! could get hold of is searched for them, in every spelling.

mod needles;
mod upstream;

use std::process::{Command, Stdio};
use std::time::Duration;

use camino::Utf8Path;
use client::Client;
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

async fn keep(client: &Client, name: &str, scope: SecretScope, value: &str) {
    let new = NewSecret {
        name: name.to_owned(),
        scope,
        value: value.to_owned(),
    };
    client.put_secret(&new).await.unwrap();
}

/// What the sandbox's root finds of these inside, as `kind path`.
async fn found_inside(client: &Client, session: &str, needles: &Needles, kind: &str) -> String {
    let forms = needles.of(kind);
    let mut argv: Vec<String> = ["sudo", "-n", "python3", "-c", SEARCH]
        .map(str::to_owned)
        .to_vec();
    argv.extend(forms.iter().map(|form| form.chars().rev().collect()));
    let request = ExecRequest {
        argv,
        timeout_ms: Some(120_000),
        ..ExecRequest::default()
    };
    let ran = client.exec(session, &request).await.unwrap();
    assert_eq!(ran.exit_code, 0, "{ran:?}");
    ran.stdout
}

/// Starts the server so that it says all it ever says, and would leave a core where it dies.
async fn start(front: &mut Front, log: &Utf8Path, cores: &Utf8Path) {
    let plain = front.command();
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
        .current_dir(cores)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(
            fs_err::OpenOptions::new()
                .create(true)
                .append(true)
                .open(log)
                .unwrap()
                .into_parts()
                .0,
        );
    front.start_by(command).await;
}

fn cores_in(place: &Utf8Path) -> usize {
    fs_err::read_dir(place).unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planted_secret_is_found_nowhere_but_where_it_belongs() {
    let Some(mut front) = Front::with_base() else {
        return;
    };
    // Beside the home, which is searched.
    let aside = camino_tempfile::tempdir().unwrap();
    let (log, cores) = (aside.path().join("server.log"), aside.path().join("cores"));
    fs_err::create_dir(&cores).unwrap();
    let needles = Needles::plant(&["org", "repo", "session", "model", "git"], aside.path());
    let upstream = Upstream::start(needles.raw("model"), needles.raw("git"));
    let home = front.world.nacre.home.path().to_owned();
    let settings = format!(
        "[git]\nhosts = [\"{0}\"]\n[[models.custom]]\nid = \"canary\"\nurl = \"{0}/v1\"\nneeds_key = true\nmodels = [\"m\"]\n",
        upstream.url
    );
    fs_err::write(home.join("nacre.toml"), settings).unwrap();
    start(&mut front, &log, &cores).await;
    let client = front.client();

    let host = upstream.url.strip_prefix("http://").unwrap().to_owned();
    // Inside it is called so; the door knows that this host has no TLS.
    let repo = format!("https://{host}/o/pearl");
    keep(
        &client,
        "ORG_CANARY",
        SecretScope::Organisation,
        needles.raw("org"),
    )
    .await;
    let of_repo = SecretScope::Repository(repo.clone());
    keep(&client, "REPO_CANARY", of_repo, needles.raw("repo")).await;
    let of_model = SecretScope::Model("canary".to_owned());
    keep(&client, "key", of_model, needles.raw("model")).await;
    keep(&client, "token", SecretScope::Git(host), needles.raw("git")).await;
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
    keep(
        &client,
        "SESSION_CANARY",
        of_session,
        needles.raw("session"),
    )
    .await;
    client.resume(&id).await.unwrap();

    // Those that belong inside are there, in memory, behind a link.
    let keys: Vec<_> = GIVEN.iter().map(|key| json!({ "key": key })).collect();
    let spec = json!([{ "path": ".env.local", "keys": keys }]).to_string();
    let request = ExecRequest {
        argv: [
            "bash",
            "-lc",
            "cd ~/workspace && nacre env apply --spec \"$1\"",
            "x",
            &spec,
        ]
        .map(str::to_owned)
        .to_vec(),
        ..ExecRequest::default()
    };
    let mut applied = client.exec(&id, &request).await.unwrap();
    for _ in 0..100 {
        if applied.exit_code == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        applied = client.exec(&id, &request).await.unwrap();
    }
    assert_eq!(applied.exit_code, 0, "{applied:?}");
    let seen = run(&client, &id, "cat ~/workspace/.env.local").await;
    for kind in ["org", "repo", "session"] {
        assert!(seen.contains(needles.raw(kind)), "the sandbox lacks {kind}");
        let places = found_inside(&client, &id, &needles, kind).await;
        assert!(!places.is_empty(), "the search finds nothing that is there");
        for place in places.lines() {
            assert!(place.contains(" /run/nacre/env/"), "{kind}: {place}");
        }
    }
    let link = run(&client, &id, "readlink ~/workspace/.env.local").await;
    assert!(link.starts_with("/run/nacre/env/"), "{link}");

    // Those that do not were used, outside; and what repeats them comes in without them.
    let mut watcher = Watcher::new();
    ask(&client, &id, "p1", "say something").await;
    let ended = watcher.until(&client, &id, "p1").await;
    assert_ne!(
        ended,
        PromptStatus::Finished,
        "the model refuses everything"
    );
    assert!(upstream.has_seen_the_key(), "the key was never used");
    assert!(upstream.has_seen_the_token(), "the token was never used");
    for kind in ["model", "git"] {
        let places = found_inside(&client, &id, &needles, kind).await;
        assert_eq!(places, "", "{kind} is in the sandbox");
    }
    let told: Vec<&str> = watcher.frames.iter().map(|(_, text)| &**text).collect();
    needles.are_not_in("what clients are told", told.join("\n").as_bytes());

    // Answers, refusals among them.
    let token = fs_err::read_to_string(home.join("token")).unwrap();
    let bearer = format!("Bearer {}", token.trim());
    for path in [
        "/v1/secrets".to_owned(),
        "/v1/models".to_owned(),
        "/v1/sessions".to_owned(),
        format!("/v1/sessions/{id}"),
        format!("/v1/sessions/{id}/messages"),
        format!("/v1/sessions/{id}/egress"),
    ] {
        let answer = front
            .get(&path, &[("authorization", &bearer)])
            .await
            .unwrap();
        assert_eq!(answer.0, 200, "{path}: {answer:?}");
        needles.are_not_in(&path, answer.2.as_bytes());
    }
    let bad = NewSecret {
        name: "not a name".to_owned(),
        scope: SecretScope::Organisation,
        value: needles.raw("org").to_owned(),
    };
    let refused = client.put_secret(&bad).await.unwrap_err();
    needles.are_not_in("a problem", format!("{refused:?}").as_bytes());
    needles.are_in_no_process();
    needles.are_in_no_file(&home);

    // Snapshots, and what leaves the machine of them.
    let receipt = client
        .create_snapshot(&id, &NewSnapshot::default())
        .await
        .unwrap();
    let snapshot = receipt.snapshot;
    let exported = aside.path().join("export.nacre");
    front
        .world
        .ok(&["snapshot", "export", &snapshot, exported.as_str()]);
    let elsewhere = World::new();
    elsewhere.ok(&["snapshot", "import", exported.as_str()]);
    let other = elsewhere.nacre.home.path();
    let has_workspace = Command::new("find")
        .args([other.as_str(), "-name", ".env.local"])
        .output()
        .unwrap();
    assert!(
        !has_workspace.stdout.is_empty(),
        "the export lacks the workspace"
    );
    needles.are_in_no_file(other);
    client.pause(&id).await.unwrap();
    needles.are_in_no_file(&home);

    // A server that crashes leaves no memory behind.
    needles.are_in_no_file(&cores);
    let dies = Command::new("sh")
        .args(["-c", "ulimit -c unlimited; kill -ABRT $$"])
        .current_dir(&cores)
        .status();
    assert!(!dies.unwrap().success());
    // Where the machine keeps none at all, this shows nothing.
    let control = cores_in(&cores);
    front.server = None;
    start(&mut front, &log, &cores).await;
    let server = front.server.as_mut().unwrap();
    let aborted = Command::new("kill")
        .args(["-ABRT", &server.0.id().to_string()])
        .status();
    assert!(aborted.unwrap().success());
    server.0.wait().unwrap();
    assert_eq!(
        cores_in(&cores),
        control,
        "the server's memory is on the disk"
    );

    start(&mut front, &log, &cores).await;
    let client = front.client();
    let stopped = client.stop(&id).await.unwrap();
    assert_eq!(stopped.session.status, Status::Stopped);
    eventually("no sandbox is left", || {
        front.world.ok(&["sandbox", "ls"])["sandboxes"] == json!([])
    });
    needles.are_in_no_file(&home);
    let server = front.server.as_mut().unwrap();
    let ended = Command::new("kill")
        .args(["-TERM", &server.0.id().to_string()])
        .status();
    assert!(ended.unwrap().success());
    server.0.wait().unwrap();
    needles.are_in_no_file(&home);
    let said = fs_err::read(&log).unwrap();
    assert!(said.len() > 1000, "the server said nothing");
    needles.are_not_in("the server's log", &said);
}
