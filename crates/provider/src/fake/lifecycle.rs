//! From one state of a sandbox to the next.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use model::{Id, SnapshotId, SnapshotKind, Timestamp};
use tokio::time::Instant;

use super::disk::Disk;
use super::machine::{Inside, Machine};
use super::node::{Content, Who};
use super::{Held, Inner, Record, State, tree, workplace};
use crate::{
    Capability, Ensured, Expected, Kept, Origin, ProviderError, Receipt, Sandbox, SandboxId,
    SandboxSpec, SandboxState,
};

impl Inner {
    pub(super) fn must(&self, capability: Capability) -> Result<(), ProviderError> {
        if self.capabilities.has(capability) {
            Ok(())
        } else {
            Err(ProviderError::Unsupported(capability))
        }
    }

    /// The state, with every sandbox ended whose time is up.
    pub(super) async fn state(&self) -> tokio::sync::MutexGuard<'_, State> {
        let mut state = self.state.lock().await;
        let now = self.clock.now();
        for held in state.sandboxes.values_mut() {
            if held.machine.is_some() && held.record.sandbox.expires_at.is_some_and(|at| at <= now)
            {
                held.end().await;
                // The next change of it is kept; nobody waits for this one's answer.
                let _ = held.save(self);
            }
        }
        state
    }

    pub(super) fn make(
        &self,
        state: &mut State,
        spec: &SandboxSpec,
    ) -> Result<Sandbox, ProviderError> {
        let disk = match &spec.origin {
            Origin::Bare => tree::bare(),
            Origin::Snapshot(id) => self.snapshot_of(state, id)?.clone(),
            Origin::Rootfs(_) => {
                return Err(ProviderError::refused(
                    "the fake takes no root file systems",
                ));
            }
        };
        self.make_on(state, spec, disk)
    }

    pub(super) fn make_on(
        &self,
        state: &mut State,
        spec: &SandboxSpec,
        disk: Disk,
    ) -> Result<Sandbox, ProviderError> {
        let taken = |held: &Held| held.record.sandbox.name == spec.name;
        if spec.name.is_some() && state.sandboxes.values().any(taken) {
            return Err(ProviderError::refused("a sandbox of that name exists"));
        }
        let now = self.clock.now();
        let lifetime = spec.lifetime.or(self.lifetime);
        let lifetime = lifetime.map(|time| {
            self.capabilities
                .max_lifetime
                .map_or(time, |most| time.min(most))
        });
        let sandbox = Sandbox {
            id: Id::new(self.clock.as_ref()),
            name: spec.name.clone(),
            key: spec.key.clone(),
            state: SandboxState::Running,
            generation: spec.generation,
            runtime: spec.runtime,
            isolation: self.capabilities.isolation,
            labels: spec.labels.clone(),
            created_at: now,
            expires_at: lifetime.map(|time| now + time),
        };
        let mut held = Held {
            record: Record {
                sandbox: sandbox.clone(),
                spec: spec.clone(),
                receipt: None,
            },
            disk: Arc::new(Mutex::new(disk)),
            machine: None,
        };
        held.start(self);
        held.save_all(self)?;
        state.sandboxes.insert(sandbox.id, held);
        self.end_in_time(&sandbox);
        Ok(sandbox)
    }

    /// Ends it when its time is up, whether or not anybody asks for it then.
    fn end_in_time(&self, sandbox: &Sandbox) {
        let (Some(runtime), Some(mut end)) = (&self.runtime, sandbox.expires_at) else {
            return;
        };
        let (fake, id) = (self.this.clone(), sandbox.id);
        runtime.spawn(async move {
            loop {
                let Some(inner) = fake.upgrade() else { return };
                let left = end.duration_since(inner.clock.now());
                drop(inner);
                tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
                let Some(inner) = fake.upgrade() else { return };
                let mut state = inner.state().await;
                let held = state.get(id).ok().filter(|held| held.machine.is_some());
                // It was given more time, or is gone.
                match held.and_then(|held| held.record.sandbox.expires_at) {
                    Some(later) => end = later,
                    None => return,
                }
            }
        });
    }

    pub(super) async fn ensure(
        &self,
        state: &mut State,
        spec: &SandboxSpec,
    ) -> Result<Ensured, ProviderError> {
        let Some(key) = &spec.key else {
            return Err(ProviderError::refused(
                "a sandbox to find again needs a key",
            ));
        };
        let found = state
            .sandboxes
            .values()
            .rev()
            .find(|held| held.record.sandbox.key.as_ref() == Some(key));
        let Some(id) = found.map(|held| held.record.sandbox.id) else {
            let sandbox = self.make(state, spec)?;
            return Ok(Ensured {
                sandbox,
                expected: Expected::Created,
            });
        };
        let held = state.get(id)?;
        let expected = match &held.record.sandbox.state {
            SandboxState::Running => Expected::Found,
            SandboxState::Paused { kept } => {
                let kept = *kept;
                held.resume(self)?;
                Expected::Resumed(kept)
            }
            SandboxState::Ended | SandboxState::Stopped { .. } => {
                let receipt = self.stop(state, id).await?;
                let held = state.get(id)?;
                held.record.spec = spec.clone();
                held.record.sandbox.generation = spec.generation;
                held.record.receipt = None;
                held.start(self);
                held.save_all(self)?;
                let sealed = receipt.snapshot;
                Expected::Restarted(
                    sealed.ok_or_else(|| ProviderError::refused("stop sealed nothing"))?,
                )
            }
        };
        Ok(Ensured {
            sandbox: state.get(id)?.record.sandbox.clone(),
            expected,
        })
    }

    pub(super) async fn stop(
        &self,
        state: &mut State,
        id: SandboxId,
    ) -> Result<Receipt, ProviderError> {
        let start = Instant::now();
        let held = state.get(id)?;
        if let Some(receipt) = &held.record.receipt {
            return Ok(receipt.clone());
        }
        held.end().await;
        let sealed = held.disk().sealed();
        let receipt = self.seal(state, sealed, start)?;
        let held = state.get(id)?;
        if let Some(snapshot) = receipt.snapshot.clone() {
            held.record.sandbox.state = SandboxState::Stopped { snapshot };
        }
        held.record.receipt = Some(receipt.clone());
        held.save(self)?;
        Ok(receipt)
    }

    pub(super) async fn snapshot(
        &self,
        state: &mut State,
        id: SandboxId,
    ) -> Result<Receipt, ProviderError> {
        let start = Instant::now();
        let sealed = state.get(id)?.copy_disk().await;
        self.seal(state, sealed, start)
    }

    fn seal(
        &self,
        state: &mut State,
        disk: Disk,
        start: Instant,
    ) -> Result<Receipt, ProviderError> {
        let snapshot = SnapshotId {
            provider: self.name.clone(),
            kind: SnapshotKind::Disk,
            id: Id::new(self.clock.as_ref()),
        };
        self.keep.snapshot(&snapshot, &disk)?;
        state.snapshots.insert(snapshot.clone(), disk);
        Ok(Receipt {
            snapshot: Some(snapshot),
            ..receipt(Kept::Disk, start)
        })
    }

    pub(super) async fn fork(
        &self,
        state: &mut State,
        id: SandboxId,
        count: usize,
    ) -> Result<Vec<Sandbox>, ProviderError> {
        let held = state.get(id)?;
        let disk = held.copy_disk().await;
        let spec = SandboxSpec {
            name: None,
            key: None,
            generation: held.record.sandbox.generation + 1,
            ..held.record.spec.clone()
        };
        (0..count)
            .map(|_| self.make_on(state, &spec, disk.clone()))
            .collect()
    }

    pub(super) fn extend(
        &self,
        state: &mut State,
        id: SandboxId,
        until: Timestamp,
    ) -> Result<Timestamp, ProviderError> {
        let held = state.get(id)?;
        let last = self
            .capabilities
            .max_lifetime
            .map(|most| held.record.sandbox.created_at + most);
        let until = last.map_or(until, |last| until.min(last));
        // One that lives for ever already cannot live longer.
        if held.record.sandbox.expires_at.is_some() {
            held.record.sandbox.expires_at = Some(until);
            held.save(self)?;
        }
        Ok(until)
    }

    pub(super) fn snapshot_of<'s>(
        &self,
        state: &'s State,
        id: &SnapshotId,
    ) -> Result<&'s Disk, ProviderError> {
        self.is_ours(id)?;
        state
            .snapshots
            .get(id)
            .ok_or_else(|| ProviderError::not_found(format!("snapshot {id}")))
    }

    pub(super) fn is_ours(&self, id: &SnapshotId) -> Result<(), ProviderError> {
        if id.provider == self.name {
            return Ok(());
        }
        Err(ProviderError::refused(format!(
            "{id} is not a snapshot of {}",
            self.name
        )))
    }
}

