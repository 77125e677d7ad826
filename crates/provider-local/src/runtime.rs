//! The two runtimes: what each can do, and where the second one's program is.

use camino::{Utf8Path, Utf8PathBuf};
use model::ByteCount;
use provider::{Capabilities, Capability, Isolation, Limits, Runtime, Strength, Survives};

use crate::cgroup::{Controller, Layout};

/// Where a package or an administrator puts a program.
const PLACES: [&str; 4] = ["/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin"];

/// gVisor's program, if this machine has it.
pub(crate) fn runsc() -> Option<Utf8PathBuf> {
    PLACES
        .iter()
        .map(|place| Utf8Path::new(place).join("runsc"))
        .find(|path| path.is_file())
}

/// How many of the host's processes and threads a sandbox's own may take. gVisor has some thirty of
/// its own and two for each of the sandbox's, more while those are busy.
pub(crate) fn tasks_of_the_host(runtime: Runtime, pids: u64) -> u64 {
    match runtime {
        Runtime::Native => pids,
        Runtime::Runsc => pids.saturating_mul(4).saturating_add(256),
    }
}

/// What its own processes take, and room for a command.
pub(crate) fn least_memory(runtime: Runtime) -> ByteCount {
    ByteCount::new(match runtime {
        Runtime::Native => 4 << 20,
        Runtime::Runsc => 64 << 20,
    })
}

pub(crate) fn isolation(runtime: Runtime) -> Isolation {
    match runtime {
        Runtime::Native => Isolation::SharedKernel,
        Runtime::Runsc => Isolation::UserKernel,
    }
}

/// What the contract suite proves of a runtime on a machine with these cgroups and this store.
pub(crate) fn capabilities(runtime: Runtime, layout: &Layout, disk: Strength) -> Capabilities {
    let limit = |controller: &Controller| match controller {
        Controller::Absent => Strength::None,
        Controller::Unified | Controller::Legacy(_) => Strength::Hard,
    };
    Capabilities {
        can: vec![
            Capability::Pause,
            Capability::LiveSnapshot,
            Capability::Fork,
            Capability::Exec,
            Capability::Dial,
            Capability::Serve,
            Capability::Egress,
        ],
        max_lifetime: None,
        survives_resume: Survives::DiskAndMemory,
        limits: Limits {
            memory: limit(&layout.memory),
            pids: limit(&layout.pids),
            cpu: limit(&layout.cpu),
            disk,
        },
        isolation: isolation(runtime),
    }
}
