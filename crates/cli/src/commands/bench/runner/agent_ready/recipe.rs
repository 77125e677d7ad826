//! How a workplace starts OpenCode, read from one that it started.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use provider::{ExecInput, ExecSpec, Finished, Provider as _, SandboxId};
use provider_local::Local;
use wire::workplace::{HOME, USER};

const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";
/// Below the home: what it is given to read.
const FILES: [&str; 2] = [".nacre/agent", ".config/opencode"];
/// The first of the processes that know the password: what it starts has a higher number.
const FIND: &str = "for p in $(ls /proc | grep -E '^[0-9]+$' | sort -n); do \
    grep -qz '^OPENCODE_SERVER_PASSWORD=' /proc/$p/environ 2>/dev/null && echo $p && exit; \
    done; exit 1";

#[derive(Debug)]
pub(in super::super) struct Recipe {
    argv: Vec<Vec<u8>>,
    env: BTreeMap<Vec<u8>, Vec<u8>>,
    cwd: Vec<u8>,
    /// A tar.
    files: Bytes,
}

impl Recipe {
    /// Of the agent that runs in this sandbox.
    pub(in super::super) async fn of(local: &Local, id: SandboxId) -> anyhow::Result<Self> {
        let pid = says(local, id, &["sh", "-c", FIND]).await?;
        let pid = String::from_utf8(pid)?.trim().to_owned();
        let read = |name: &str| format!("/proc/{pid}/{name}");
        let words = says(local, id, &["cat", &read("cmdline")]).await?;
        let variables = says(local, id, &["cat", &read("environ")]).await?;
        let mut cwd = says(local, id, &["readlink", &read("cwd")]).await?;
        cwd.pop_if(|last| *last == b'\n');
        let [agent, configuration] = FILES;
        let tar = ["tar", "-c", "-C", HOME, agent, configuration];
        let split = |bytes: &[u8]| -> Vec<Vec<u8>> {
            let whole = bytes.strip_suffix(b"\0").unwrap_or(bytes);
            whole.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
        };
        let pair = |variable: Vec<u8>| {
            let at = variable.iter().position(|byte| *byte == b'=')?;
            Some((variable[..at].to_vec(), variable[at + 1..].to_vec()))
        };
        Ok(Self {
            argv: split(&words),
            env: split(&variables).into_iter().filter_map(pair).collect(),
            cwd,
            files: says(local, id, &tar).await?.into(),
        })
    }

    /// Puts the files where they were found.
    pub(super) async fn write(&self, local: &Local, id: SandboxId) -> anyhow::Result<()> {
        let cwd = String::from_utf8_lossy(&self.cwd).into_owned();
        // A repository, as a workplace makes one where it clones none.
        says(local, id, &["git", "init", "--quiet", &cwd]).await?;
        let exec = local.exec(id, as_user(["tar", "-x", "-C", HOME])).await?;
        exec.input.send(ExecInput::Data(self.files.clone())).await?;
        checked(exec.finish().await?, "tar")?;
        Ok(())
    }

    pub(super) fn exec(&self) -> ExecSpec {
        ExecSpec {
            cwd: Some(self.cwd.clone()),
            env: self.env.clone(),
            ..as_user(&self.argv)
        }
    }

    /// The header that its server asks for.
    pub(in super::super) fn authorization(&self) -> anyhow::Result<String> {
        let password = self.env.get(PASSWORD.as_bytes());
        let password = password.context("OpenCode has no password")?;
        let pair = [b"opencode:", password.as_slice()].concat();
        Ok(format!(
            "Authorization: Basic {}\r\n",
            STANDARD.encode(pair)
        ))
    }
}

fn as_user<A: AsRef<[u8]>>(argv: impl IntoIterator<Item = A>) -> ExecSpec {
    ExecSpec {
        user: Some(USER.to_owned()),
        ..ExecSpec::new(argv)
    }
}

/// What a command writes, as the user whose the agent is.
async fn says(local: &Local, id: SandboxId, argv: &[&str]) -> anyhow::Result<Vec<u8>> {
    let finished = local.exec(id, as_user(argv)).await?.finish().await?;
    checked(finished, argv[0])
}

fn checked(finished: Finished, what: &str) -> anyhow::Result<Vec<u8>> {
    if finished.exit.code != 0 {
        let words = String::from_utf8_lossy(&finished.stderr);
        bail!(
            "{what} in the sandbox ended with {}: {}",
            finished.exit.code,
            words.trim()
        );
    }
    Ok(finished.stdout)
}
