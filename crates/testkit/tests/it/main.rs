//! The real probe and the fake provider's simulated one say the same.

#![expect(clippy::unwrap_used, reason = "tests")]

mod hub;

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use camino_tempfile::Utf8TempDir;
use provider::fake::Fake;
use provider::{ExecSpec, Finished, Origin, Provider as _, SandboxId, SandboxSpec, probe};

struct Both {
    directory: Utf8TempDir,
    fake: Fake,
    sandbox: SandboxId,
}

impl Both {
    async fn new() -> Self {
        let directory = Utf8TempDir::new().unwrap();
        let fake = Fake::default();
        let sandbox = fake
            .create(&SandboxSpec::from(Origin::Bare))
            .await
            .unwrap()
            .id;
        let both = Self {
            directory,
            fake,
            sandbox,
        };
        // A temporary directory is private; say so on either side.
        both.agree("mkdir @ 700").await;
        both
    }

    /// Runs a line, `@` standing for the directory, as both and compares what can be seen.
    async fn agree(&self, line: &str) -> Finished {
        let at = |place: &str| {
            line.split(' ')
                .map(|word| word.replace('@', place))
                .collect()
        };
        let real = Self::real(at(self.directory.path().as_str()));
        let simulated = self.simulated(at("/contract")).await;
        let seen = |of: &Finished| {
            let complains = !of.stderr.is_empty();
            (
                of.exit.code,
                of.exit.signal,
                complains,
                String::from_utf8_lossy(&of.stdout).into_owned(),
            )
        };
        assert_eq!(seen(&simulated), seen(&real), "{line}");
        real
    }

    fn real(args: Vec<String>) -> Finished {
        let output = Command::new(env!("CARGO_BIN_EXE_nacre-probe"))
            .args(args)
            .output()
            .unwrap();
        let signal = output.status.signal();
        let code = output
            .status
            .code()
            .unwrap_or_else(|| 128 + signal.unwrap());
        let exit = provider::Exit {
            code,
            signal,
            timed_out: false,
        };
        Finished {
            exit,
            stdout: output.stdout,
            stderr: output.stderr,
        }
    }

    async fn simulated(&self, args: Vec<String>) -> Finished {
        let line = std::iter::once(probe::PATH.to_owned()).chain(args);
        let exec = self
            .fake
            .exec(self.sandbox, ExecSpec::new(line))
            .await
            .unwrap();
        exec.finish().await.unwrap()
    }
}

#[tokio::test]
async fn they_agree_on_what_a_command_writes_and_how_it_ends() {
    let both = Both::new().await;
    for line in [
        "out 0",
        "out 100000",
        "err oyster",
        "exit 0",
        "exit 42",
        "exit 255",
        "die 9",
        "die 15",
        "cat",
        "args",
        "args a  b",
        "sleep 1",
        "forks 3",
        "alloc 2",
        "tty",
        "dance",
        "out",
        "exit many",
        "read @/nowhere",
        "manifest @/nowhere",
        "door no-such-door",
    ] {
        both.agree(line).await;
    }
}

#[tokio::test]
async fn they_agree_on_files() {
    let both = Both::new().await;
    for line in [
        "all mkdir @/d/e ; write @/d/e/f text ; append @/d/e/f s ; append @/d/new x",
        "read @/d/e/f",
        "all chmod @/d/e/f 4711 ; mkdir @/sticky 1777 ; setxattr @/d/e/f user.grain sand",
        "all link @/d/e/f @/d/g ; symlink e/f @/d/link ; symlink /nowhere @/broken",
        "read @/d/link",
        "read @/broken",
        "all mkfifo @/fifo ; socket @/socket ; sparse @/sparse 8388608",
        "manifest @",
        "rmdir @/d",
        "rm @/d",
        "rm @/nowhere",
        "rmtree @/nowhere",
        "mv @/nowhere @/somewhere",
        "link @/nowhere @/somewhere",
        "symlink x @/broken",
        "mkfifo @/fifo",
        "write @/d text",
        "write @/no/such/place text",
        "append @/d text",
        "mkdir @/fifo",
        "mkdir @/fifo/x",
        "chmod @/nowhere 600",
        "all write @/before x ; rm @/nowhere ; write @/after x",
        "manifest @",
        "all mv @/d/e @/moved ; write @/other y ; mv @/other @/moved/f ; rm @/d/link",
        "mv @/sticky @/d",
        "mv @/d @/sticky",
        "manifest @/sticky",
        "fill @/full 2",
        "rm @/full",
        "manifest @",
        "rmtree @/sticky",
        "manifest @",
        "manifest @/moved/f",
    ] {
        both.agree(line).await;
    }
}

#[tokio::test]
async fn they_agree_on_what_only_root_may_do() {
    let both = Both::new().await;
    if !rustix::process::getuid().is_root() {
        return;
    }
    for line in [
        "all write @/f x ; chown @/f 12 34 ; symlink f @/link ; chown @/link 5 6 ; setcap @/f",
        "manifest @",
    ] {
        both.agree(line).await;
    }
}
