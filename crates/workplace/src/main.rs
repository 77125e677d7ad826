//! The program: takes its order and works until PID 1 is gone.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use tokio::task::LocalSet;
use workplace::hands::{Hands, HandsError};
use workplace::serve::{ServeError, serve};

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

fn run() -> Result<(), ServeError> {
    let unreachable = |error| ServeError::Order(HandsError::Unreachable(error));
    let runner = std::io::stdin().as_fd().try_clone_to_owned();
    let (hands, order) = Hands::take(runner.map_err(unreachable)?).map_err(ServeError::Order)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(unreachable)?;
    match LocalSet::new().block_on(&runtime, serve(hands, order))? {}
}
