//! Looking at what is there: sandboxes and snapshots by name, digests, usage, garbage.

use std::sync::Arc;

use model::{Secret, SnapshotId};
use portable::{Control, Packing, Source, Target};
use provider::{Edge, ProviderError, SandboxId};

use crate::error::Doing as _;
use crate::home::read_json;
use crate::operation::Engine;
use crate::record::{Record, process};
use crate::snapshot::SnapshotRecord;
use crate::{
    Collected, Details, Duplicates, Exported, Local, SnapshotInfo, Usage, Verified, claim, layer,
};

impl Local {
    /// By id, by name, or by a prefix of the id that fits only one.
    pub fn find_sandbox(&self, text: &str) -> Result<SandboxId, ProviderError> {
        let not_found = || ProviderError::not_found(format!("sandbox {text}"));
        if let Ok(id) = text.parse() {
            return Record::load(&self.engine.home, id).map(|record| record.id);
        }
        let is_name =
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if is_name && let Some(id) = claim::holder(&self.engine.home, "names", text)? {
            return Ok(id);
        }
        let records = self.engine.records()?;
        // A stopped one has given its name up, but is still called by it until somebody takes it.
        if let Some(stopped) = records
            .iter()
            .rev()
            .find(|record| record.name.as_deref() == Some(text))
        {
            return Ok(stopped.id);
        }
        let found: Vec<SandboxId> = records
            .into_iter()
            .map(|record| record.id)
            .filter(|id| text.len() >= 8 && id.to_string().starts_with(text))
            .collect();
        match found[..] {
            [id] => Ok(id),
            [] => Err(not_found()),
            _ => Err(ProviderError::refused(format!(
                "`{text}` fits {} sandboxes: give more of the id",
                found.len()
            ))),
        }
    }

    /// By id, with or without its provider and kind, by name, or by a prefix that fits only one.
    pub fn find_snapshot(&self, text: &str) -> Result<SnapshotId, ProviderError> {
        if let Ok(id) = text.parse() {
            return SnapshotRecord::load(&self.engine.home, &id).map(|record| record.id);
        }
        let all = SnapshotRecord::readable(&self.engine.home)?;
        if let Some(record) = all.iter().find(|s| s.name.as_deref() == Some(text)) {
            return Ok(record.id.clone());
        }
        let fits = |id: &SnapshotId| {
            text.len() >= 8
                && (id.to_string().starts_with(text) || id.id.to_string().starts_with(text))
        };
        let mut found: Vec<SnapshotId> = all.into_iter().map(|s| s.id).filter(fits).collect();
        match (found.pop(), found.is_empty()) {
            (Some(id), true) => Ok(id),
            (None, _) => Err(ProviderError::not_found(format!("snapshot {text}"))),
            (Some(_), false) => Err(ProviderError::refused(format!(
                "`{text}` fits several snapshots: give more of the id"
            ))),
        }
    }

    pub async fn show(&self, id: SandboxId) -> Result<Details, ProviderError> {
        self.blocking(move |engine| {
            let record = Record::load(&engine.home, id)?;
            Ok(details(engine, &record))
        })
        .await
    }

    /// What lets people and hubs in at a workplace's ports, from which tokens are made. `None` for
    /// a sandbox that is no workplace.
    pub fn workplace_secret(&self, id: SandboxId) -> Result<Option<Secret>, ProviderError> {
        let record = Record::load(&self.engine.home, id)?;
        let order = self.engine.workplace(&record);
        Ok(order.and_then(|order| order.secret).map(Secret::new))
    }

    /// What the sandbox's proxy decided, the oldest first.
    pub async fn egress_log(
        &self,
        id: SandboxId,
    ) -> Result<Vec<::egress::log::Record>, ProviderError> {
        self.blocking(move |engine| {
            let record = Record::load(&engine.home, id)?;
            if record.egress.is_none() {
                return Err(ProviderError::refused(format!(
                    "sandbox {id} has no proxy: it was made without `--net proxy`"
                )));
            }
            let directory = engine.home.sandbox(id).join(crate::egress::LOG);
            ::egress::log::read(directory.as_std_path()).doing("reading the proxy's log")
        })
        .await
    }

    pub async fn snapshots(&self) -> Result<Vec<SnapshotInfo>, ProviderError> {
        self.blocking(|engine| {
            Ok(SnapshotRecord::readable(&engine.home)?
                .into_iter()
                .map(info)
                .collect())
        })
        .await
    }

    pub async fn show_snapshot(&self, id: &SnapshotId) -> Result<SnapshotInfo, ProviderError> {
        let id = id.clone();
        self.blocking(move |engine| SnapshotRecord::load(&engine.home, &id).map(info))
            .await
    }

    /// Computes the digest if nobody has yet.
    pub async fn digest_snapshot(&self, id: &SnapshotId) -> Result<SnapshotInfo, ProviderError> {
        let id = id.clone();
        self.blocking(move |engine| {
            let record = SnapshotRecord::load(&engine.home, &id)?;
            if record.digest.is_some() {
                Ok(info(record))
            } else {
                engine.digest(&id).map(info)
            }
        })
        .await
    }

