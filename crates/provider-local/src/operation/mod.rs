//! What can be done to a sandbox. Each operation is a row of steps with fail points between them;
//! `recover` says for each what happens when the process died in the middle.
//!
//! ```text
//!            create                pause
//!   (none) ─────────► running ◄──────────────► paused ──(a time, or memory scarce)──► paused, disk
//!                        │  ▲       resume        │                                      │
//!                        │  └─────────────────────┴──────────────────────────────────────┘
//!          terminate,    │  stop (from any of these): sealed as a snapshot
//!          crash, reboot ▼                    ▲
//!                      ended ─────────────────┘          remove: gone, from any state
//! ```
//!
//! | operation | killed in the middle, the next start … |
//! |---|---|
//! | create | removes it: nobody was told of it |
//! | pause | freezes it |
//! | resume | thaws it, or leaves it paused on disk |
//! | capture (snapshot) | drops the copy unless the snapshot was recorded; the keeper has thawed it |
//! | stop | ends, seals, records: the same snapshot id |
//! | fork | removes the children and the copy |
//! | remove | removes the rest |
//! | import (of a layer) | drops the half-made layer |
//! | export | nothing: what was sent stays, and is found by the next export |
//! | bring (import of a snapshot) | drops its layers unless the snapshot was recorded |

mod create;
mod export;
mod fork;
mod import;
mod pause;
mod recover;
mod remove;
mod snapshot;
mod stop;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use model::{Boot, Clock, Id};
use provider::{LinkBy, Network, ProviderError, Runtime, SandboxId};
use wire::guest;
use wire::keeper::{Egress, INSIDE_PATH, Launch, Reply, Request, Start};

use crate::cgroup::{Group, Layout, Limits};
use crate::claim::{IDS_PER_SANDBOX, Ranges};
use crate::disk;
use crate::egress::EgressSettings;
use crate::embedded::Programs;
use crate::error::Doing as _;
use crate::home::Home;
use crate::keeper::{Children, Keeper, Waiting};
use crate::layer;
use crate::master::Master;
use crate::netns::Pool;
use crate::record::{Record, State, process};
use crate::rootfs::host;
use crate::runtime;

/// As every command has it that is told nothing else.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The id of a sandbox's range that its proxy runs as: nobody's inside, and no other sandbox's.
const EGRESS_USER: u32 = 65_533;

/// Everything an operation needs.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    pub(crate) home: Home,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) layout: Layout,
    pub(crate) ranges: Arc<Ranges>,
    pub(crate) programs: Programs,
    pub(crate) networks: Pool,
    pub(crate) keepers: Arc<Children>,
    pub(crate) to_disk_after: Duration,
    pub(crate) egress: Arc<EgressSettings>,
    pub(crate) master: Arc<Master>,
    /// Goes when the last clone of this goes.
    pub(crate) _group: Arc<Group>,
}

impl Engine {
    pub(crate) fn limits(record: &Record) -> Limits {
        Limits {
            memory: record.memory,
            pids: record
                .pids
                .map(|pids| runtime::tasks_of_the_host(record.runtime, pids)),
            cpu_millis: record.cpu_millis,
        }
    }

    pub(crate) fn cgroups(&self, record: &Record) -> wire::keeper::Cgroups {
        self.layout.of(&self.home, record.id, Self::limits(record))
    }

    /// Brings the processes of a recorded sandbox up on its disk.
    fn launch(&self, record: &Record, keeper: Waiting) -> Result<(), ProviderError> {
        match self.prepare_launch(record) {
            Ok((order, network)) => {
                let result = self
                    .keepers
                    .order(keeper, record.id, &Start::Launch(order), network);
                if result.is_err() {
                    // The keeper ended what it began; the empty directories are ours.
                    let _ = crate::cgroup::end(&self.cgroups(record));
                }
                result.map(|_| ())
            }
            Err(error) => {
                Children::dismiss(keeper);
                Err(error)
            }
        }
    }

    fn prepare_launch(&self, record: &Record) -> Result<(Launch, Option<OwnedFd>), ProviderError> {
        let network = match record.network {
            Network::Host => None,
            Network::None | Network::Proxy => {
                Some(self.networks.take().doing("making a network namespace")?)
            }
        };
        let order = self.order(record);
        self.layout.create(&order.cgroups, Self::limits(record))?;
        model::failpoint::hit("create.cgroups");
        Ok((order, network))
    }

    fn order(&self, record: &Record) -> Launch {
        let directory = self.home.sandbox(record.id);
        let hostname = record.name.clone().unwrap_or_else(|| short(record.id));
        let egress = record.egress.as_ref().map(|grant| Egress {
            program: self.programs.egress.to_string(),
            order: self
                .egress
                .order(grant, &directory, record.first_id + EGRESS_USER),
        });
        let mut env = BTreeMap::new();
        let mut files = Vec::new();
        if egress.is_some() {
            files = self.egress.files();
            env = self.egress.environment(&files);
        }
        if record.workplace.is_some() {
            env.insert("PATH".to_owned(), format!("{INSIDE_PATH}:{PATH}"));
        }
        env.extend(record.env.clone());
        Launch {
            sandbox: record.id.to_string(),
            layers: record
                .layers
                .iter()
                .map(|id| layer::files(&self.home, id).into_string())
                .collect(),
            disk: directory.join("disk").into_string(),
            apart: disk::apart(&directory.join("disk")),
            runner: self.programs.guest.to_string(),
            workplace: self.programs.guest.to_string(),
            inside: record
                .workplace
                .as_ref()
                .map(|_| self.programs.inside.to_string()),
            runtime: runtime_of(record),
            binds: if record.host.is_some() {
                host::binds()
            } else {
                Vec::new()
            },
            identity: identity(record.id, &hostname),
            first_id: record.first_id,
            ids: IDS_PER_SANDBOX,
            hostname,
            cgroups: self.cgroups(record),
            host_network: record.network == Network::Host,
            forwards: record
                .forwards
                .iter()
                .map(|f| wire::keeper::Forward {
                    port: f.port,
                    to: f.to,
                })
                .collect(),
            shm_bytes: record
                .memory
                .map_or(256 << 20, |memory| (memory / 2).max(1 << 20)),
            processes_per_user: record.pids,
            disk_limit: record
                .disk
                .filter(|_| !disk::keeps_limit(&directory.join("disk"))),
            to_disk_after_ms: u64::try_from(self.to_disk_after.as_millis()).unwrap_or(u64::MAX),
            config: guest::Config {
                sandbox: record.id.to_string(),
                generation: record.generation,
                boot: record.boot.to_string(),
                env: environment(&env),
                listen: None,
                scaffold: Vec::new(),
                workplace: self.workplace(record),
            },
            egress,
            files,
            dir: directory.into_string(),
        }
    }

