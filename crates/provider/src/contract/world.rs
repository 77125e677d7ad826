use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use model::{Id, SnapshotId, SystemClock};

use super::Harness;
use super::wait::{eventually, soon};
use crate::probe::{Identity, LineKind, ManifestLine};
use crate::{
    Alive, Capabilities, Capability, Exec, ExecSpec, Finished, Origin, Provider, ProviderError,
    Receipt, Sandbox, SandboxId, SandboxSpec, SandboxState,
};

/// Where a clause works in a sandbox: on its disk, in no snapshot's way, open to every user.
pub(super) const HOME: &str = "/contract";
const LABEL: &str = "contract";

/// One clause's surroundings; remembers what there is to clean up.
pub struct World<'h> {
    harness: &'h dyn Harness,
    origin: Origin,
    tag: String,
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    sandboxes: Vec<SandboxId>,
    snapshots: Vec<SnapshotId>,
}

impl fmt::Debug for World<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("tag", &self.tag)
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

impl<'h> World<'h> {
    pub(super) async fn new(harness: &'h dyn Harness) -> Self {
        let tag = Id::<model::Sandbox>::new(&SystemClock).to_string();
        Self {
            harness,
            origin: harness.origin().await,
            tag,
            made: Mutex::default(),
        }
    }

    pub(super) fn harness(&self) -> &dyn Harness {
        self.harness
    }

    pub(super) async fn provider(&self) -> Arc<dyn Provider> {
        self.harness.provider().await
    }

    /// A name that no other clause uses.
    pub(super) fn name(&self, what: &str) -> String {
        format!("{what}-{}", self.tag.replace('_', "-"))
    }

    pub(super) fn tag(&self) -> (String, String) {
        (LABEL.to_owned(), self.tag.clone())
    }

    pub(super) fn spec(&self) -> SandboxSpec {
        self.spec_from(self.origin.clone())
    }

    pub(super) fn spec_from(&self, origin: Origin) -> SandboxSpec {
        SandboxSpec {
            labels: BTreeMap::from([self.tag()]),
            runtime: self.harness.runtime(),
            ..SandboxSpec::from(origin)
        }
    }

    pub(super) async fn sandbox(&self) -> Guest<'_> {
        self.create(&self.spec()).await
    }

    pub(super) async fn create(&self, spec: &SandboxSpec) -> Guest<'_> {
        let made = soon("create", self.provider().await.create(spec)).await;
        self.guest(made.expect("a sandbox is created")).await
    }

    pub(super) async fn restored(&self, snapshot: &SnapshotId) -> Guest<'_> {
        self.create(&self.spec_from(Origin::Snapshot(snapshot.clone())))
            .await
    }

    /// A sandbox that came from elsewhere than `create`; it is removed in the end.
    pub(super) async fn guest(&self, sandbox: Sandbox) -> Guest<'_> {
        self.made
            .lock()
            .expect("no holder panics")
            .sandboxes
            .push(sandbox.id);
        let guest = Guest {
            world: self,
            id: sandbox.id,
            sandbox,
        };
        guest.ok(["mkdir", HOME, "1777"]).await;
        guest
    }

    /// The snapshot of a receipt; it is deleted in the end.
    pub(super) fn keep(&self, receipt: &Receipt) -> SnapshotId {
        let snapshot = receipt
            .snapshot
            .clone()
            .expect("the receipt names a snapshot");
        self.keep_snapshot(&snapshot);
        snapshot
    }

    pub(super) fn keep_snapshot(&self, snapshot: &SnapshotId) {
        self.made
            .lock()
            .expect("no holder panics")
            .snapshots
            .push(snapshot.clone());
    }

    /// What the provider declares of the sandboxes that the suite makes.
    pub(super) async fn capabilities(&self) -> Capabilities {
        let provider = self.provider().await;
        provider.capabilities_under(self.harness.runtime()).clone()
    }

    /// Whether the provider declares it. A clause about what it does not declare has nothing to
    /// say; that an undeclared operation is refused is a clause of its own.
    pub(super) async fn can(&self, capability: Capability) -> bool {
        let can = self.capabilities().await.has(capability);
        if !can {
            skip(&format!("the provider declares no {capability}"));
        }
        can
    }

    /// This clause's sandboxes, as the provider lists them.
    pub(super) async fn listed(&self) -> Vec<Sandbox> {
        let provider = self.provider().await;
        soon("list", provider.list(&[self.tag()]))
            .await
            .expect("list answers")
    }

    /// As much as can be done: a failure here would hide the clause's own.
    pub(super) async fn clean(&self) {
        let provider = self.provider().await;
        let Made {
            mut sandboxes,
            mut snapshots,
        } = std::mem::take(&mut *self.made.lock().expect("no holder panics"));
        let all = async {
            for sandbox in provider.list(&[self.tag()]).await.unwrap_or_default() {
                if let SandboxState::Stopped { snapshot } = sandbox.state {
                    snapshots.push(snapshot);
                }
                sandboxes.push(sandbox.id);
            }
            for id in sandboxes {
                let _ = provider.remove(id).await;
            }
            // What builds on another goes first.
            for snapshot in snapshots.iter().rev() {
                let _ = provider.delete_snapshot(snapshot).await;
            }
        };
        let _ = tokio::time::timeout(std::time::Duration::from_mins(1), all).await;
    }
}

