use std::ffi::OsString;
use std::io;
use std::process::{ExitCode, Stdio};

use anyhow::Context as _;
use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use provider::{ExecSpec, FileEntry, FileKind, SandboxId, files_from};
use tokio::process::Command;

use super::terminal::Endings;
use crate::app::{App, Engine};
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The sandbox's id, name, or the beginning of its id
    #[arg(value_name = "ID")]
    sandbox: String,
    /// Who to be in the sandbox
    #[arg(long, default_value = "root", value_parser = user)]
    user: String,
    /// A command to run instead of a shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) const SSHD: &str = "/usr/sbin/sshd";

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let engine = app.engine()?;
    let id = engine.sandbox(&arguments.sandbox)?;
    // Ctrl-C is for the shell in the sandbox; ssh passes it on.
    let mut endings = Endings::listen()?;
    let mut sshd = engine
        .provider()
        .read_files(id, SSHD.as_bytes(), None)
        .await?;
    if sshd.recv().await.transpose()?.is_none() {
        return Err(
            CommandError::not_found(format!("the sandbox has no {SSHD}")).hint(format!(
                "install openssh-server in it, or use `nacre sandbox exec -it {id} -- sh`"
            )),
        );
    }
    drop(sshd);

    let here = camino_tempfile::Builder::new()
        .prefix("nacre-ssh-")
        .tempdir()?;
    let keys = Keys::make(here.path()).await?;
    let there = Utf8PathBuf::from("/run").join(
        here.path()
            .file_name()
            .context("a temporary directory has a name")?,
    );
    install(&engine, id, &keys, &there).await?;
    fs_err::write(
        keys.known_hosts(),
        format!(
            "{id} {}\n",
            fs_err::read_to_string(keys.host_public())?.trim()
        ),
    )?;

    let mut ssh = ssh(id, arguments, &keys, &there)?;
    let mut child = ssh
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| missing_program("ssh", error))?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            number = endings.next() => if number != INTERRUPT {
                return Ok(ExitCode::from(128 + number));
            },
        }
    };
    remove(&engine, id, &there).await;
    // None: ssh itself died of a signal.
    Ok(ExitCode::from(
        status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(255),
    ))
}

pub(crate) const INTERRUPT: u8 = 2;

/// Made for one connection and thrown away after it.
struct Keys {
    directory: Utf8PathBuf,
}

impl Keys {
    async fn make(directory: &Utf8Path) -> Result<Self, CommandError> {
        let keys = Self {
            directory: directory.to_owned(),
        };
        for path in [keys.user(), keys.host()] {
            make_key(&path).await?;
        }
        Ok(keys)
    }

    fn user(&self) -> Utf8PathBuf {
        self.directory.join("user")
    }

    fn user_public(&self) -> Utf8PathBuf {
        self.directory.join("user.pub")
    }

    fn host(&self) -> Utf8PathBuf {
        self.directory.join("host")
    }

    fn host_public(&self) -> Utf8PathBuf {
        self.directory.join("host.pub")
    }

    fn known_hosts(&self) -> Utf8PathBuf {
        self.directory.join("known_hosts")
    }
}

/// A key without a password, and beside it the one to give away.
pub(crate) async fn make_key(path: &Utf8Path) -> Result<(), CommandError> {
    let done = Command::new("ssh-keygen")
        .args([
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            "nacre",
            "-f",
            path.as_str(),
        ])
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(|error| missing_program("ssh-keygen", error))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(CommandError::failed(format!(
        "ssh-keygen ended with {}: {}",
        done.status,
        said.trim()
    )))
}

/// The server's half: its key, whom it lets in, and a configuration that needs nothing else.
async fn install(
    engine: &Engine,
    id: SandboxId,
    keys: &Keys,
    there: &Utf8Path,
) -> Result<(), CommandError> {
    let name = there.file_name().context("it was made with one")?;
    let directory = |path: &str| entry(path, FileKind::Directory, 0o755);
    let file = |path: &str, mode| entry(&format!("{name}/{path}"), FileKind::File, mode);
    let files = vec![
        // sshd gives up privileges in here and wants it to exist; Debian leaves that to its init.
        (directory("sshd"), Bytes::new()),
        // The keys are looked up as the user who comes, so that the directory is open to all.
        (directory(name), Bytes::new()),
        (file("host_key", 0o600), fs_err::read(keys.host())?.into()),
        (
            file("authorized_keys", 0o644),
            fs_err::read(keys.user_public())?.into(),
        ),
        (
            file("sshd_config", 0o644),
            server_configuration(there).into(),
        ),
    ];
    engine
        .provider()
        .write_files(id, b"/run", None, files_from(files))
        .await?;
    Ok(())
}

