//! A command that is run to its end for its output.

use std::convert::Infallible;

use wire::Raw;
use wire::guest::{Exec, FailedKind};

use crate::hands::{Hands, HandsError, Output, Running, Said};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The exit code, or 128 and the signal's number. Zero when it was cut short for its output.
    pub code: i32,
    pub stdout: Vec<u8>,
    /// Its last bytes.
    pub stderr: Vec<u8>,
    /// There was more output than was asked for; the command was ended.
    pub cut: bool,
    pub timed_out: bool,
}

/// What is kept of a command's complaints.
const STDERR: usize = 16 << 10;

/// Runs it and keeps at most `limit` bytes of what it writes to its output.
pub async fn run(hands: &Hands, exec: Exec, limit: usize) -> Result<Outcome, HandsError> {
    run_with(hands, exec, limit, |_| ()).await
}

/// As [`run`], for a command that reads.
pub async fn run_fed(
    hands: &Hands,
    exec: Exec,
    food: &[u8],
    limit: usize,
) -> Result<Outcome, HandsError> {
    let Running {
        output, mut input, ..
    } = hands.exec(exec).await?;
    // One that wants no more is not done yet: only its end counts.
    let feeding = async {
        let _ = input.write(food).await;
        let _ = input.end().await;
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        outcome = collect(output, limit, |_| ()) => outcome,
        never = feeding => match never {},
    }
}

/// As [`run`], and shows what it writes to standard error as it comes.
pub async fn run_with(
    hands: &Hands,
    exec: Exec,
    limit: usize,
    complaint: impl FnMut(&[u8]),
) -> Result<Outcome, HandsError> {
    let mut running = hands.exec(exec).await?;
    let _ = running.input.end().await;
    // Its input is held until the end: a command whose connection is half closed is ended.
    collect(running.output, limit, complaint).await
}

async fn collect(
    mut output: Output,
    limit: usize,
    mut complaint: impl FnMut(&[u8]),
) -> Result<Outcome, HandsError> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match output.next().await? {
            Said::Stdout(bytes) => {
                let room = limit - stdout.len();
                stdout.extend_from_slice(&bytes[..bytes.len().min(room)]);
                if bytes.len() > room {
                    return Ok(Outcome {
                        code: 0,
                        stdout,
                        stderr,
                        cut: true,
                        timed_out: false,
                    });
                }
            }
            Said::Stderr(bytes) => {
                complaint(&bytes);
                stderr.extend(bytes);
                let excess = stderr.len().saturating_sub(STDERR);
                stderr.drain(..excess);
            }
            Said::Exited(exited) => {
                return Ok(Outcome {
                    code: exited.code,
                    stdout,
                    stderr,
                    cut: false,
                    timed_out: exited.timed_out,
                });
            }
        }
    }
}

/// A command of the sandbox's user.
pub fn exec_as(user: &str, argv: impl IntoIterator<Item = impl Into<Raw>>) -> Exec {
    Exec {
        argv: argv.into_iter().map(Into::into).collect(),
        cwd: None,
        env: Vec::new(),
        user: Some(user.to_owned()),
        pty: None,
        timeout_ms: None,
        detach: false,
    }
}

/// Whether asking again later may help.
pub fn may_pass(error: &HandsError) -> bool {
    match error {
        HandsError::Failed(failed) => failed.kind == FailedKind::Exhausted,
        _ => true,
    }
}
