//! The program: takes its order and works until PID 1 is gone.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use workplace::hands::{Hands, HandsError};

fn main() -> ExitCode {
    // Executed by descriptor, it would be called by a number.
    let _ = rustix::thread::set_name(c"nacre-workplace");
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "nacre-workplace: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), HandsError> {
    let runner = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(HandsError::Unreachable)?;
    let (_hands, _order) = Hands::take(runner)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(HandsError::Unreachable)?;
    runtime.block_on(std::future::pending())
}
