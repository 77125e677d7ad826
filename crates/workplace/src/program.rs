//! The program: takes its order and works until PID 1 is gone or ends it.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::Duration;

use tokio::task::LocalSet;

use crate::hands::{Hands, HandsError};
use crate::serve::{ServeError, serve};

const FOR_EVER: Duration = Duration::from_hours(24 * 365);

/// How it is called.
pub const NAME: &str = "nacre-workplace";

/// By then a start is over.
const STARTED: Duration = Duration::from_secs(1);

/// The whole program. `settled` is called once it has started and waits for work.
pub fn main(settled: fn()) -> ExitCode {
    // Executed by descriptor, it would be called by a number.
    let _ = rustix::thread::set_name(c"nacre-workplace");
    match run(settled) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{NAME}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(settled: fn()) -> Result<(), ServeError> {
    let unreachable = |error| ServeError::Order(HandsError::Unreachable(error));
    let runner = std::io::stdin().as_fd().try_clone_to_owned();
    let (hands, order) = Hands::take(runner.map_err(unreachable)?).map_err(ServeError::Order)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(FOR_EVER)
        .build()
        .map_err(unreachable)?;
    // The thread that waits for the disk is had now: where somebody has taken every process there
    // is, asking for one would be our end.
    runtime.spawn_blocking(|| ());
    LocalSet::new().block_on(&runtime, async {
        tokio::task::spawn_local(async move {
            tokio::time::sleep(STARTED).await;
            settled();
        });
        serve(hands, order).await
    })
}
