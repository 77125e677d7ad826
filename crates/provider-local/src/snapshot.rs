//! Snapshot records: a named stack of layers.

use camino::Utf8PathBuf;
use fs_err as fs;
use model::{Id, Snapshot, SnapshotId, SnapshotKind, Timestamp};
use provider::{ProviderError, SandboxId};
use serde::{Deserialize, Serialize};

use crate::error::Doing as _;
use crate::home::{Home, entries, read_json, write_json};
use crate::layer::LayerId;

pub(crate) const PROVIDER: &str = "local";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SnapshotRecord {
    pub(crate) id: SnapshotId,
    pub(crate) name: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) sandbox: Option<SandboxId>,
    pub(crate) recovered: bool,
    /// The topmost first.
    pub(crate) layers: Vec<LayerId>,
    /// Set when the stack rests on the host's own `/usr`: then it is of use on this host alone.
    pub(crate) host: Option<String>,
    /// Computed in the background.
    pub(crate) digest: Option<Digest>,
    /// What it was made by, where that says everything that is in it.
    #[serde(default)]
    pub(crate) recipe: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Digest {
    pub(crate) value: String,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

impl SnapshotRecord {
    pub(crate) fn path(home: &Home, id: Id<Snapshot>) -> Utf8PathBuf {
        home.path(format!("snapshots/{id}.json"))
    }

    pub(crate) fn find(home: &Home, id: Id<Snapshot>) -> Result<Option<Self>, ProviderError> {
        read_json(&Self::path(home, id))
    }

    /// Refuses an id that another provider made.
    pub(crate) fn load(home: &Home, id: &SnapshotId) -> Result<Self, ProviderError> {
        if id.provider != PROVIDER {
            return Err(ProviderError::refused(format!(
                "snapshot {id} belongs to provider `{}`; export it there and import it here",
                id.provider
            )));
        }
        let what = || format!("snapshot {id}");
        match fs::read(Self::path(home, id.id)) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| {
                let how = format!("its record cannot be read: {error}");
                ProviderError::damaged(what(), how)
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(ProviderError::not_found(what()))
            }
            Err(error) => Err(error).doing(format!("reading {}", what())),
        }
    }

    pub(crate) fn save(&self, home: &Home) -> Result<(), ProviderError> {
        write_json(home, &Self::path(home, self.id.id), self)
    }

    pub(crate) fn remove(&self, home: &Home) {
        let _ = fs::remove_file(Self::path(home, self.id.id));
    }

    /// Those that can be read: one damaged record must not hide the others.
    pub(crate) fn readable(home: &Home) -> Result<Vec<Self>, ProviderError> {
        let mut found = Vec::new();
        for name in entries(&home.path("snapshots"))? {
            match read_json::<Self>(&home.path(format!("snapshots/{name}"))) {
                Ok(record) => found.extend(record),
                Err(error) => tracing::warn!(%error, "a snapshot's record cannot be read"),
            }
        }
        Ok(found)
    }

    /// One that a recipe made, whoever has its name now.
    pub(crate) fn made_by(home: &Home, recipe: &str) -> Result<Option<Self>, ProviderError> {
        let all = Self::readable(home)?;
        Ok(all
            .into_iter()
            .find(|record| record.recipe.as_deref() == Some(recipe)))
    }

    /// Every one, or none: for deciding what nobody names.
    pub(crate) fn all(home: &Home) -> Result<Vec<Self>, ProviderError> {
        let mut found = Vec::new();
        for name in entries(&home.path("snapshots"))? {
            found.extend(read_json::<Self>(&home.path(format!("snapshots/{name}")))?);
        }
        Ok(found)
    }
}

pub(crate) fn disk_id(id: Id<Snapshot>) -> SnapshotId {
    SnapshotId {
        provider: PROVIDER.to_owned(),
        kind: SnapshotKind::Disk,
        id,
    }
}

pub(crate) fn base_id(id: Id<Snapshot>) -> SnapshotId {
    SnapshotId {
        provider: PROVIDER.to_owned(),
        kind: SnapshotKind::Base,
        id,
    }
}
