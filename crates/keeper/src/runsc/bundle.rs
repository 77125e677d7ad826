//! The bundle: what runsc reads to know what to run.

use serde_json::{Value, json};
use wire::guest::{CONFIG_FD, DOORS, READY_FD};
use wire::keeper::Launch;

use super::{CONFIG, READY, place};
use crate::capabilities;

/// The runner's place inside. gVisor reads what it runs, so unlike in the native runtime it has one.
const RUNNER: &str = "/run/nacre/nacre";

pub(super) fn arguments(launch: &Launch) -> Vec<String> {
    let options = [
        format!("--root=/{}", place::STATE),
        // The sandbox's own network namespace, which it is in.
        "--network=host".to_owned(),
        // Straight to the upper, where snapshots look.
        "--overlay2=none".to_owned(),
        // Its own cache of what files are like does not know that two names are one file.
        "--file-access=shared".to_owned(),
        // The keeper put it into the sandbox's.
        "--ignore-cgroups".to_owned(),
        // The doors, and the runner's own socket.
        "--host-uds=all".to_owned(),
        "--platform=systrap".to_owned(),
        "run".to_owned(),
        format!("--bundle=/{}", place::BUNDLE),
        format!("--pass-fd={CONFIG}:{CONFIG_FD}"),
        format!("--pass-fd={READY}:{READY_FD}"),
        launch.sandbox.clone(),
    ];
    std::iter::once("runsc".to_owned()).chain(options).collect()
}

pub(super) fn specification(launch: &Launch) -> Value {
    let capabilities: Vec<&str> = capabilities::ALLOWED
        .iter()
        .map(|(_, name)| *name)
        .collect();
    let memory = |destination: &str, options: &[&str]| {
        json!({
            "destination": destination,
            "type": "tmpfs",
            "source": "tmpfs",
            "options": options,
        })
    };
    let size = format!("size={}", launch.shm_bytes);
    let env = format!("{DOORS}/env");
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "args": [RUNNER],
            "env": [],
            "cwd": "/",
            "capabilities": {
                "bounding": &capabilities,
                "effective": &capabilities,
                "permitted": &capabilities,
            },
            "rlimits": limits(launch),
        },
        "root": { "path": format!("/{}", place::ROOT) },
        "hostname": &launch.hostname,
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"] },
            memory("/dev", &["mode=0755"]),
            memory("/dev/shm", &["nosuid", "nodev", "noexec", "mode=1777", &size]),
            memory("/run", &["nosuid", "nodev", "mode=0755", &size]),
            {
                // What is read-only in it is so by its mounts: one part is not, until it is up.
                "destination": DOORS,
                "type": "bind",
                "source": format!("/{}", place::DOORS),
                "options": ["rbind", "rw", "nosuid", "nodev"],
            },
            memory(&env, &["nosuid", "nodev", "noexec", "mode=0711", "size=1m"]),
        ],
        "linux": {
            "namespaces": [
                { "type": "pid" }, { "type": "mount" }, { "type": "ipc" }, { "type": "uts" },
            ],
        },
    })
}

/// The cgroup counts gVisor's own threads too, so that what is inside is counted there. Nobody
/// inside can raise it without `CAP_SYS_RESOURCE`.
fn limits(launch: &Launch) -> Vec<Value> {
    let limit = |most| json!({ "type": "RLIMIT_NPROC", "hard": most, "soft": most });
    launch.processes_per_user.into_iter().map(limit).collect()
}
