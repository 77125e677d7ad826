//! Operations under way, written down before their first effect.
//!
//! The file is locked by the process that works on it. One that nobody has locked was left by a
//! process that died: whoever comes next finishes or undoes it (`operation::recover`).

use std::fs::File;

use camino::Utf8PathBuf;
use fs_err as fs;
use model::{Id, Snapshot};
use provider::{ProviderError, SandboxId};
use serde::{Deserialize, Serialize};

use crate::error::Doing as _;
use crate::home::{Home, Lock, aside, entries, read_json};
use crate::layer::LayerId;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "operation")]
pub(crate) enum Intent {
    Create {
        sandbox: SandboxId,
    },
    Pause {
        sandbox: SandboxId,
    },
    Resume {
        sandbox: SandboxId,
    },
    /// A live copy of the upper, with or without a snapshot record over it.
    Capture {
        sandbox: SandboxId,
        layer: LayerId,
        snapshot: Option<Id<Snapshot>>,
    },
    Stop {
        sandbox: SandboxId,
        layer: LayerId,
        snapshot: Id<Snapshot>,
        recovered: bool,
    },
    /// Sandboxes made from one captured layer; all of them or none.
    Fork {
        layer: LayerId,
        fork: String,
    },
    Remove {
        sandbox: SandboxId,
    },
    /// A layer being filled: a layer 0 unpacked, or a stack flattened.
    Import {
        layer: LayerId,
    },
    /// A snapshot being read: its layers stay, whoever removes it meanwhile.
    Export {
        export: Id<Snapshot>,
        layers: Vec<LayerId>,
    },
    /// A snapshot coming in: its layers stay until its record names them.
    Bring {
        snapshot: Id<Snapshot>,
        layers: Vec<LayerId>,
    },
}

/// An intent that we hold. Dropping it without [`Held::done`] leaves it for recovery, which is
/// what a failed operation wants too.
#[derive(Debug)]
pub(crate) struct Held {
    path: Utf8PathBuf,
    _lock: Lock,
}

impl Intent {
    /// Makes the intent durable against our own death, and ours alone.
    pub(crate) fn declare(&self, home: &Home) -> Result<Held, ProviderError> {
        let path = home.path(format!("intents/{}.json", self.file_name()));
        let json = serde_json::to_string(self)
            .map_err(|e| ProviderError::unavailable("writing an intent", e))?;
        // Locked before it has its name: an intent that can be seen is always locked.
        let (aside, file) = aside(home, &json).doing("writing an intent")?;
        // These alone tell where a disk went; a power cut must not take them.
        if matches!(self, Self::Stop { .. } | Self::Fork { .. }) {
            file.sync_all().doing("writing an intent")?;
        }
        let lock = Lock::try_file(file).ok_or_else(|| busy(&path))?;
        rustix::fs::renameat_with(
            rustix::fs::CWD,
            aside.as_std_path(),
            rustix::fs::CWD,
            path.as_std_path(),
            rustix::fs::RenameFlags::NOREPLACE,
        )
        .or_else(|error| {
            let _ = fs::remove_file(&aside);
            match error {
                rustix::io::Errno::EXIST => Err(busy(&path)),
                error => Err(error).doing("writing an intent"),
            }
        })?;
        Ok(Held { path, _lock: lock })
    }

    /// Whether a sandbox is on its way, or was left on it.
    pub(crate) fn is_creating(home: &Home, id: SandboxId) -> bool {
        let intent = Self::Create { sandbox: id };
        home.path(format!("intents/{}.json", intent.file_name()))
            .exists()
    }

    /// Whether a fork, known by its layer, is not finished yet.
    pub(crate) fn is_forking(home: &Home, fork: &str) -> bool {
        home.path(format!("intents/fork-{fork}.json")).exists()
    }

    /// Whether something was begun on a sandbox and neither finished nor undone.
    pub(crate) fn is_left(home: &Home, id: SandboxId) -> bool {
        ["pause", "resume", "stop", "remove"]
            .iter()
            .any(|operation| home.path(format!("intents/{operation}-{id}.json")).exists())
    }

    fn file_name(&self) -> String {
        match self {
            Self::Create { sandbox } => format!("create-{sandbox}"),
            Self::Pause { sandbox } => format!("pause-{sandbox}"),
            Self::Resume { sandbox } => format!("resume-{sandbox}"),
            Self::Capture { layer, .. } => format!("capture-{layer}"),
            Self::Stop { sandbox, .. } => format!("stop-{sandbox}"),
            Self::Fork { layer, .. } => format!("fork-{layer}"),
            Self::Remove { sandbox } => format!("remove-{sandbox}"),
            Self::Import { layer } => format!("import-{layer}"),
            Self::Export { export, .. } => format!("export-{export}"),
            Self::Bring { snapshot, .. } => format!("bring-{snapshot}"),
        }
    }
}

fn busy(path: &Utf8PathBuf) -> ProviderError {
    ProviderError::unavailable(
        format!("declaring {}", path.file_stem().unwrap_or_default()),
        "the same operation is already under way in another nacre process",
    )
}

impl Held {
    pub(crate) fn done(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Intents whose owners died, now ours.
pub(crate) fn abandoned(home: &Home) -> Result<Vec<(Intent, Held)>, ProviderError> {
    let mut found = Vec::new();
    for name in entries(&home.path("intents"))? {
        let path = home.path(format!("intents/{name}"));
        let Ok(file) = File::options().read(true).write(true).open(&path) else {
            continue;
        };
        let Some(lock) = Lock::try_file(file) else {
            continue;
        };
        // Between opening and locking, its owner may have finished, and another begun the same.
        if !lock.is_at(&path) {
            continue;
        }
        let intent = match read_json(&path) {
            Ok(Some(intent)) => intent,
            Ok(None) => continue,
            Err(error) => {
                // Torn by a power cut before it meant anything.
                tracing::warn!(%error, "an unreadable intent is dropped");
                let _ = fs::remove_file(&path);
                continue;
            }
        };
        found.push((intent, Held { path, _lock: lock }));
    }
    Ok(found)
}

/// Layers that operations under way are about to name.
pub(crate) fn layers_in_use(home: &Home) -> Result<Vec<LayerId>, ProviderError> {
    let mut layers = Vec::new();
    for name in entries(&home.path("intents"))? {
        match read_json(&home.path(format!("intents/{name}")))? {
            Some(
                Intent::Capture { layer, .. }
                | Intent::Stop { layer, .. }
                | Intent::Fork { layer, .. }
                | Intent::Import { layer },
            ) => layers.push(layer),
            Some(
                Intent::Export {
                    layers: several, ..
                }
                | Intent::Bring {
                    layers: several, ..
                },
            ) => layers.extend(several),
            Some(
                Intent::Create { .. }
                | Intent::Pause { .. }
                | Intent::Resume { .. }
                | Intent::Remove { .. },
            )
            | None => {}
        }
    }
    Ok(layers)
}
