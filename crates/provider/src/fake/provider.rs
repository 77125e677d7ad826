use std::time::Duration;

use async_trait::async_trait;
use model::{SnapshotId, Timestamp};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::node::Kind;
use super::{Fake, exec, files};
use crate::{
    Alive, Capabilities, Capability, Door, Edge, Endpoints, Ensured, Exec, ExecSpec, FileStream,
    Health, Kept, Measured, Pass, Provider, ProviderError, Receipt, Refusals, Resumed, Sandbox,
    SandboxId, SandboxSpec, SandboxState, Stream,
};

#[async_trait]
impl Provider for Fake {
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    fn holds_memory_for(&self) -> Option<Duration> {
        self.inner.holds_memory_for
    }

    async fn ensure(&self, spec: &SandboxSpec) -> Result<Ensured, ProviderError> {
        self.inner.faults.begin("ensure", None)?;
        let mut state = self.inner.state().await;
        self.inner.ensure(&mut state, spec).await
    }

    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        self.inner.faults.begin("create", None)?;
        let mut state = self.inner.state().await;
        self.inner.make(&mut state, spec)
    }

    async fn terminate(&self, id: SandboxId) -> Result<(), ProviderError> {
        self.inner.faults.begin("terminate", Some(id))?;
        let mut state = self.inner.state().await;
        let Ok(held) = state.get(id) else {
            return Ok(());
        };
        held.end().await;
        held.save(&self.inner)
    }

    async fn stop(&self, id: SandboxId) -> Result<Receipt, ProviderError> {
        self.inner.faults.begin("stop", Some(id))?;
        let mut state = self.inner.state().await;
        self.inner.stop(&mut state, id).await
    }

    async fn remove(&self, id: SandboxId) -> Result<(), ProviderError> {
        self.inner.faults.begin("remove", Some(id))?;
        let mut state = self.inner.state().await;
        let Some(mut held) = state.sandboxes.remove(&id) else {
            return Ok(());
        };
        held.end().await;
        self.inner.keep.forget(id)
    }

    async fn snapshot(&self, id: SandboxId, _name: Option<&str>) -> Result<Receipt, ProviderError> {
        self.inner.faults.begin("snapshot", Some(id))?;
        self.inner.must(Capability::LiveSnapshot)?;
        let mut state = self.inner.state().await;
        self.inner.snapshot(&mut state, id).await
    }

    async fn pause(&self, id: SandboxId) -> Result<Receipt, ProviderError> {
        self.inner.faults.begin("pause", Some(id))?;
        self.inner.must(Capability::Pause)?;
        let mut state = self.inner.state().await;
        state.get(id)?.pause(&self.inner).await
    }

    async fn resume(&self, id: SandboxId) -> Result<Resumed, ProviderError> {
        self.inner.faults.begin("resume", Some(id))?;
        let start = Instant::now();
        let mut state = self.inner.state().await;
        state.get(id)?.resume(&self.inner)?;
        Ok(Resumed {
            kept: Kept::Memory,
            took_ms: start.elapsed().as_secs_f64() * 1000.0,
        })
    }

    async fn fork(&self, id: SandboxId, count: usize) -> Result<Vec<Sandbox>, ProviderError> {
        self.inner.faults.begin("fork", Some(id))?;
        let mut state = self.inner.state().await;
        self.inner.fork(&mut state, id, count).await
    }

    async fn extend(&self, id: SandboxId, until: Timestamp) -> Result<Timestamp, ProviderError> {
        self.inner.faults.begin("extend", Some(id))?;
        self.inner.must(Capability::Extend)?;
        let mut state = self.inner.state().await;
        self.inner.extend(&mut state, id, until)
    }

    async fn exec(&self, id: SandboxId, spec: ExecSpec) -> Result<Exec, ProviderError> {
        self.inner.faults.begin("exec", Some(id))?;
        let mut state = self.inner.state().await;
        exec::start(state.running(id)?, spec)
    }

    async fn read_files(
        &self,
        id: SandboxId,
        path: &[u8],
        user: Option<&str>,
    ) -> Result<FileStream, ProviderError> {
        self.inner.faults.begin("read_files", Some(id))?;
        let mut state = self.inner.state().await;
        files::read(state.running(id)?, path, user)
    }

    async fn write_files(
        &self,
        id: SandboxId,
        path: &[u8],
        user: Option<&str>,
        files: FileStream,
    ) -> Result<(), ProviderError> {
        self.inner.faults.begin("write_files", Some(id))?;
        let inside = self.inner.state().await.running(id)?.inside.clone();
        files::write(&inside, path, user, files).await
    }

    async fn dial(&self, id: SandboxId, port: u16) -> Result<Box<dyn Stream>, ProviderError> {
        self.inner.faults.begin("dial", Some(id))?;
        let mut state = self.inner.state().await;
        match state.running(id)?.inside.connect_port(port) {
            Some(stream) => Ok(Box::new(stream)),
            None => Err(ProviderError::refused(format!(
                "nothing listens on port {port}"
            ))),
        }
    }

    async fn edge(&self, id: SandboxId) -> Result<Option<Edge>, ProviderError> {
        let mut state = self.inner.state().await;
        state.running(id)?;
        let spec = state.sandboxes.get(&id).map(|held| &held.record.spec);
        let workplace = spec.and_then(|spec| spec.workplace.as_ref());
        Ok(workplace.map(|workplace| Edge {
            session: workplace.session.clone().unwrap_or_default(),
            secret: model::Secret::new(format!("edge-of-{id}")),
        }))
    }

    async fn let_out(&self, id: SandboxId, passes: &[Pass]) -> Result<(), ProviderError> {
        self.inner.faults.begin("let_out", Some(id))?;
        self.set_passes(id, passes).await
    }

    async fn refusals(
        &self,
        id: SandboxId,
        since: Option<&str>,
    ) -> Result<Refusals, ProviderError> {
        self.inner.faults.begin("refusals", Some(id))?;
        self.refused_since(id, since).await
    }

    async fn serve(&self, id: SandboxId, name: &str) -> Result<Box<dyn Door>, ProviderError> {
        self.inner.faults.begin("serve", Some(id))?;
        self.inner.must(Capability::Serve)?;
        let mut state = self.inner.state().await;
        let machine = state.running(id)?;
        if !is_door_name(name) {
            return Err(ProviderError::refused(
                "a door's name is letters, digits, `.`, `-` and `_`",
            ));
        }
        Ok(Box::new(FakeDoor(machine.inside.open_door(name))))
    }

    async fn endpoints(&self, id: SandboxId) -> Result<Endpoints, ProviderError> {
        self.inner.faults.begin("endpoints", Some(id))?;
        self.inner
            .state()
            .await
            .get(id)
            .map(|_| Endpoints::default())
    }

    async fn alive(&self, ids: &[SandboxId]) -> Result<Vec<(SandboxId, Alive)>, ProviderError> {
        if ids.is_empty() {
            return Ok(vec![]);
        }
        self.inner.faults.begin("alive", None)?;
        let mut state = self.inner.state().await;
        let mut alive = |id| match state.get(id).map(|held| &held.record.sandbox.state) {
            Ok(SandboxState::Running) => Alive::Running,
            Ok(SandboxState::Paused { .. }) => Alive::Paused,
            _ => Alive::Dead,
        };
        Ok(ids.iter().map(|id| (*id, alive(*id))).collect())
    }

    async fn health(&self) -> Health {
        let ok = self.inner.faults.begin("health", None).is_ok();
        let detail = if ok { "in memory" } else { "out of reach" };
        Health {
            ok,
            detail: detail.to_owned(),
        }
    }

    async fn list(&self, labels: &[(String, String)]) -> Result<Vec<Sandbox>, ProviderError> {
        self.inner.faults.begin("list", None)?;
        let state = self.inner.state().await;
        let all = state.sandboxes.values().map(|held| &held.record.sandbox);
        let carries = |sandbox: &&Sandbox| {
            labels
                .iter()
                .all(|(name, value)| sandbox.labels.get(name) == Some(value))
        };
        Ok(all.filter(carries).cloned().collect())
    }

    async fn snapshot_memory(&self, id: SandboxId) -> Result<Receipt, ProviderError> {
        self.inner.faults.begin("snapshot_memory", Some(id))?;
        Err(ProviderError::Unsupported(Capability::MemorySnapshot))
    }

    async fn restore_memory(
        &self,
        _: &SnapshotId,
        _: &SandboxSpec,
    ) -> Result<Sandbox, ProviderError> {
        self.inner.faults.begin("restore_memory", None)?;
        Err(ProviderError::Unsupported(Capability::MemorySnapshot))
    }

    async fn measure(&self, snapshot: &SnapshotId) -> Result<Option<Measured>, ProviderError> {
        self.inner.faults.begin("measure", None)?;
        let state = self.inner.state().await;
        let disk = self.inner.snapshot_of(&state, snapshot)?;
        let bytes = disk.nodes.values().map(|node| match &node.kind {
            Kind::File(content) => content.size(),
            _ => 0,
        });
        Ok(Some(Measured {
            digest: format!("fake:{snapshot}"),
            bytes: bytes.sum(),
            files: disk.nodes.len() as u64,
        }))
    }

    async fn delete_snapshot(&self, snapshot: &SnapshotId) -> Result<(), ProviderError> {
        self.inner.faults.begin("delete_snapshot", None)?;
        self.inner.is_ours(snapshot)?;
        let mut state = self.inner.state().await;
        state.snapshots.remove(snapshot);
        self.inner.keep.forget_snapshot(snapshot)
    }
}

/// What is a file name everywhere and nothing else anywhere.
fn is_door_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('.')
}

#[derive(Debug)]
struct FakeDoor(mpsc::Receiver<DuplexStream>);

#[async_trait]
impl Door for FakeDoor {
    async fn accept(&mut self) -> Result<Box<dyn Stream>, ProviderError> {
        match self.0.recv().await {
            Some(stream) => Ok(Box::new(stream)),
            None => Err(ProviderError::not_found("the sandbox behind this door")),
        }
    }
}
