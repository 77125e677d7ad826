use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use camino_tempfile::Utf8TempDir;
use nacre_provider::contract::Harness;
use nacre_provider::fake::Remote;
use nacre_provider::{
    Alive, ExecSpec, Expected, Origin, Provider, ProviderError, SandboxSpec, SandboxState, probe,
};

/// A fake provider in a process that ends with the test.
struct Apart {
    directory: Utf8TempDir,
    process: Child,
}

impl Apart {
    async fn start() -> Self {
        let directory = Utf8TempDir::new().unwrap();
        let process = spawn(&directory);
        let apart = Self { directory, process };
        apart.remote().await;
        apart
    }

    /// As a crash would have it: no farewell, then a new process on the same files.
    async fn crash_and_start_again(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = spawn(&self.directory);
        self.remote().await;
    }

    /// A new connection each time, as soon as the process listens.
    async fn remote(&self) -> Remote {
        let connect = async {
            loop {
                match Remote::connect(self.directory.path().join("socket")).await {
                    Ok(remote) => return remote,
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), connect)
            .await
            .expect("the process listens")
    }
}

fn spawn(directory: &Utf8TempDir) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nacre-fake-provider"));
    command.arg("--state").arg(directory.path().join("state"));
    command.arg("--socket").arg(directory.path().join("socket"));
    command.spawn().unwrap()
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[async_trait]
impl Harness for Apart {
    async fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.remote().await)
    }

    async fn origin(&self) -> Origin {
        Origin::Bare
    }
}

nacre_provider::contract_suite!(Apart::start().await);

async fn ok(remote: &Remote, id: nacre_provider::SandboxId, args: &[&str]) -> String {
    let exec = remote
        .exec(id, ExecSpec::new([&[probe::PATH], args].concat()))
        .await
        .unwrap();
    let done = exec.finish().await.unwrap();
    assert_eq!(done.exit.code, 0, "{args:?}");
    String::from_utf8(done.stdout).unwrap()
}

fn keyed() -> SandboxSpec {
    SandboxSpec {
        key: Some("session".into()),
        ..SandboxSpec::from(Origin::Bare)
    }
}

#[tokio::test]
async fn a_killed_process_finds_its_sandboxes_and_their_disks_again() {
    let mut apart = Apart::start().await;
    let remote = apart.remote().await;
    let sandbox = remote.create(&keyed()).await.unwrap();
    ok(&remote, sandbox.id, &["write", "/file", "kept"]).await;
    ok(&remote, sandbox.id, &["mkdir", "/odd \u{1f9aa}", "700"]).await;
    apart.crash_and_start_again().await;
    let listed = remote.list(&[]).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].id, &listed[0].state),
        (sandbox.id, &SandboxState::Ended)
    );
    assert_eq!(remote.alive(&[sandbox.id]).await.unwrap()[0].1, Alive::Dead);
    let again = remote.ensure(&keyed()).await.unwrap();
    assert!(matches!(again.expected, Expected::Restarted(_)));
    assert_eq!(
        ok(&remote, again.sandbox.id, &["read", "/file"]).await,
        "kept"
    );
    assert!(
        ok(&remote, again.sandbox.id, &["manifest", "/odd \u{1f9aa}"])
            .await
            .contains("448")
    );
}

#[tokio::test]
async fn a_snapshot_survives_a_killed_process() {
    let mut apart = Apart::start().await;
    let remote = apart.remote().await;
    let sandbox = remote.create(&keyed()).await.unwrap();
    ok(&remote, sandbox.id, &["write", "/file", "kept"]).await;
    let live = remote
        .snapshot(sandbox.id, None)
        .await
        .unwrap()
        .snapshot
        .unwrap();
    ok(&remote, sandbox.id, &["write", "/file", "later"]).await;
    let stopped = remote.stop(sandbox.id).await.unwrap();
    apart.crash_and_start_again().await;
    assert_eq!(
        remote.stop(sandbox.id).await.unwrap(),
        stopped,
        "a stop stays a stop"
    );
    for (snapshot, wanted) in [(live, "kept"), (stopped.snapshot.unwrap(), "later")] {
        let spec = SandboxSpec::from(Origin::Snapshot(snapshot));
        let restored = remote.create(&spec).await.unwrap();
        assert_eq!(ok(&remote, restored.id, &["read", "/file"]).await, wanted);
    }
}

#[tokio::test]
async fn what_was_removed_stays_removed_after_a_crash() {
    let mut apart = Apart::start().await;
    let remote = apart.remote().await;
    let sandbox = remote.create(&keyed()).await.unwrap();
    let snapshot = remote
        .snapshot(sandbox.id, None)
        .await
        .unwrap()
        .snapshot
        .unwrap();
    remote.remove(sandbox.id).await.unwrap();
    remote.delete_snapshot(&snapshot).await.unwrap();
    apart.crash_and_start_again().await;
    assert_eq!(remote.list(&[]).await.unwrap(), []);
    let gone = remote
        .create(&SandboxSpec::from(Origin::Snapshot(snapshot)))
        .await;
    assert!(matches!(gone, Err(ProviderError::NotFound { .. })));
}

#[tokio::test]
async fn a_paused_sandbox_that_lost_its_process_starts_again_on_its_disk() {
    let mut apart = Apart::start().await;
    let remote = apart.remote().await;
    let sandbox = remote.create(&keyed()).await.unwrap();
    ok(&remote, sandbox.id, &["write", "/file", "kept"]).await;
    remote.pause(sandbox.id).await.unwrap();
    apart.crash_and_start_again().await;
    let again = remote.ensure(&keyed()).await.unwrap();
    assert!(matches!(again.expected, Expected::Restarted(_)));
    assert_eq!(
        ok(&remote, again.sandbox.id, &["read", "/file"]).await,
        "kept"
    );
}

#[tokio::test]
async fn a_provider_that_is_down_is_unavailable_and_a_command_under_way_says_so() {
    let mut apart = Apart::start().await;
    let remote = apart.remote().await;
    let sandbox = remote.create(&keyed()).await.unwrap();
    let exec = remote
        .exec(sandbox.id, ExecSpec::new([probe::PATH, "cat"]))
        .await
        .unwrap();
    apart.process.kill().unwrap();
    apart.process.wait().unwrap();
    assert!(matches!(
        exec.finish().await,
        Err(ProviderError::Unavailable { .. })
    ));
    let answer = remote.alive(&[sandbox.id]).await;
    assert!(
        matches!(answer, Err(ProviderError::Unavailable { .. })),
        "an error is not a death"
    );
    assert!(!remote.health().await.ok);
}
