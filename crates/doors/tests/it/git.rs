//! Git itself, through the git door, against a real git host.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use camino::Utf8Path;
use camino_tempfile::Utf8TempDir;
use model::Secret;
use nacre_doors::git::{Config, Host, Refusal, Scheme, Verb};
use nacre_doors::{Git, Grants, Visitor};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::backend::{BASIC, Backend, TOKEN};
use crate::world::{shown, visitor};

/// `team/readable` may be fetched, `team/writable` pushed to as well, `team/open` has no token.
#[derive(Debug)]
pub(crate) struct Granted;

#[async_trait]
impl Grants for Granted {
    async fn may(
        &self,
        by: &Visitor,
        _: &str,
        repo: &str,
        verb: Verb,
    ) -> Result<Option<Secret>, Refusal> {
        assert_eq!(*by, visitor());
        match (repo, verb) {
            ("team/open", Verb::Fetch) => Ok(None),
            ("team/readable" | "team/gone", Verb::Fetch) | ("team/writable", _) => {
                Ok(Some(Secret::new(TOKEN)))
            }
            (repo, Verb::Push) => Err(Refusal {
                reason: format!("this session may not push to {repo}"),
            }),
            (repo, Verb::Fetch) => Err(Refusal {
                reason: format!("this session was not given {repo}"),
            }),
        }
    }
}

/// What a command of git said and how it ended.
struct Ran {
    ok: bool,
    said: String,
}

struct World {
    directory: Utf8TempDir,
    host: Backend,
    door: String,
    _serving: JoinSet<()>,
}

pub(crate) fn door(host: &str, change: impl FnOnce(&mut Config)) -> Git {
    let mut config = Config {
        hosts: vec![Host {
            name: host.to_owned(),
            scheme: Scheme::Http,
        }],
        ..Config::default()
    };
    change(&mut config);
    Git::new(config, Arc::new(Granted)).unwrap()
}

impl World {
    async fn new(change: impl FnOnce(&mut Config)) -> Self {
        let directory = camino_tempfile::tempdir().unwrap();
        let root = directory.path().join("host");
        for repo in ["readable", "writable", "open"] {
            let bare = root.join(format!("team/{repo}.git"));
            run(
                directory.path(),
                &["init", "-q", "--bare", "-b", "main", bare.as_str()],
            )
            .await;
            seed(directory.path(), &bare).await;
        }
        let host = Backend::start(&root).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = format!("http://{}", listener.local_addr().unwrap());
        let git = Arc::new(self::door(&host.address.to_string(), change));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let git = Arc::clone(&git);
                connections.spawn(async move { git.serve(visitor(), stream).await });
            }
        });
        Self {
            directory,
            host,
            door,
            _serving: serving,
        }
    }

    /// As in a sandbox: addresses of the host lead to the door.
    async fn git(&self, directory: &str, arguments: &[&str]) -> Ran {
        let host = self.host.address;
        let instead = format!(
            "url.{}/git/https/{host}/.insteadOf=https://{host}/",
            self.door
        );
        let mut all = vec!["-c", instead.as_str()];
        all.extend(arguments);
        run(&self.directory.path().join(directory), &all).await
    }

    fn url(&self, repo: &str) -> String {
        format!("https://{}/team/{repo}", self.host.address)
    }
}

async fn run(directory: &Utf8Path, arguments: &[&str]) -> Ran {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        // All that git itself says and hears.
        .env("GIT_TRACE_CURL", "1")
        .env("GIT_TRACE_REDACT", "0")
        .env("GIT_AUTHOR_NAME", "a")
        .env("GIT_AUTHOR_EMAIL", "a@b")
        .env("GIT_COMMITTER_NAME", "a")
        .env("GIT_COMMITTER_EMAIL", "a@b")
        .output()
        .await
        .unwrap();
    let mut said = String::new();
    for part in [&output.stdout, &output.stderr] {
        write!(said, "{}", String::from_utf8_lossy(part)).unwrap();
    }
    Ran {
        ok: output.status.success(),
        said,
    }
}

