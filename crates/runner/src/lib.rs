//! PID 1 of a sandbox. It reaps, starts commands and moves files for the host; the
//! protocol is [`wire::guest`].
//!
//! ```text
//! main ── accept ── operation ── exec ─── command + spawn + pump   a command and its streams
//!   │                        └── files ── a child with the user's ids does the work
//!   ├─ SIGCHLD ── reaper ── group   what an operation started, in a cgroup of its own
//!   └─ workplace ── the program that serves people and agents, started again when it dies
//! ```
//!
//! One thread, always: a process is cloned from here and goes on running this program's code, which
//! is sound only while no other thread can hold a lock. Whatever the sandbox's disk says is hostile.

mod clone;
pub mod code;
mod command;
mod exec;
mod failure;
mod files;
mod group;
mod identity;
mod inherited;
mod operation;
mod proc;
mod pump;
mod reaper;
mod serve;
mod spawn;
mod stdio;
mod stream;
mod terminate;
mod users;
mod workplace;

use std::io::Write as _;
use std::process::ExitCode;

/// The whole program.
pub fn main() -> ExitCode {
    // Executed by descriptor, it would be called by a number.
    let _ = rustix::thread::set_name(c"nacre-runner");
    match serve::start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "nacre-runner: {error}");
            ExitCode::FAILURE
        }
    }
}
