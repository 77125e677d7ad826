//! The keeper: launches one local sandbox and stays with it until it ends.
//!
//! ```text
//! nacre ──spawns──► nacre-keeper ──clone3──► nacre-runner (PID 1 of the sandbox)
//!   │  Launch on stdin     │                      │
//!   └──── keeper.sock ─────┘                      │
//!   └──── guest.sock, listening, inherited ───────┘
//! ```
//!
//! It is its own small static program because it must have one thread (so that `clone3` is sound),
//! must outlive every `nacre` process, and there is one for each sandbox, so it must be light. It
//! freezes and thaws, ends the sandbox and tells when its disk is unmounted, holds the doors and
//! forwards, runs the proxy of a sandbox
//! with a way out, and watches the disk limit. Commands and files go straight from `nacre` to the runner.

mod capabilities;
mod cgroup;
mod disk;
mod egress;
mod forward;
mod inside;
mod launch;
mod memory;
mod mounts;
mod runsc;
mod sandbox;
mod serve;
mod shown;
mod sys;

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;

use wire::Frame;
use wire::keeper::{Reply, Start};

fn main() -> ExitCode {
    sys::ignore_signals(true);
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    // It does little and is waited for: a busy sandbox must not keep it from its turn.
    let _ = rustix::process::setpriority_process(None, -5);
    let Ok(host) = rustix::io::fcntl_dupfd_cloexec(std::io::stdin().as_fd(), 3) else {
        return ExitCode::from(2);
    };
    match start(&host) {
        Ok(serving) => {
            detach_streams();
            serving.run();
            ExitCode::SUCCESS
        }
        Err((stage, error)) => {
            let failed = Reply::Failed {
                stage: stage.to_owned(),
                message: error.to_string(),
            };
            let _ = wire::pass::send(&host, &Frame::control(&failed), &[]);
            ExitCode::FAILURE
        }
    }
}

fn start(host: &OwnedFd) -> Result<serve::Serving, inside::Failed> {
    let Ok(Some((frame, fds))) = wire::pass::receive(host) else {
        return Err((
            "reading the order",
            std::io::Error::other("nacre-keeper is started by nacre alone"),
        ));
    };
    model::failpoint::hit("keeper.started");
    let (serving, launched, is_new) = match frame
        .message()
        .map_err(|e| ("reading the order", std::io::Error::other(e)))?
    {
        Start::Launch(order) => {
            let (serving, launched) = launch::launch(order, fds.first())?;
            (serving, launched, true)
        }
        Start::Adopt { order, paused } => {
            let (serving, launched) = launch::adopt(order, paused)?;
            (serving, launched, false)
        }
    };
    model::failpoint::hit("keeper.ready");
    match wire::pass::send(host, &Frame::control(&Reply::Launched(launched)), &[]) {
        Err(error) if is_new => {
            // Whoever ordered it is gone and will never know of it.
            serving.abandon();
            Err(("answering", std::io::Error::other(error)))
        }
        // An adopted sandbox needs its keeper whoever asked for one.
        Ok(()) | Err(_) => Ok(serving),
    }
}

/// Nothing of the process that started us stays open.
fn detach_streams() {
    use rustix::fs::{Mode, OFlags, open};
    if let Ok(null) = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