/// A sandbox and the short way to ask things of it.
pub(super) struct Guest<'w> {
    pub(super) world: &'w World<'w>,
    pub(super) id: SandboxId,
    pub(super) sandbox: Sandbox,
}

impl Guest<'_> {
    pub(super) async fn provider(&self) -> Arc<dyn Provider> {
        self.world.provider().await
    }

    pub(super) fn command<A: AsRef<[u8]>>(&self, args: impl IntoIterator<Item = A>) -> ExecSpec {
        let probe = self.world.harness.probe().to_vec();
        let args = args.into_iter().map(|arg| arg.as_ref().to_vec());
        ExecSpec::new(std::iter::once(probe).chain(args))
    }

    pub(super) async fn try_exec(&self, spec: ExecSpec) -> Result<Exec, ProviderError> {
        soon("exec", self.provider().await.exec(self.id, spec)).await
    }

    pub(super) async fn exec(&self, spec: ExecSpec) -> Exec {
        self.try_exec(spec).await.expect("the command starts")
    }

    pub(super) async fn finish(&self, spec: ExecSpec) -> Finished {
        let shown = spec
            .argv
            .iter()
            .skip(1)
            .map(|arg| crate::probe::escape(arg))
            .collect::<Vec<_>>();
        let what = shown.join(" ");
        let done = soon(&what, self.exec(spec).await.finish()).await;
        done.unwrap_or_else(|error| panic!("{what}: {error:?}"))
    }

    pub(super) async fn run<A: AsRef<[u8]>>(&self, args: impl IntoIterator<Item = A>) -> Finished {
        self.finish(self.command(args)).await
    }

    /// What the probe wrote; it must not fail.
    pub(super) async fn ok<A: AsRef<[u8]>>(&self, args: impl IntoIterator<Item = A>) -> Vec<u8> {
        let spec = self.command(args);
        let what = format!(
            "{:?}",
            spec.argv
                .iter()
                .map(|a| crate::probe::escape(a))
                .collect::<Vec<_>>()
        );
        let done = self.finish(spec).await;
        assert_eq!(
            done.exit.code,
            0,
            "{what}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        done.stdout
    }

    pub(super) async fn text<A: AsRef<[u8]>>(&self, args: impl IntoIterator<Item = A>) -> String {
        String::from_utf8(self.ok(args).await).expect("the probe writes text here")
    }

    /// Starts a command that outlives its handle.
    pub(super) async fn start<A: AsRef<[u8]>>(&self, args: impl IntoIterator<Item = A>) {
        self.exec(ExecSpec {
            detach: true,
            ..self.command(args)
        })
        .await;
    }

    /// A file's text, if there is one.
    pub(super) async fn content(&self, path: &str) -> Option<String> {
        let done = self.run(["read", path]).await;
        (done.exit.code == 0).then(|| String::from_utf8_lossy(&done.stdout).into_owned())
    }

    pub(super) async fn manifest(&self) -> Vec<ManifestLine> {
        let text = self.text(["manifest", HOME]).await;
        text.lines()
            .map(|line| serde_json::from_str(line).expect("a manifest is JSON lines"))
            .collect()
    }

    /// Without sockets: nobody listens on a restored one, and a snapshot keeps none.
    pub(super) async fn lasting_manifest(&self) -> Vec<ManifestLine> {
        let lines = self.manifest().await.into_iter();
        lines.filter(|line| line.kind != LineKind::Socket).collect()
    }

    pub(super) async fn identity(&self) -> Identity {
        serde_json::from_slice(&self.ok(["identity"]).await).expect("an identity is JSON")
    }

    pub(super) async fn state(&self) -> Option<SandboxState> {
        self.listed().await.map(|sandbox| sandbox.state)
    }

    pub(super) async fn listed(&self) -> Option<Sandbox> {
        self.world
            .listed()
            .await
            .into_iter()
            .find(|sandbox| sandbox.id == self.id)
    }

    pub(super) async fn alive(&self) -> Alive {
        let answer = soon("alive", self.provider().await.alive(&[self.id]))
            .await
            .expect("alive answers");
        assert_eq!(answer.len(), 1, "one answer for one id: {answer:?}");
        assert_eq!(answer[0].0, self.id);
        answer[0].1
    }

    pub(super) async fn snapshot(&self) -> SnapshotId {
        let receipt = soon("snapshot", self.provider().await.snapshot(self.id, None)).await;
        self.world.keep(&receipt.expect("a snapshot is taken"))
    }

    pub(super) async fn stop(&self) -> SnapshotId {
        let receipt = soon("stop", self.provider().await.stop(self.id)).await;
        self.world.keep(&receipt.expect("the sandbox stops"))
    }

    pub(super) async fn pause(&self) -> Receipt {
        soon("pause", self.provider().await.pause(self.id))
            .await
            .expect("the sandbox pauses")
    }

    pub(super) async fn resume(&self) {
        soon("resume", self.provider().await.resume(self.id))
            .await
            .expect("the sandbox resumes");
    }

    pub(super) async fn terminate(&self) {
        soon("terminate", self.provider().await.terminate(self.id))
            .await
            .expect("the sandbox ends");
    }

    /// Different processes that beat in a file.
    pub(super) async fn beating(&self, file: &str) -> usize {
        let text = self.content(file).await.unwrap_or_default();
        text.lines()
            .collect::<std::collections::BTreeSet<_>>()
            .len()
    }

    /// Waits until nobody beats in the file any more: ten beats' time, counted in the sandbox,
    /// passes without one.
    pub(super) async fn stands_still(&self, file: &str) {
        eventually(&format!("{file} stands still"), async || {
            let before = self.content(file).await;
            self.ok(["sleep", "200"]).await;
            self.content(file).await == before
        })
        .await;
    }

    /// The token and the value of a `counter`.
    pub(super) async fn count(&self, file: &str) -> Option<(String, u64)> {
        let text = self.content(file).await?;
        let (token, value) = text.trim().split_once(' ')?;
        Some((token.to_owned(), value.parse().ok()?))
    }
}

/// An error of the kind `Refused`.
pub(super) fn refused<T>(what: &str, result: Result<T, ProviderError>) {
    match result {
        Err(ProviderError::Refused { .. }) => {}
        Err(other) => panic!("{what}: should be refused, but {other:?}"),
        Ok(_) => panic!("{what}: should be refused"),
    }
}

pub(super) fn not_found<T>(what: &str, result: Result<T, ProviderError>) {
    match result {
        Err(ProviderError::NotFound { .. }) => {}
        Err(other) => panic!("{what}: should be not found, but {other:?}"),
        Ok(_) => panic!("{what}: should be not found"),
    }
}

#[expect(
    clippy::print_stderr,
    reason = "a skipped clause says so in the test's output"
)]
pub(super) fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}
