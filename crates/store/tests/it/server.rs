//! A PostgreSQL of our own: in a directory of its own, at a unix socket, as somebody who may do
//! nothing, for as long as the test runs.

use std::future::Future;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use camino_tempfile::Utf8TempDir;
use nacre_store::Location;
use sqlx::Connection as _;

use crate::world::World;

pub(crate) struct Server {
    directory: Utf8TempDir,
    process: Child,
}

/// `nobody`.
const NOBODY: u32 = 65534;

impl Server {
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    pub(crate) async fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            eprintln!("skipped: PostgreSQL is not installed (Debian: postgresql)");
            return None;
        };
        let directory = camino_tempfile::Builder::new()
            .prefix("nacre-pg-")
            .tempdir_in("/tmp")
            .unwrap();
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = (
                rustix::fs::Uid::from_raw(NOBODY),
                rustix::fs::Gid::from_raw(NOBODY),
            );
            rustix::fs::chown(directory.path().as_std_path(), Some(uid), Some(gid)).unwrap();
        }
        let data = directory.path().join("data");
        let made = humbly(&programs.join("initdb"))
            .args(["-D", data.as_str(), "-U", "nacre", "--auth=trust"])
            .args(["--no-sync", "--encoding=UTF8", "--locale=C"])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success(), "initdb failed");
        let process = humbly(&programs.join("postgres"))
            .args(["-D", data.as_str(), "-k", directory.path().as_str()])
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            .args(["-c", "full_page_writes=off", "-c", "max_connections=200"])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { directory, process };
        server.wait().await;
        Some(server)
    }

    /// A story in a database of its own.
    pub(crate) async fn tell<S, F>(&self, name: &str, story: S)
    where
        S: FnOnce(World) -> F,
        F: Future<Output = ()>,
    {
        // Shown when the test fails: the last one is the one that did.
        #[expect(clippy::print_stderr, reason = "which story it was")]
        {
            eprintln!("{name}");
        }
        let world = World::open(self.database(name).await).await;
        let opened = world.store.clone();
        story(world).await;
        opened.close().await.unwrap();
    }

    pub(crate) async fn database(&self, name: &str) -> Location {
        // Names are short there, and the end of ours tells them apart.
        let name: String = name.replace("::", "_");
        let name = &name[name.len().saturating_sub(60)..];
        let mut connection = self.connect("postgres").await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("CREATE DATABASE \"{name}\"")))
            .execute(&mut connection)
            .await
            .unwrap();
        Location::Server(self.address(name))
    }

    pub(crate) fn address(&self, database: &str) -> String {
        let socket = self.directory.path().as_str().replace('/', "%2F");
        format!("postgres://nacre@localhost/{database}?host={socket}")
    }

    async fn connect(&self, database: &str) -> sqlx::Result<sqlx::PgConnection> {
        sqlx::PgConnection::connect(&self.address(database)).await
    }

    async fn wait(&self) {
        let limit = Duration::from_mins(1);
        let up = tokio::time::timeout(limit, async {
            while self.connect("postgres").await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        up.await.expect("PostgreSQL answers within a minute");
    }

    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        // Fast: whoever is connected is put out.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// As nobody, because PostgreSQL does not run as root; and not longer than we do.
fn humbly(program: &Utf8Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args(["--pdeathsig", "INT", "--", program.as_str()]);
    command
}

/// Debian keeps them out of the path, by version.
fn programs() -> Option<Utf8PathBuf> {
    let versions = Utf8Path::new("/usr/lib/postgresql").read_dir_utf8().ok()?;
    versions
        .filter_map(Result::ok)
        .map(|version| version.path().join("bin"))
        .find(|programs| programs.join("initdb").exists())
}
