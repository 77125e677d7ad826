//! How soon a process gets its turn.

use rustix::process::Pid;

/// As long as a turn of a process may be, in nanoseconds, for it to come soon.
const TURN: u64 = 300_000;

/// `sched_attr` in its first version.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Short turns come sooner: what people wait for is carried past an agent that keeps every core busy.
/// Its share stays what it is. A kernel before 6.12 takes no notice.
#[expect(unsafe_code, reason = "sched_setattr has no safe form")]
pub(crate) fn take_short_turns(pid: Pid) {
    let Ok(nice) = rustix::process::getpriority_process(Some(pid)) else {
        return;
    };
    let attributes = Attributes {
        size: u32::try_from(size_of::<Attributes>()).expect("it is small"),
        policy: libc::SCHED_OTHER.unsigned_abs(),
        flags: 0,
        nice,
        priority: 0,
        runtime: TURN,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the kernel reads the structure, which is as long as it says, and keeps nothing of it.
    let _ = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            pid.as_raw_nonzero().get(),
            &raw const attributes,
            0,
        )
    };
}
