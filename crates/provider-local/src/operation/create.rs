use std::os::unix::fs::DirBuilderExt as _;

use model::Id;
use provider::{Origin, ProviderError, Runtime, SandboxId, SandboxSpec};

use super::Engine;
use crate::egress::Grant;
use crate::error::Doing as _;
use crate::intent::Intent;
use crate::keeper::{Children, Waiting};
use crate::layer::LayerId;
use crate::record::{Record, State};
use crate::rootfs::{self, host};
use crate::runtime;
use crate::snapshot::SnapshotRecord;
use crate::{claim, egress};

/// A guard against fork bombs for those who set no limit.
const DEFAULT_PIDS: u64 = 4096;
/// The kernel takes 500 lower layers; a look-up passes through all of them.
pub(super) const MAX_STACK: usize = 64;

/// What a disk starts from, resolved.
#[derive(Debug, Clone)]
pub(crate) struct Stack {
    pub(crate) layers: Vec<LayerId>,
    pub(crate) host: Option<String>,
    /// A fork may reach what its origin may, whatever the configuration says by now.
    pub(crate) egress: Option<Grant>,
}

impl Engine {
    pub(crate) fn create(&self, spec: &SandboxSpec) -> Result<Record, ProviderError> {
        validate(spec)?;
        let stack = self.resolve(&spec.origin)?;
        self.create_on(spec, stack, None, None)
    }

    /// Goes on from a stopped sandbox's disk under its key.
    pub(crate) fn replace(
        &self,
        spec: &SandboxSpec,
        stopped: SandboxId,
    ) -> Result<Record, ProviderError> {
        validate(spec)?;
        let stack = self.resolve(&spec.origin)?;
        self.create_on(spec, stack, None, Some(stopped))
    }

    /// The layers that an origin stands for; imports a root file system if it must.
    pub(crate) fn resolve(&self, origin: &Origin) -> Result<Stack, ProviderError> {
        match origin {
            Origin::Bare => {
                let layer = host::ensure_skeleton(&self.home, &*self.clock)?;
                Ok(Stack {
                    layers: vec![layer],
                    host: Some(host::fingerprint()),
                    egress: None,
                })
            }
            Origin::Rootfs(path) => {
                let layer = rootfs::import(&self.home, &*self.clock, path)?;
                Ok(Stack {
                    layers: vec![layer],
                    host: None,
                    egress: None,
                })
            }
            Origin::Snapshot(id) => {
                let mut snapshot = SnapshotRecord::load(&self.home, id)?;
                if snapshot
                    .host
                    .as_ref()
                    .is_some_and(|made_on| *made_on != host::fingerprint())
                {
                    return Err(ProviderError::refused(format!(
                        "snapshot {id} rests on the /usr of another host (or of this one before it was reinstalled) and is of no use here"
                    )));
                }
                if snapshot.layers.len() > MAX_STACK {
                    snapshot = self.flatten(&snapshot)?;
                }
                Ok(Stack {
                    layers: snapshot.layers,
                    host: snapshot.host,
                    egress: None,
                })
            }
        }
    }

    pub(crate) fn create_on(
        &self,
        spec: &SandboxSpec,
        stack: Stack,
        fork: Option<String>,
        replaces: Option<SandboxId>,
    ) -> Result<Record, ProviderError> {
        let id: SandboxId = Id::new(&*self.clock);
        let intent = Intent::Create { sandbox: id }.declare(&self.home)?;
        model::failpoint::hit("create.intended");
        let keeper = self.keepers.spawn(&self.programs.keeper);
        match keeper
            .and_then(|keeper| self.create_declared(id, spec, stack, keeper, fork, replaces))
        {
            Ok(record) => {
                intent.done();
                model::failpoint::hit("create.finished");
                Ok(record)
            }
            Err(error) => {
                // If even this fails, the intent stays and the next start tries again.
                if self.undo_create(id).is_ok() {
                    intent.done();
                }
                Err(error)
            }
        }
    }

    fn create_declared(
        &self,
        id: SandboxId,
        spec: &SandboxSpec,
        stack: Stack,
        keeper: Waiting,
        fork: Option<String>,
        replaces: Option<SandboxId>,
    ) -> Result<Record, ProviderError> {
        let record = match self.record_new(id, spec, stack, fork, replaces) {
            Ok(record) => record,
            Err(error) => {
                Children::dismiss(keeper);
                return Err(error);
            }
        };
        self.launch(&record, keeper)?;
        model::failpoint::hit("create.launched");
        if let (Some(key), Some(stopped)) = (&record.key, replaces) {
            claim::transfer(&self.home, "keys", key, stopped, id)?;
        }
        model::failpoint::hit("create.running");
        Ok(record)
    }

