use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::ProviderError;

pub use self::size::WindowSize;

mod size {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct WindowSize {
        pub rows: u16,
        pub columns: u16,
    }
}

/// A command to run. Arguments, directory and environment are bytes, as the kernel takes them.
#[derive(Debug, Clone, Default)]
pub struct ExecSpec {
    pub argv: Vec<Vec<u8>>,
    pub cwd: Option<Vec<u8>>,
    pub env: BTreeMap<Vec<u8>, Vec<u8>>,
    /// A name known in the sandbox, `uid` or `uid:gid`. Default: root.
    pub user: Option<String>,
    pub pty: Option<WindowSize>,
    /// Past it the command and everything it started are killed.
    pub timeout: Option<Duration>,
    /// The command outlives the handle; its output is discarded.
    pub detach: bool,
}

impl ExecSpec {
    pub fn new<A: AsRef<[u8]>>(argv: impl IntoIterator<Item = A>) -> Self {
        Self {
            argv: argv.into_iter().map(|a| a.as_ref().to_vec()).collect(),
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecInput {
    Data(Bytes),
    Eof,
    Resize(WindowSize),
    Signal(i32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecOutput {
    Stdout(Bytes),
    Stderr(Bytes),
    /// Always the last, once.
    Exit(Exit),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code, or 128 and the signal's number.
    pub code: i32,
    pub signal: Option<i32>,
    pub timed_out: bool,
}

/// A command under way. Both queues are bounded: a command that writes faster than it is read
/// waits, and so does a caller that writes faster than the command reads.
#[derive(Debug)]
pub struct Exec {
    /// Process id inside the sandbox, where the provider knows it.
    pub pid: Option<i32>,
    pub input: mpsc::Sender<ExecInput>,
    pub output: mpsc::Receiver<Result<ExecOutput, ProviderError>>,
}

/// How many pieces of input or output may wait.
pub const EXEC_QUEUE: usize = 16;

/// A command that has ended, with all it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub exit: Exit,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Exec {
    /// Ends the input and collects everything until the exit.
    pub async fn finish(mut self) -> Result<Finished, ProviderError> {
        // The command may have ended already; then nobody reads this, and that is fine.
        let _ = self.input.send(ExecInput::Eof).await;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        while let Some(output) = self.output.recv().await {
            match output? {
                ExecOutput::Stdout(bytes) => stdout.extend_from_slice(&bytes),
                ExecOutput::Stderr(bytes) => stderr.extend_from_slice(&bytes),
                ExecOutput::Exit(exit) => {
                    return Ok(Finished {
                        exit,
                        stdout,
                        stderr,
                    });
                }
            }
        }
        Err(ProviderError::unavailable(
            "exec",
            "the sandbox went away before the command ended",
        ))
    }
}
