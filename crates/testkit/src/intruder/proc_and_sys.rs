//! The kernel's own files: what they tell about the host, and what they let one set.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use fs_err::os::unix::fs::OpenOptionsExt as _;

use super::facts::Facts;
use super::{Outcome, all, broke, held};

/// Held when the file is missing, cannot be opened, is covered by the null device, or is empty.
fn hidden(path: &str) -> Outcome {
    let opened = fs_err::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) => return held(error.to_string()),
    };
    match file.metadata() {
        Ok(found) if found.rdev() == libc::makedev(1, 3) => return held("covered"),
        // Reading the kernel's messages takes them away from whoever waits for them.
        Ok(_) if path.ends_with("kmsg") => return broke("it opens"),
        Ok(found) if found.is_dir() => {
            let entries = fs_err::read_dir(path).into_iter().flatten().count();
            return if entries == 0 {
                held("empty")
            } else {
                broke(format!("{entries} entries"))
            };
        }
        _ => {}
    }
    match file.read(&mut [0; 16]) {
        Ok(0) => held("empty"),
        Ok(length) => broke(format!("{length} bytes of it")),
        Err(error) => held(error.to_string()),
    }
}

fn each_hidden(paths: &[&str]) -> Outcome {
    all(paths.iter().map(|path| ((*path).to_owned(), hidden(path))))
}

pub(crate) fn kernel_memory(_: &Facts) -> Outcome {
    each_hidden(&[
        "/proc/kcore",
        "/proc/kpagecount",
        "/proc/kpageflags",
        "/proc/vmallocinfo",
        "/proc/slabinfo",
    ])
}

pub(crate) fn kernel_messages(_: &Facts) -> Outcome {
    each_hidden(&["/proc/kmsg", "/dev/kmsg"])
}

pub(crate) fn kernel_keys(_: &Facts) -> Outcome {
    each_hidden(&["/proc/keys", "/proc/key-users"])
}

/// Other people's processes and timers, and the machine's hardware.
pub(crate) fn tell_tales(_: &Facts) -> Outcome {
    each_hidden(&[
        "/proc/timer_list",
        "/proc/timer_stats",
        "/proc/sched_debug",
        "/proc/latency_stats",
        "/proc/acpi",
        "/proc/scsi",
        "/proc/asound",
        "/sys/firmware",
        "/sys/devices/virtual/powercap",
        "/sys/kernel/debug",
        "/sys/kernel/tracing",
        "/sys/kernel/security",
    ])
}

/// Opened, and not written to: a single letter restarts the machine.
pub(crate) fn sysrq(_: &Facts) -> Outcome {
    writable("/proc/sysrq-trigger")
}

/// Opens for writing and writes nothing.
fn writable(path: &str) -> Outcome {
    match fs_err::OpenOptions::new().write(true).open(path) {
        Ok(file)
            if file
                .metadata()
                .is_ok_and(|found| found.rdev() == libc::makedev(1, 3)) =>
        {
            held("covered")
        }
        Ok(_) => broke("it opens for writing"),
        Err(error) => held(error.to_string()),
    }
}

/// Writes back what it read.
fn settable(path: &str) -> Outcome {
    let Ok(value) = fs_err::read(path) else {
        return held("it cannot be read");
    };
    let written = fs_err::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(&value));
    match written {
        Ok(()) => broke("it can be written"),
        Err(error) => held(error.to_string()),
    }
}

pub(crate) fn kernel_settings(_: &Facts) -> Outcome {
    let settings = [
        "kernel/core_pattern",
        "kernel/modprobe",
        "kernel/hotplug",
        "kernel/randomize_va_space",
        "kernel/pid_max",
        "kernel/panic",
        "kernel/dmesg_restrict",
        "kernel/perf_event_paranoid",
        "kernel/unprivileged_bpf_disabled",
        "kernel/yama/ptrace_scope",
        "kernel/hostname",
        "kernel/domainname",
        "kernel/shmmax",
        "kernel/ns_last_pid",
        "vm/overcommit_memory",
        "vm/mmap_min_addr",
        "vm/panic_on_oom",
        "vm/max_map_count",
        "fs/file-max",
        "fs/protected_symlinks",
        "fs/suid_dumpable",
        "fs/inotify/max_user_instances",
        "fs/binfmt_misc/register",
        "user/max_user_namespaces",
        "net/ipv4/ip_forward",
    ];
    let settings = settings
        .map(|name| format!("/proc/sys/{name}"))
        .into_iter()
        .filter(|path| Path::new(path).exists());
    all(settings.map(|path| {
        let outcome = if path.ends_with("register") {
            writable(&path)
        } else {
            settable(&path)
        };
        (path, outcome)
    }))
}

/// Programs that the kernel starts as root of the host.
pub(crate) fn kernel_helpers(_: &Facts) -> Outcome {
    let paths = [
        "/sys/kernel/uevent_helper",
        "/sys/kernel/security/apparmor/.replace",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/poweroff_cmd",
    ];
    all(paths.map(|path| (path.to_owned(), writable(path))))
}

pub(crate) fn write_to_sys(_: &Facts) -> Outcome {
    let paths = [
        "/sys/power/state",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/kernel/mm/ksm/run",
        "/sys/module/kernel/parameters/panic",
        "/sys/class/net/lo/mtu",
        "/sys/block/vda/queue/scheduler",
        "/sys/devices/system/cpu/cpu1/online",
        "/sys/bus/pci/rescan",
    ];
    let files = paths.map(|path| (path.to_owned(), writable(path)));
    let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(4);
        let (point, options) = (fields.next()?, fields.next()?);
        let below_sys = point == "/sys" || point.starts_with("/sys/");
        let read_only = options.split(',').any(|option| option == "ro");
        let outcome = if read_only {
            held("read-only")
        } else {
            broke("mounted to be written")
        };
        below_sys.then(|| (point.to_owned(), outcome))
    });
    all(files.into_iter().chain(mounts))
}

/// Control groups are the host's business: none in sight, and ours looks like the root.
pub(crate) fn control_groups(_: &Facts) -> Outcome {
    let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?;
        after
            .starts_with("cgroup")
            .then(|| (point.to_owned(), broke("control groups are mounted there")))
    });
    let directory =
        match fs_err::read_dir("/sys/fs/cgroup").map(|entries| entries.flatten().count()) {
            Ok(count @ 1..) => broke(format!("{count} entries")),
            Ok(0) => held("empty"),
            Err(error) => held(error.to_string()),
        };
    let helper = [
        "/sys/fs/cgroup/release_agent",
        "/sys/fs/cgroup/memory/release_agent",
        "/sys/fs/cgroup/cgroup.procs",
    ]
    .map(|path| (path.to_owned(), writable(path)));
    all(mounted
        .chain([("/sys/fs/cgroup".to_owned(), directory)])
        .chain(helper))
}

/// The sandbox's own is the root of what we see. The runner may have put us one step below it,
/// so that it can end us; the host's would be further up or further down.
pub(crate) fn own_control_group(_: &Facts) -> Outcome {
    let groups = match fs_err::read_to_string("/proc/self/cgroup") {
        Ok(groups) => groups.trim().replace('\n', " "),
        Err(error) => return held(error.to_string()),
    };
    let ours = |line: &str| match line.strip_prefix("0::/") {
        Some(below) => !below.contains('/') && below != "..",
        None => line.ends_with(":/"),
    };
    if groups.split(' ').all(ours) {
        held(groups)
    } else {
        broke(groups)
    }
}
