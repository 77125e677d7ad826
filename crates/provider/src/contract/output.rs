//! Reading what a command writes.

use super::wait::soon;
use crate::{Exec, ExecOutput, Finished, ProviderError};

/// Output up to the end of a line.
pub(super) async fn next_line(exec: &mut Exec) -> String {
    let mut line = Vec::new();
    let read = async {
        while !line.ends_with(b"\n") {
            match exec.output.recv().await {
                Some(Ok(ExecOutput::Stdout(bytes))) => line.extend_from_slice(&bytes),
                other => panic!("no line, but {other:?}"),
            }
        }
    };
    soon("a line of output", read).await;
    String::from_utf8_lossy(&line).into_owned()
}

/// A start that may be refused at once, or in the place of the first output.
pub(super) async fn first_refusal(
    started: Result<Exec, ProviderError>,
) -> Result<(), ProviderError> {
    match soon("the first output", started?.output.recv()).await {
        Some(Err(error)) => Err(error),
        _ => Ok(()),
    }
}

impl Exec {
    /// Everything up to the exit, without a word on the input.
    pub(super) async fn finish_reading(mut self) -> Finished {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            match self.output.recv().await {
                Some(Ok(ExecOutput::Stdout(bytes))) => stdout.extend_from_slice(&bytes),
                Some(Ok(ExecOutput::Stderr(bytes))) => stderr.extend_from_slice(&bytes),
                Some(Ok(ExecOutput::Exit(exit))) => {
                    return Finished {
                        exit,
                        stdout,
                        stderr,
                    };
                }
                other => panic!("no exit, but {other:?}"),
            }
        }
    }
}