    /// Computes every digest that is missing, unless another process is at it.
    pub async fn digest_missing(&self) -> Result<(), ProviderError> {
        self.blocking(Engine::digest_missing).await
    }

    /// Reads everything again and compares with what is recorded.
    pub async fn verify_snapshot(&self, id: &SnapshotId) -> Result<Verified, ProviderError> {
        let id = id.clone();
        let mut verified = self
            .blocking(move |engine| engine.verify(&[id], &Control::default()))
            .await?;
        verified
            .pop()
            .ok_or_else(|| ProviderError::unavailable("verifying", "nothing was read"))
    }

    /// The same for every snapshot; what they share is read once.
    pub async fn verify_all(&self, control: Arc<Control>) -> Result<Vec<Verified>, ProviderError> {
        self.blocking(move |engine| {
            let ids: Vec<SnapshotId> = SnapshotRecord::all(&engine.home)?
                .into_iter()
                .map(|record| record.id)
                .collect();
            engine.verify(&ids, &control)
        })
        .await
    }

    /// Sends a snapshot to a place, computing its digest first if nobody has yet. It can be
    /// cancelled through `control`.
    pub async fn export(
        &self,
        id: &SnapshotId,
        mut target: Box<dyn Target>,
        packing: Packing,
        control: Arc<Control>,
    ) -> Result<Exported, ProviderError> {
        let id = id.clone();
        self.blocking(move |engine| engine.export(&id, &mut *target, packing, &control))
            .await
    }

    /// Takes a snapshot in, under a name or its own.
    pub async fn import(
        &self,
        mut source: Box<dyn Source>,
        name: Option<&str>,
        control: Arc<Control>,
    ) -> Result<SnapshotInfo, ProviderError> {
        let name = name.map(str::to_owned);
        self.blocking(move |engine| {
            engine
                .import(&mut *source, name.as_deref(), &control)
                .map(info)
        })
        .await
    }

    pub async fn usage(&self) -> Result<Usage, ProviderError> {
        self.blocking(crate::usage::measure).await
    }

    /// Looks for equal files in the layers, reading those of equal size.
    pub async fn duplicates(&self) -> Result<Duplicates, ProviderError> {
        self.blocking(crate::usage::duplicates).await
    }

    /// Seals disks of dead sandboxes, gives orphans a keeper, and deletes what no record has named
    /// for a day.
    pub async fn collect_garbage(&self) -> Result<Collected, ProviderError> {
        self.blocking(|engine| {
            engine.adopt()?;
            let recovered = engine.seal_the_dead()?;
            let (layers, bytes) = layer::collect(&engine.home, &*engine.clock)?;
            Ok(Collected {
                layers,
                bytes,
                recovered,
            })
        })
        .await
    }

    /// What lets in at the edge ports of a sandbox, if it has a workplace.
    pub fn edge(&self, id: SandboxId) -> Result<Option<Edge>, ProviderError> {
        let record = Record::load(&self.engine.home, id)?;
        let edge = self.engine.workplace(&record).and_then(|order| {
            Some(Edge {
                session: order.session?,
                secret: Secret::new(order.secret?),
            })
        });
        Ok(edge)
    }

    /// The snapshot named `base`, if there is one.
    pub fn base(&self) -> Result<Option<SnapshotId>, ProviderError> {
        let all = SnapshotRecord::readable(&self.engine.home)?;
        Ok(all
            .into_iter()
            .find(|s| s.name.as_deref() == Some("base"))
            .map(|s| s.id))
    }
}

fn details(engine: &Engine, record: &Record) -> Details {
    let directory = engine.home.sandbox(record.id);
    let sandbox = record.describe(&engine.home);
    let reason = |name: &str| {
        read_json::<serde_json::Value>(&directory.join(name))
            .ok()
            .flatten()?
            .get("reason")?
            .as_str()
            .map(str::to_owned)
    };
    Details {
        reason: reason("frozen.json").or_else(|| reason("exit.json")),
        sandbox,
        first_id: record.first_id,
        pid: process(&engine.home, record.id).map(|running| running.pid),
        layers: record.layers.len(),
        memory: record.memory,
        pids: record.pids,
        cpu_millis: record.cpu_millis,
        disk: record.disk,
    }
}

pub(crate) fn info(record: SnapshotRecord) -> SnapshotInfo {
    let digest = record.digest.as_ref();
    SnapshotInfo {
        digest: digest.map(|d| d.value.clone()),
        bytes: digest.map(|d| d.bytes),
        files: digest.map(|d| d.files),
        kind: record.id.kind.as_str().to_owned(),
        name: record.name,
        created_at: record.created_at,
        sandbox: record.sandbox,
        recovered: record.recovered,
        layers: record.layers.iter().map(ToString::to_string).collect(),
        id: record.id,
    }
}
