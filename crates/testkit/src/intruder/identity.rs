//! What we are: ids, capabilities, filter, and whether any of it can be raised.

use super::facts::Facts;
use super::sys::{Errno, NULL, sys};
use super::{Outcome, all, broke, denied, held};

/// What root of a sandbox has: `CHOWN`, `DAC_OVERRIDE`, `FOWNER`, `FSETID`, `KILL`, `SETGID`,
/// `SETUID`, `SETPCAP`, `NET_BIND_SERVICE`, `SYS_CHROOT`, `MKNOD`, `AUDIT_WRITE`, `SETFCAP`.
const CAPABILITIES: u64 = bits(&[0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 27, 29, 31]);
const IDS: u64 = 65_536;
const SYS_ADMIN: u32 = 21;

const fn bits(list: &[u32]) -> u64 {
    let mut all = 0;
    let mut index = 0;
    while index < list.len() {
        all |= 1 << list[index];
        index += 1;
    }
    all
}

/// A field of `/proc/self/status`.
fn status(field: &str) -> Option<String> {
    let status = fs_err::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

pub(crate) fn effective_capabilities() -> String {
    status("CapEff").unwrap_or_default()
}

fn capability_set(field: &str) -> Option<u64> {
    u64::from_str_radix(&status(field)?, 16).ok()
}

/// Root has exactly the documented set, everybody else has nothing; nobody can have more.
pub(crate) fn capabilities(_: &Facts) -> Outcome {
    let own = if rustix::process::geteuid().is_root() {
        CAPABILITIES
    } else {
        0
    };
    let expected = [
        ("CapBnd", CAPABILITIES),
        ("CapPrm", own),
        ("CapEff", own),
        ("CapInh", 0),
        ("CapAmb", 0),
    ];
    all(expected.map(|(field, expected)| {
        let outcome = match capability_set(field) {
            Some(found) if found == expected => held(format!("{found:#x}")),
            Some(found) => broke(format!("{found:#x}, expected {expected:#x}")),
            None => broke("it cannot be read"),
        };
        (field.to_owned(), outcome)
    }))
}

pub(crate) fn regain_capabilities(_: &Facts) -> Outcome {
    const VERSION_3: u32 = 0x2008_0522;
    const AMBIENT_RAISE: i32 = 2;
    let mut header = [0; 8];
    header[..4].copy_from_slice(&VERSION_3.to_ne_bytes());
    let everything = [0xff; 24];
    all([
        (
            "capset".to_owned(),
            denied(sys!(SYS_capset, &header, &everything)),
        ),
        (
            "ambient".to_owned(),
            denied(sys!(
                SYS_prctl,
                libc::PR_CAP_AMBIENT,
                AMBIENT_RAISE,
                SYS_ADMIN,
                0,
                0
            )),
        ),
        ("securebits".to_owned(), {
            // Dropping the bit that makes root special and setting it again gains nothing either way.
            let before = sys!(SYS_prctl, libc::PR_GET_SECUREBITS).unwrap_or(0);
            let _ = sys!(SYS_prctl, libc::PR_SET_SECUREBITS, before);
            match capability_set("CapEff") {
                Some(now) if now & (1 << SYS_ADMIN) == 0 => held("no more than before"),
                Some(now) => broke(format!("{now:#x}")),
                None => broke("it cannot be read"),
            }
        }),
    ])
}

pub(crate) fn seccomp_is_on(_: &Facts) -> Outcome {
    match status("Seccomp").as_deref() {
        Some("2") => held("filter"),
        other => broke(format!("Seccomp: {other:?}")),
    }
}

/// A filter can only be added to, never replaced by a laxer one.
pub(crate) fn seccomp_stays(_: &Facts) -> Outcome {
    // BPF_RET | BPF_K, SECCOMP_RET_ALLOW.
    let allow_all: [u8; 8] = [0x06, 0, 0, 0, 0, 0, 0xff, 0x7f];
    let mut program = [0; 16];
    program[0] = 1;
    program[8..].copy_from_slice(&allow_all.as_ptr().expose_provenance().to_ne_bytes());
    let _ = sys!(SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    let added = sys!(SYS_prctl, libc::PR_SET_SECCOMP, 2, &program);
    let after = sys!(SYS_add_key, c"user", c"nacre-intruder", b"x", 1, -2);
    match after {
        Err(errno @ Errno(libc::EPERM | libc::ENOSYS)) => {
            held(format!("adding one: {added:?}; afterwards: {errno}"))
        }
        other => broke(format!(
            "add_key is not filtered after adding a filter that allows all: {other:?}"
        )),
    }
}

/// The range covers 65,536 ids, and the host's root is none of them.
pub(crate) fn id_maps(_: &Facts) -> Outcome {
    all(["/proc/self/uid_map", "/proc/self/gid_map"].map(|path| {
        let outcome = match fs_err::read_to_string(path) {
            Ok(map) => check_map(&map),
            Err(error) => broke(error.to_string()),
        };
        (path.to_owned(), outcome)
    }))
}

fn check_map(map: &str) -> Outcome {
    let mut total = 0;
    for line in map.lines() {
        let numbers: Vec<u64> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let [_, outside, count] = numbers[..] else {
            return broke(format!("cannot be read: {line:?}"));
        };
        if outside == 0 {
            return broke(format!("holds the host's root: {line:?}"));
        }
        total += count;
    }
    if total == IDS {
        held(map.trim())
    } else {
        broke(format!("{total} ids"))
    }
}

pub(crate) fn ids_beyond_the_map(_: &Facts) -> Outcome {
    all([65_536_u32, 100_000, 4_294_967_294]
        .map(|id| (id.to_string(), denied(sys!(SYS_setresuid, id, id, id)))))
}

pub(crate) fn hard_limits(_: &Facts) -> Outcome {
    let limits = [
        ("files", libc::RLIMIT_NOFILE),
        ("processes", libc::RLIMIT_NPROC),
        ("locked memory", libc::RLIMIT_MEMLOCK),
        ("signals", libc::RLIMIT_SIGPENDING),
        ("message queues", libc::RLIMIT_MSGQUEUE),
        ("priority", libc::RLIMIT_RTPRIO),
        ("nice", libc::RLIMIT_NICE),
    ];
    all(limits.map(|(name, resource)| {
        let mut limit = [0; 16];
        let _ = sys!(SYS_prlimit64, 0, resource, NULL, &mut limit);
        let mut hard = [0; 8];
        hard.copy_from_slice(&limit[8..]);
        let hard = u64::from_ne_bytes(hard);
        let outcome = match hard.checked_add(1) {
            Some(more) => {
                limit[8..].copy_from_slice(&more.to_ne_bytes());
                denied(sys!(SYS_prlimit64, 0, resource, &limit, NULL))
            }
            None => held("there is none to raise"),
        };
        (format!("{name} above {hard}"), outcome)
    }))
}

/// Going first is not for sandboxes: real time would stop the host's own processes.
pub(crate) fn priorities(_: &Facts) -> Outcome {
    const IOPRIO_REAL_TIME: i32 = 1 << 13;
    const SCHED_DEADLINE: u32 = 6;
    let mut deadline = [0; 48];
    deadline[..4].copy_from_slice(&48_u32.to_ne_bytes());
    deadline[4..8].copy_from_slice(&SCHED_DEADLINE.to_ne_bytes());
    for (place, value) in [(24, 1_000_000_u64), (32, 100_000_000), (40, 100_000_000)] {
        deadline[place..place + 8].copy_from_slice(&value.to_ne_bytes());
    }
    all([
        (
            "FIFO".to_owned(),
            denied(sys!(
                SYS_sched_setscheduler,
                0,
                libc::SCHED_FIFO,
                &1_i32.to_ne_bytes()
            )),
        ),
        (
            "round robin".to_owned(),
            denied(sys!(
                SYS_sched_setscheduler,
                0,
                libc::SCHED_RR,
                &1_i32.to_ne_bytes()
            )),
        ),
        (
            "deadline".to_owned(),
            denied(sys!(SYS_sched_setattr, 0, &deadline, 0)),
        ),
        ("nice".to_owned(), denied(sys!(SYS_setpriority, 0, 0, -5))),
        (
            "disk".to_owned(),
            denied(sys!(SYS_ioprio_set, 1, 0, IOPRIO_REAL_TIME)),
        ),
    ])
}

/// Where this process's memory begins, which it would lie about to the host's tools.
pub(crate) fn memory_layout(_: &Facts) -> Outcome {
    const SET_MM: i32 = 35;
    const START_CODE: i32 = 1;
    denied(sys!(SYS_prctl, SET_MM, START_CODE, 0x40_0000, 0, 0))
}

/// Last to be killed when memory is short: the value may be raised, never lowered.
pub(crate) fn never_out_of_memory(_: &Facts) -> Outcome {
    match fs_err::write("/proc/self/oom_score_adj", "-1000") {
        Ok(()) => broke("it worked"),
        Err(error) => held(error.to_string()),
    }
}