impl State {
    pub(super) fn get(&mut self, id: SandboxId) -> Result<&mut Held, ProviderError> {
        self.sandboxes
            .get_mut(&id)
            .ok_or_else(|| ProviderError::not_found(format!("sandbox {id}")))
    }

    /// A sandbox that can be worked in now.
    pub(super) fn running(&mut self, id: SandboxId) -> Result<&mut Machine, ProviderError> {
        let held = self.get(id)?;
        match (&held.record.sandbox.state, &mut held.machine) {
            (SandboxState::Running, Some(machine)) => Ok(machine),
            (SandboxState::Paused { .. }, _) => {
                Err(ProviderError::refused(format!("sandbox {id} is paused")))
            }
            _ => Err(ProviderError::refused(format!("sandbox {id} has ended"))),
        }
    }
}

impl Held {
    /// Boots on the disk it has, as a machine of its own.
    fn start(&mut self, inner: &Inner) {
        let spec = &self.record.spec;
        {
            let mut disk = self.disk();
            disk.limit = spec.disk.map(model::ByteCount::bytes);
            let id = Id::<model::Boot>::new(inner.clock.as_ref())
                .uuid()
                .simple()
                .to_string();
            let content = Content::from(format!("{id}\n").as_bytes());
            // A disk without /etc has no machine id to renew.
            let _ = tree::write(
                &mut disk,
                Who::SUPERUSER,
                tree::MACHINE_ID.as_bytes(),
                content,
            );
        }
        let inside = Inside::new(
            self.record.sandbox.id,
            spec,
            self.disk.clone(),
            inner.keep.clone(),
            inner.runs.clone(),
        );
        let mut machine = Machine::start(inside, inner.runtime.clone());
        if let Some(workplace) = &spec.workplace {
            let sandbox = self.record.sandbox.id.to_string();
            let session = workplace.session.clone().unwrap_or(sandbox);
            let inside = machine.inside.clone();
            machine.spawn(workplace::live(inside, session, spec.generation));
        }
        self.machine = Some(machine);
        self.record.sandbox.state = SandboxState::Running;
    }

