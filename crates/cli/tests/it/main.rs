//! The binary as its user meets it.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod approving;
mod attacks;
mod bad_input;
mod based;
mod bench;
mod browser;
mod canary;
mod configuration;
mod crash;
mod doctor;
mod exec;
mod front;
mod help;
mod hostile;
mod keyboard;
mod moving;
mod opening;
mod prove;
mod sandbox;
mod sessions;
mod ssh;
mod story;
mod tools;
mod transcripts;
mod usage;
mod waiting;
mod way_out;
mod workbench;
mod workplace;
mod world;

// The server's own tests call it so, and their world is used here too.
extern crate server as nacre_server;

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

use camino::{Utf8Path, Utf8PathBuf};

/// `nacre` with a home and nothing of the tester's environment.
struct Nacre {
    home: Home,
    variables: Vec<(String, String)>,
}

enum Home {
    /// Goes with the test.
    Own(camino_tempfile::Utf8TempDir),
    /// Stays for the next run.
    Shared(Utf8PathBuf),
}

impl Home {
    fn path(&self) -> &Utf8Path {
        match self {
            Self::Own(directory) => directory.path(),
            Self::Shared(path) => path,
        }
    }
}

impl Nacre {
    fn new() -> Self {
        // Sockets live below the home, and their paths have room for 107 bytes.
        let home = camino_tempfile::Builder::new()
            .prefix("n")
            .rand_bytes(4)
            .tempdir()
            .unwrap();
        Self {
            home: Home::Own(home),
            variables: Vec::new(),
        }
    }

    fn at(home: Utf8PathBuf) -> Self {
        Self {
            home: Home::Shared(home),
            variables: Vec::new(),
        }
    }

    fn with(mut self, variable: &str, value: &str) -> Self {
        self.variables.push((variable.to_owned(), value.to_owned()));
        self
    }

    fn with_file(self, content: &str) -> Self {
        fs_err::write(self.path("nacre.toml"), content).unwrap();
        self
    }

    fn path(&self, below: &str) -> Utf8PathBuf {
        self.home.path().join(below)
    }

    fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nacre"));
        command
            .args(arguments)
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("NACRE_HOME", self.home.path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Ran {
        Ran::from(self.command(arguments).output().unwrap(), self.home.path())
    }
}

/// What a command said and how it ended. The home's path is written `[home]`.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn from(output: Output, home: &Utf8Path) -> Self {
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes)
                .unwrap()
                .replace(home.as_str(), "[home]")
        };
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Everything in one text, for a snapshot.
    fn transcript(&self) -> String {
        format!(
            "{}{}[exit {}]",
            self.stdout,
            self.stderr,
            self.code
                .map_or("by signal".to_owned(), |code| code.to_string())
        )
    }
}