async fn seed(directory: &Utf8Path, bare: &Utf8Path) {
    let work = directory.join("seed");
    fs_err::create_dir_all(&work).unwrap();
    fs_err::write(work.join("README"), "hello\n").unwrap();
    run(&work, &["init", "-q", "-b", "main"]).await;
    run(&work, &["add", "."]).await;
    run(&work, &["commit", "-q", "-m", "first"]).await;
    let pushed = run(&work, &["push", "-q", bare.as_str(), "main"]).await;
    assert!(pushed.ok, "{}", pushed.said);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_is_cloned_and_pushed_to_without_a_token_inside() {
    let world = World::new(|_| {}).await;
    let cloned = world
        .git(".", &["clone", "-q", &world.url("writable.git"), "work"])
        .await;
    assert!(cloned.ok, "{}", cloned.said);
    let work = world.directory.path().join("work");
    assert_eq!(
        fs_err::read_to_string(work.join("README")).unwrap(),
        "hello\n"
    );
    // More than git sends in one piece, so that the body comes in chunks.
    let mut noise = String::new();
    for number in 0..200_000_u64 {
        write!(noise, "{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).unwrap();
    }
    fs_err::write(work.join("noise"), noise).unwrap();
    world.git("work", &["add", "."]).await;
    world.git("work", &["commit", "-q", "-m", "second"]).await;
    let pushed = world.git("work", &["push", "-q", "origin", "main"]).await;
    assert!(pushed.ok, "{}", pushed.said);
    let fetched = world.git("work", &["fetch", "origin"]).await;
    assert!(fetched.ok, "{}", fetched.said);

    let bare = world.directory.path().join("host/team/writable.git");
    let log = run(&bare, &["log", "--format=%s", "main"]).await;
    assert_eq!(log.said, "second\nfirst\n");
    let encoded = BASIC.trim_start_matches("Basic ");
    for said in [&cloned.said, &pushed.said, &fetched.said] {
        assert!(!said.contains(TOKEN) && !said.contains(encoded), "{said}");
    }
    let seen = world.host.seen.lock().unwrap();
    assert!(
        seen.iter()
            .all(|seen| seen.headers["authorization"] == BASIC)
    );
    assert!(
        seen.iter()
            .any(|seen| seen.headers.contains_key("git-protocol"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_was_not_given_is_refused_in_words_git_shows() {
    let world = World::new(|_| {}).await;
    let cloned = world
        .git(".", &["clone", &world.url("private"), "work"])
        .await;
    assert!(!cloned.ok);
    let expected = "remote: this session was not given team/private";
    assert!(cloned.said.contains(expected), "{}", cloned.said);
    assert!(world.host.seen.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_needs_more_than_a_grant_to_fetch() {
    let world = World::new(|_| {}).await;
    let cloned = world
        .git(".", &["clone", "-q", &world.url("readable.git"), "work"])
        .await;
    assert!(cloned.ok, "{}", cloned.said);
    world
        .git("work", &["commit", "-q", "--allow-empty", "-m", "second"])
        .await;
    let pushed = world.git("work", &["push", "origin", "main"]).await;
    assert!(!pushed.ok);
    let expected = "remote: this session may not push to team/readable";
    assert!(pushed.said.contains(expected), "{}", pushed.said);
    let seen = world.host.seen.lock().unwrap();
    assert!(seen.iter().all(|seen| !seen.uri.contains("receive-pack")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_wants_a_token_is_explained() {
    let world = World::new(|_| {}).await;
    let cloned = world
        .git(".", &["clone", &world.url("open.git"), "work"])
        .await;
    assert!(!cloned.ok);
    let expected = format!("`nacre secret set --git {}`", world.host.address);
    assert!(cloned.said.contains(&expected), "{}", cloned.said);
    let cloned = world
        .git(".", &["clone", &world.url("gone.git"), "work"])
        .await;
    assert!(!cloned.ok);
    assert!(
        cloned.said.contains("has no repository team/gone"),
        "{}",
        cloned.said
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandboxs_own_credentials_stay_in_it() {
    let world = World::new(|_| {}).await;
    let arguments = [
        "-c",
        "http.extraHeader=Authorization: Basic aW5zaWRlOmluc2lkZQ==",
        "-c",
        "http.extraHeader=Cookie: inside=1",
        "ls-remote",
    ];
    let url = world.url("readable.git");
    let listed = world
        .git(".", &[&arguments[..], &[url.as_str()]].concat())
        .await;
    assert!(listed.ok, "{}", listed.said);
    let seen = world.host.seen.lock().unwrap();
    for seen in seen.iter() {
        let headers = shown(&seen.headers);
        assert!(
            !headers.contains("aW5zaWRl") && !headers.contains("inside"),
            "{headers}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_is_too_large_is_refused() {
    let world = World::new(|config| config.most_push = 2000).await;
    world
        .git(".", &["clone", "-q", &world.url("writable.git"), "work"])
        .await;
    let noise: Vec<u8> = (0..50_000_u64)
        .flat_map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect();
    fs_err::write(world.directory.path().join("work/noise"), noise).unwrap();
    world.git("work", &["add", "."]).await;
    world.git("work", &["commit", "-q", "-m", "large"]).await;
    let pushed = world.git("work", &["push", "origin", "main"]).await;
    assert!(!pushed.ok);
    assert!(pushed.said.contains("413"), "{}", pushed.said);
}

#[tokio::test(flavor = "multi_thread")]
async fn git_finds_a_repository_that_its_host_spells_otherwise() {
    let world = World::new(|_| {}).await;
    let cloned = world
        .git(".", &["clone", &world.url("writable"), "work"])
        .await;
    assert!(cloned.ok, "{}", cloned.said);
    let readme = world.directory.path().join("work/README");
    assert_eq!(fs_err::read_to_string(readme).unwrap(), "hello\n");
}
