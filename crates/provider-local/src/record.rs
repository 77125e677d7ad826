//! What is written down about a sandbox.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use model::{Boot, Id, SnapshotId, Timestamp};
use provider::{
    Forward, Kept, Network, ProviderError, Runtime, Sandbox, SandboxId, SandboxState, Workplace,
};
use serde::{Deserialize, Serialize};
use wire::keeper::{Exit, Running};

use crate::egress::Grant;
use crate::home::{Home, read_json, write_json};
use crate::intent::Intent;
use crate::layer::LayerId;
use crate::runtime;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: SandboxId,
    pub(crate) name: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) generation: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) boot: Id<Boot>,
    pub(crate) first_id: u32,
    /// The stack it was started on, the topmost first.
    pub(crate) layers: Vec<LayerId>,
    /// Set when the stack rests on the host's own `/usr`.
    pub(crate) host: Option<String>,
    pub(crate) memory: Option<u64>,
    pub(crate) pids: Option<u64>,
    pub(crate) cpu_millis: Option<u64>,
    pub(crate) disk: Option<u64>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) network: Network,
    #[serde(default)]
    pub(crate) runtime: Runtime,
    /// What it may reach, where it has a way out.
    #[serde(default)]
    pub(crate) egress: Option<Grant>,
    pub(crate) forwards: Vec<Forward>,
    #[serde(default)]
    pub(crate) workplace: Option<Workplace>,
    pub(crate) state: State,
    /// The fork operation that made it, so that half a fork can be undone.
    #[serde(default)]
    pub(crate) fork: Option<String>,
    /// The stopped sandbox whose key it takes over, so that a failure gives the key back.
    #[serde(default)]
    pub(crate) replaces: Option<SandboxId>,
}

/// What we mean the sandbox to be; what it is comes from [`Record::observe`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Running,
    Paused,
    /// Ended on purpose, the disk left.
    Ended,
    Stopped {
        snapshot: SnapshotId,
    },
}

impl Record {
    pub(crate) fn path(home: &Home, id: SandboxId) -> Utf8PathBuf {
        home.sandbox(id).join("record.json")
    }

    /// A sandbox that is being made, or was left half-made, is not there for anyone but its maker.
    pub(crate) fn find(home: &Home, id: SandboxId) -> Result<Option<Self>, ProviderError> {
        let record = Self::find_unfinished(home, id)?;
        let hidden = |record: &Self| {
            Intent::is_creating(home, id)
                || record
                    .fork
                    .as_ref()
                    .is_some_and(|fork| Intent::is_forking(home, fork))
        };
        Ok(record.filter(|record| !hidden(record)))
    }

    pub(crate) fn find_unfinished(
        home: &Home,
        id: SandboxId,
    ) -> Result<Option<Self>, ProviderError> {
        read_json(&Self::path(home, id))
    }

    pub(crate) fn load(home: &Home, id: SandboxId) -> Result<Self, ProviderError> {
        Self::find(home, id)?.ok_or_else(|| ProviderError::not_found(format!("sandbox {id}")))
    }

    pub(crate) fn save(&self, home: &Home) -> Result<(), ProviderError> {
        write_json(home, &Self::path(home, self.id), self)
    }

    /// Intent and reality together.
    pub(crate) fn observe(&self, home: &Home) -> SandboxState {
        let alive = process(home, self.id).is_some();
        match &self.state {
            State::Stopped { snapshot } => SandboxState::Stopped {
                snapshot: snapshot.clone(),
            },
            State::Paused => SandboxState::Paused {
                kept: if alive { Kept::Memory } else { Kept::Disk },
            },
            State::Running if alive => {
                if home.sandbox(self.id).join("frozen.json").exists() {
                    SandboxState::Paused { kept: Kept::Memory }
                } else {
                    SandboxState::Running
                }
            }
            // Frozen over a limit, and then gone to disk as any paused one does.
            State::Running if self.went_to_disk(home) => SandboxState::Paused { kept: Kept::Disk },
            State::Running | State::Ended => SandboxState::Ended,
        }
    }

    fn went_to_disk(&self, home: &Home) -> bool {
        read_json::<Exit>(&home.sandbox(self.id).join("exit.json"))
            .ok()
            .flatten()
            .is_some_and(|exit| exit.reason.as_deref() == Some("to_disk"))
    }

    pub(crate) fn describe(&self, home: &Home) -> Sandbox {
        Sandbox {
            id: self.id,
            name: self.name.clone(),
            key: self.key.clone(),
            state: self.observe(home),
            generation: self.generation,
            runtime: self.runtime,
            isolation: runtime::isolation(self.runtime),
            labels: self.labels.clone(),
            created_at: self.created_at,
            expires_at: None,
        }
    }
}

/// The sandbox's PID 1, if it is alive: same boot of the host, same process, not a zombie.
pub(crate) fn process(home: &Home, id: SandboxId) -> Option<Running> {
    let running: Running = read_json(&home.sandbox(id).join("keeper.json")).ok()??;
    if running.host_boot != host_boot() {
        return None;
    }
    let stat = fs_err::read_to_string(format!("/proc/{}/stat", running.pid)).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let started: u64 = fields.nth(18)?.parse().ok()?;
    (state != "Z" && state != "X" && started == running.started).then_some(running)
}

/// Another value after each start of the machine.
pub(crate) fn host_boot() -> String {
    fs_err::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use model::{Id, SystemClock};

    use super::*;

    #[test]
    fn a_number_that_another_process_has_by_now_is_not_taken_for_the_sandbox() {
        let place = camino_tempfile::tempdir().unwrap();
        let home = Home::open(place.path()).unwrap();
        let id: SandboxId = Id::new(&SystemClock);
        fs_err::create_dir_all(home.sandbox(id)).unwrap();
        let stat = fs_err::read_to_string("/proc/self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let started: u64 = fields.split_whitespace().nth(19).unwrap().parse().unwrap();
        let ours = Running {
            keeper: 1,
            pid: rustix::process::getpid().as_raw_pid(),
            started,
            host_boot: host_boot(),
        };
        let is_alive = |running: &Running| {
            let json = serde_json::to_string(running).unwrap();
            fs_err::write(home.sandbox(id).join("keeper.json"), json).unwrap();
            process(&home, id).is_some()
        };
        assert!(is_alive(&ours));
        let earlier = Running {
            started: started - 1,
            ..ours.clone()
        };
        assert!(!is_alive(&earlier), "a process that began later");
        let before = Running {
            host_boot: "another start of the machine".to_owned(),
            ..ours.clone()
        };
        assert!(!is_alive(&before), "a process of another start");
        let nobody = Running {
            pid: i32::MAX,
            ..ours
        };
        assert!(!is_alive(&nobody));
    }
}