    pub(crate) fn workplace(&self, record: &Record) -> Option<wire::workplace::Order> {
        let workplace = record.workplace.as_ref()?;
        let own = record.id.to_string();
        let session = workplace.session.as_ref().unwrap_or(&own);
        Some(wire::workplace::Order {
            sandbox: own.clone(),
            generation: record.generation,
            boot: record.boot.to_string(),
            session: Some(session.clone()),
            link: Some(match workplace.link {
                LinkBy::Door => wire::workplace::Link::Door,
                LinkBy::Hub => wire::workplace::Link::Listen,
            }),
            secret: Some(self.master.of_generation(session, record.generation)),
            journal_key: Some(self.master.of_journal(session)),
        })
    }

    /// A connection to the keeper of a living sandbox, which gets a new one if its own is gone.
    pub(crate) fn keeper(&self, record: &Record) -> Result<Keeper, ProviderError> {
        let directory = self.home.sandbox(record.id);
        if let Some(keeper) = Keeper::reach(&directory)? {
            return Ok(keeper);
        }
        if process(&self.home, record.id).is_none() {
            return Err(ProviderError::unavailable(
                format!("reaching sandbox {}", record.id),
                "its processes are gone",
            ));
        }
        let order = self.order(record);
        let paused = record.state == State::Paused || directory.join("frozen.json").exists();
        let waiting = self.keepers.spawn(&self.programs.keeper)?;
        self.keepers
            .order(waiting, record.id, &Start::Adopt { order, paused }, None)?;
        Keeper::connect(&directory).doing("reaching the new keeper")
    }

    /// Stands a running sandbox still for as long as the connection is held. If the keeper dies
    /// between freezing and answering, its successor lets the sandbox go on.
    pub(crate) fn freeze(&self, record: &Record, keeper: &Keeper) -> Result<u64, ProviderError> {
        match keeper.ask(&Request::Freeze) {
            Ok(Reply::Frozen { took_us }) => Ok(took_us),
            Ok(_) => Err(ProviderError::unavailable(
                "freezing",
                "the keeper gave another answer",
            )),
            Err(error) => {
                let _ = self.keeper(record);
                Err(error)
            }
        }
    }

    pub(crate) fn new_boot(&self) -> Id<Boot> {
        Id::new(&*self.clock)
    }

    /// Ends the processes, if there are any, and waits until the disk is free.
    fn end(&self, record: &Record) -> Result<Option<wire::keeper::Ended>, ProviderError> {
        let mut ended = None;
        if process(&self.home, record.id).is_some() {
            match self.keeper(record) {
                Ok(keeper) => ended = keeper.end()?,
                // It ended by itself while we asked.
                Err(_) if process(&self.home, record.id).is_none() => {}
                Err(error) => return Err(error),
            }
        }
        // What a half-started launch or a killed keeper may have left; nothing, mostly.
        crate::cgroup::end(&self.cgroups(record))?;
        self.keepers.join(record.id);
        Ok(ended)
    }
}

fn runtime_of(record: &Record) -> wire::keeper::Runtime {
    match record.runtime {
        Runtime::Native => wire::keeper::Runtime::Native,
        Runtime::Runsc => wire::keeper::Runtime::Runsc {
            // Removed since: whoever starts it says so, and what runs needs it no more.
            program: runtime::runsc().map_or_else(|| "runsc".to_owned(), String::from),
        },
    }
}

/// The last eight characters: the random part.
fn short(id: SandboxId) -> String {
    let text = id.to_string();
    format!("sbx-{}", &text[text.len() - 8..])
}

/// A fork must not be mistaken for its origin by anything that asks who it is.
fn identity(id: SandboxId, hostname: &str) -> Vec<(String, String)> {
    let hosts =
        format!("127.0.0.1 localhost {hostname}\n::1 localhost ip6-localhost ip6-loopback\n");
    let resolver = "# Names are resolved outside, by the egress door.\n".to_owned();
    let machine = format!("{}\n", id.uuid().simple());
    [
        ("/etc/hostname", format!("{hostname}\n")),
        ("/etc/hosts", hosts),
        ("/etc/machine-id", machine),
        ("/etc/resolv.conf", resolver),
    ]
    .map(|(path, content)| (path.to_owned(), content))
    .into()
}

fn environment(env: &BTreeMap<String, String>) -> Vec<(wire::Raw, wire::Raw)> {
    env.iter()
        .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
        .collect()
}