    /// Ends the processes; the disk stays.
    pub(super) async fn end(&mut self) {
        if let Some(machine) = self.machine.take() {
            machine.end().await;
            self.record.sandbox.state = SandboxState::Ended;
        }
    }

    pub(super) async fn pause(&mut self, inner: &Inner) -> Result<Receipt, ProviderError> {
        let start = Instant::now();
        let Some(machine) = &mut self.machine else {
            return Err(ProviderError::refused(
                "a sandbox that has ended cannot be paused",
            ));
        };
        machine.freeze().await;
        self.record.sandbox.state = SandboxState::Paused { kept: Kept::Memory };
        self.save_all(inner)?;
        Ok(receipt(Kept::Memory, start))
    }

    pub(super) fn resume(&mut self, inner: &Inner) -> Result<(), ProviderError> {
        let Some(machine) = &mut self.machine else {
            return Err(ProviderError::refused(
                "a sandbox that has ended cannot be resumed",
            ));
        };
        machine.thaw();
        self.record.sandbox.state = SandboxState::Running;
        self.save(inner)
    }

    /// The disk as it is at one moment.
    async fn copy_disk(&mut self) -> Disk {
        let Some(machine) = &mut self.machine else {
            return self.disk().sealed();
        };
        let was_paused = matches!(self.record.sandbox.state, SandboxState::Paused { .. });
        machine.freeze().await;
        let copy = machine.inside.disk().sealed();
        if !was_paused {
            machine.thaw();
        }
        copy
    }

    pub(super) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().expect("no holder panics")
    }

    pub(super) fn save(&self, inner: &Inner) -> Result<(), ProviderError> {
        inner.keep.record(&self.record)
    }

    fn save_all(&self, inner: &Inner) -> Result<(), ProviderError> {
        inner.keep.disk(self.record.sandbox.id, &self.disk())?;
        self.save(inner)
    }
}

fn receipt(kept: Kept, start: Instant) -> Receipt {
    let took_ms = start.elapsed().as_secs_f64() * 1000.0;
    Receipt {
        snapshot: None,
        digest: None,
        bytes: None,
        files: None,
        kept,
        took_ms,
        frozen_ms: took_ms,
        sync_ms: 0.0,
        sealed_ms: 0.0,
    }
}