    /// Claims what only one may have and writes the sandbox down.
    fn record_new(
        &self,
        id: SandboxId,
        spec: &SandboxSpec,
        stack: Stack,
        fork: Option<String>,
        replaces: Option<SandboxId>,
    ) -> Result<Record, ProviderError> {
        if let Some(name) = &spec.name {
            claim::claim(&self.home, "names", name, id)?;
        }
        if let Some(key) = &spec.key
            && replaces.is_none()
        {
            claim::claim(&self.home, "keys", key, id)?;
        }
        let first_id = self.ranges.claim(&self.home, id)?;
        model::failpoint::hit("create.claimed");
        let record = Record {
            id,
            name: spec.name.clone(),
            key: spec.key.clone(),
            labels: spec.labels.clone(),
            generation: spec.generation,
            created_at: self.clock.now(),
            boot: self.new_boot(),
            first_id,
            layers: stack.layers,
            host: stack.host,
            memory: spec.memory.map(model::ByteCount::bytes),
            pids: spec
                .pids
                .or_else(|| self.layout.can_limit_pids().then_some(DEFAULT_PIDS)),
            cpu_millis: spec.cpu_millis,
            disk: spec.disk.map(model::ByteCount::bytes),
            env: spec.env.clone(),
            network: spec.network,
            runtime: spec.runtime,
            egress: stack.egress.or_else(|| self.egress.grant(spec)),
            forwards: spec.forwards.clone(),
            workplace: spec.workplace.clone(),
            // So it is called once the intent to make it is gone; until then nobody sees it.
            state: State::Running,
            fork,
            replaces,
        };
        {
            let _layers = self.home.share_layers()?;
            for layer in &record.layers {
                crate::layer::check(&self.home, layer)?;
            }
            for layer in &record.layers {
                crate::layer::settle(&self.home, layer).doing(format!("settling layer {layer}"))?;
            }
            self.furnish(&record)
                .doing(format!("making sandbox {id}"))?;
            record.save(&self.home)?;
        }
        model::failpoint::hit("create.recorded");
        Ok(record)
    }

    /// The sandbox's directory with an empty disk.
    pub(crate) fn furnish(&self, record: &Record) -> std::io::Result<()> {
        let directory = self.home.sandbox(record.id);
        std::fs::DirBuilder::new().mode(0o700).create(&directory)?;
        crate::disk::make(&directory.join("disk"), record.disk)?;
        if record.egress.is_some() {
            std::fs::DirBuilder::new()
                .mode(0o700)
                .create(directory.join(egress::LOG))?;
            let passes = directory.join(egress::PASSES);
            std::fs::DirBuilder::new().mode(0o700).create(&passes)?;
            // Whoever is handed it may read it, whatever mask we run with; nobody gets there by its
            // path.
            rustix::fs::chmod(passes.as_std_path(), 0o755.into())?;
        }
        Ok(())
    }

    /// Takes back a sandbox that never got to run.
    pub(crate) fn undo_create(&self, id: SandboxId) -> Result<(), ProviderError> {
        if let Some(record) = Record::find_unfinished(&self.home, id)? {
            self.end(&record)?;
            if let (Some(key), Some(stopped)) = (&record.key, record.replaces) {
                claim::transfer(&self.home, "keys", key, id, stopped)?;
            }
        }
        crate::trash::put(&self.home, &self.home.sandbox(id))?;
        claim::release_all(&self.home, id)
    }
}

fn validate(spec: &SandboxSpec) -> Result<(), ProviderError> {
    let refuse = |reason: String| Err(ProviderError::refused(reason));
    if let Some(name) = &spec.name {
        let ok = (1..=63).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !name.starts_with('-');
        if !ok {
            return refuse(
                "a name is 1 to 63 lower-case letters, digits and dashes, and starts with none"
                    .to_owned(),
            );
        }
    }
    if spec.runtime == Runtime::Runsc && runtime::runsc().is_none() {
        return refuse(
            "gVisor's runsc is not on this machine: `nacre doctor --fix` installs it, or use --runtime native"
                .to_owned(),
        );
    }
    egress::validate(spec)?;
    let least = runtime::least_memory(spec.runtime);
    if spec.memory.is_some_and(|memory| memory < least) {
        return refuse(format!(
            "a sandbox of this runtime needs at least {least} of memory"
        ));
    }
    if spec.pids.is_some_and(|p| !(2..=4_194_304).contains(&p)) {
        return refuse("--pids is between 2 and 4194304".to_owned());
    }
    if spec
        .cpu_millis
        .is_some_and(|c| !(10..=4_096_000).contains(&c))
    {
        return refuse("--cpus is between 0.01 and 4096".to_owned());
    }
    if spec.disk.is_some_and(|d| d.bytes() < 1 << 20) {
        return refuse("a sandbox needs at least 1M of disk".to_owned());
    }
    if spec.labels.len() > 64
        || spec
            .labels
            .iter()
            .any(|(k, v)| k.is_empty() || k.len() > 128 || v.len() > 1024)
    {
        return refuse(
            "at most 64 labels, keys of 1 to 128 and values of at most 1024 bytes".to_owned(),
        );
    }
    if spec
        .key
        .as_ref()
        .is_some_and(|k| k.is_empty() || k.len() > 256)
    {
        return refuse("a key is 1 to 256 bytes".to_owned());
    }
    let env_bytes: usize = spec.env.iter().map(|(k, v)| k.len() + v.len()).sum();
    if env_bytes > 1 << 20
        || spec
            .env
            .keys()
            .any(|k| k.is_empty() || k.contains(['=', '\0']))
        || spec.env.values().any(|v| v.contains('\0'))
    {
        return refuse("the environment holds at most 1M, and names have no `=`".to_owned());
    }
    if spec.forwards.len() > 32 || spec.forwards.iter().any(|f| f.port == 0) {
        return refuse("at most 32 forwarded ports, none of them 0".to_owned());
    }
    Ok(())
}