fn entry(path: &str, kind: FileKind, mode: u32) -> FileEntry {
    FileEntry {
        path: path.into(),
        kind,
        mode,
        uid: None,
        gid: None,
    }
}

fn server_configuration(there: &Utf8Path) -> String {
    format!(
        "HostKey {there}/host_key\n\
         AuthorizedKeysFile {there}/authorized_keys\n\
         PermitRootLogin prohibit-password\n\
         PasswordAuthentication no\n\
         KbdInteractiveAuthentication no\n\
         UsePAM no\n\
         StrictModes no\n\
         PidFile none\n\
         Subsystem sftp internal-sftp\n"
    )
}

/// The client's half. The sandbox may be hostile: it gets no agent, no display, and nothing of
/// the user's own configuration.
fn ssh(
    id: SandboxId,
    arguments: &Arguments,
    keys: &Keys,
    there: &Utf8Path,
) -> Result<Command, CommandError> {
    let own = std::env::current_exe()?;
    let own = own
        .to_str()
        .context("the path of this program is not UTF-8")?;
    let proxy = format!(
        "{} sandbox exec -i {id} -- {SSHD} -i -f {there}/sshd_config",
        quoted_for_proxy(own)
    );
    let mut ssh = Command::new("ssh");
    ssh.args(["-F", "none", "-i", keys.user().as_str()]);
    for option in [
        format!("ProxyCommand={proxy}"),
        format!("UserKnownHostsFile={}", keys.known_hosts()),
        format!("HostKeyAlias={id}"),
        "GlobalKnownHostsFile=/dev/null".to_owned(),
        "StrictHostKeyChecking=yes".to_owned(),
        "IdentitiesOnly=yes".to_owned(),
        "IdentityAgent=none".to_owned(),
        "PreferredAuthentications=publickey".to_owned(),
        "ForwardAgent=no".to_owned(),
        "ForwardX11=no".to_owned(),
        "UpdateHostKeys=no".to_owned(),
        "LogLevel=ERROR".to_owned(),
    ] {
        ssh.args(["-o", &option]);
    }
    ssh.arg(format!("{}@{id}", arguments.user));
    if !arguments.command.is_empty() {
        ssh.arg("--").args(&arguments.command);
    }
    Ok(ssh)
}

/// For the shell that ssh starts, after ssh has replaced what follows a percent sign.
pub(crate) fn quoted_for_proxy(path: &str) -> String {
    format!("'{}'", path.replace('\'', r"'\''").replace('%', "%%"))
}

/// Nothing there is of use any more; what stays when this fails is a few kilobytes in `/run`.
async fn remove(engine: &Engine, id: SandboxId, there: &Utf8Path) {
    let rm = ExecSpec::new(["rm", "-rf", there.as_str()]);
    let removed = async { engine.provider().exec(id, rm).await?.finish().await };
    if let Err(error) = removed.await {
        tracing::debug!(%error, "cannot remove the keys from the sandbox");
    }
}

pub(crate) fn missing_program(name: &str, error: io::Error) -> CommandError {
    let missing = error.kind() == io::ErrorKind::NotFound;
    let error = CommandError::from(error).context(format!("cannot run {name}"));
    if missing {
        error.hint("install openssh-client on this machine")
    } else {
        error
    }
}

/// What is before the `@` must not be read as an option, or as another host.
fn user(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if text.is_empty() || text.starts_with('-') || !text.bytes().all(plain) {
        return Err(format!("`{text}` is not the name of a user"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_path_survives_ssh_and_the_shell() {
        assert_eq!(
            quoted_for_proxy("/opt/na cre/it's/100%"),
            r"'/opt/na cre/it'\''s/100%%'"
        );
    }

    #[test]
    fn a_user_cannot_be_an_option() {
        assert_eq!(user("user"), Ok("user".to_owned()));
        for bad in ["", "-oProxyCommand=x", "a b", "a@b"] {
            assert!(user(bad).is_err(), "{bad}");
        }
    }
}
