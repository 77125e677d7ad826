//! OpenSSH into a session: its own `ssh` here, its own `sshd -i` there, and between them a command's
//! input and output. Nothing listens anywhere.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use anyhow::Context as _;
use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use client::{Client, Piece};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use wire::v1::ExecRequest;
use wire::workplace::USER;

use super::{find, of_session};
use crate::commands::remote;
use crate::commands::sandbox::ssh::{INTERRUPT, SSHD, make_key, missing_program, quoted_for_proxy};
use crate::commands::sandbox::terminal::Endings;
use crate::config;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session ssh ID
  nacre session ssh ID -- git log --oneline

With your own ssh, and what builds on it (editors, rsync, git), in ~/.ssh/config:
  Host ses_*
    User user
    ProxyCommand nacre session ssh --proxy %h

The sandbox needs openssh-server; `nacre session shell` needs nothing.")]
pub(crate) struct Arguments {
    /// The session's id
    #[arg(value_name = "ID")]
    session: String,
    /// Only carry ssh's own bytes: for a `ProxyCommand`
    #[arg(long, conflicts_with = "command")]
    proxy: bool,
    /// A public key that may come in [default: the usual ones in ~/.ssh]
    #[arg(long, value_name = "FILE")]
    key: Vec<Utf8PathBuf>,
    /// A command to run instead of a shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What the script answers where there is no sshd.
const NO_SSHD: i32 = 42;
/// Makes what sshd needs, below the home of the one who comes: it runs as them, and needs no root.
/// Public keys come in the environment, so that they are in no list of processes.
const PREPARE: &str = r#"
test -x "$SSHD" || exit 42
umask 077
here="$HOME/.cache/nacre-ssh"
mkdir -p "$here" || exit 1
test -s "$here/host_key" || ssh-keygen -q -t ed25519 -N '' -C nacre -f "$here/host_key" </dev/null || exit 1
printf '%s\n' "$KEYS" > "$here/authorized_keys.$$" && mv "$here/authorized_keys.$$" "$here/authorized_keys" || exit 1
cat > "$here/sshd_config" <<END
HostKey $here/host_key
AuthorizedKeysFile $here/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile none
Subsystem sftp internal-sftp
END
exec "$SSHD" -i -f "$here/sshd_config"
"#;

pub(super) async fn run(arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let client = remote::connect()?;
    let session = find(&client, &arguments.session).await?;
    if arguments.proxy {
        return proxy(&client, &session.id, &arguments.key).await;
    }
    let mut endings = Endings::listen()?;
    let here = camino_tempfile::Builder::new()
        .prefix("nacre-ssh-")
        .tempdir()?;
    let key = here.path().join("user");
    make_key(&key).await?;
    let mut ssh = ssh(&session.id, &key, &arguments.command)?;
    let mut child = ssh
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| missing_program("ssh", error))?;
    loop {
        tokio::select! {
            status = child.wait() => {
                // None: ssh itself died of a signal.
                let code = status?.code().and_then(|code| u8::try_from(code).ok());
                return Ok(ExitCode::from(code.unwrap_or(255)));
            }
            // Ctrl-C is for the shell in the session; ssh passes it on.
            number = endings.next() => if number != INTERRUPT {
                return Ok(ExitCode::from(128 + number));
            },
        }
    }
}

/// The session may be hostile: it gets no agent, no display, and nothing of the user's own
/// configuration. Who is at the other end is known by the token already, not by a key of ssh's.
fn ssh(id: &str, key: &Utf8Path, command: &[OsString]) -> Result<Command, CommandError> {
    let own = std::env::current_exe()?;
    let own = own
        .to_str()
        .context("the path of this program is not UTF-8")?;
    let proxy = format!(
        "{} session ssh --proxy {} --key {}",
        quoted_for_proxy(own),
        quoted_for_proxy(id),
        quoted_for_proxy(&format!("{key}.pub"))
    );
    let mut ssh = Command::new("ssh");
    ssh.args(["-F", "none", "-i", key.as_str()]);
    for option in [
        &*format!("ProxyCommand={proxy}"),
        "UserKnownHostsFile=/dev/null",
        "GlobalKnownHostsFile=/dev/null",
        "StrictHostKeyChecking=no",
        "IdentitiesOnly=yes",
        "IdentityAgent=none",
        "PreferredAuthentications=publickey",
        "ForwardAgent=no",
        "ForwardX11=no",
        "UpdateHostKeys=no",
        "LogLevel=ERROR",
    ] {
        ssh.args(["-o", option]);
    }
    ssh.arg(format!("{USER}@{id}"));
    if !command.is_empty() {
        ssh.arg("--").args(command);
    }
    Ok(ssh)
}

/// Standard input and output, joined with an sshd in the session.
async fn proxy(client: &Client, id: &str, keys: &[Utf8PathBuf]) -> Result<ExitCode, CommandError> {
    let env = BTreeMap::from([
        ("SSHD".to_owned(), SSHD.to_owned()),
        ("KEYS".to_owned(), public_keys(keys)?),
    ]);
    let request = ExecRequest {
        argv: ["sh", "-c", PREPARE].map(str::to_owned).to_vec(),
        env,
        ..ExecRequest::default()
    };
    let (mut input, mut output) = client.run_command(id, &request).await.map_err(of_session)?;
    let there = async {
        let mut stdin = tokio::io::stdin();
        let mut buffer = vec![0; 32 * 1024];
        while let Ok(length @ 1..) = stdin.read(&mut buffer).await {
            let piece = Bytes::copy_from_slice(&buffer[..length]);
            if input.send(piece).await.is_err() {
                break;
            }
        }
        // Without its input sshd ends by itself.
        let _ = input.end().await;
        std::future::pending::<()>().await;
    };
    let back = async {
        let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
        while let Some(piece) = output.next().await.map_err(of_session)? {
            match piece {
                Piece::Bytes(bytes) => {
                    stdout.write_all(&bytes).await?;
                    stdout.flush().await?;
                }
                Piece::Errors(bytes) => stderr.write_all(&bytes).await?,
                Piece::Eof => {}
                Piece::Exit { code, .. } => return Ok(code),
            }
        }
        Err(CommandError::from(client::ClientError::NotConnected))
    };
    let code = tokio::select! {
        () = there => NO_SSHD,
        code = back => code?,
    };
    if code == NO_SSHD {
        let message = format!("the session's sandbox has no {SSHD}");
        return Err(CommandError::not_found(message)
            .hint(format!(
                "install it: `nacre session exec {id} --timeout 5m -- sh -c 'sudo apt-get -qq update && sudo apt-get -qy install openssh-server'`"
            ))
            .hint(format!("or have a shell without it: `nacre session shell {id}`")));
    }
    Ok(ExitCode::from(u8::try_from(code & 0xff).unwrap_or(u8::MAX)))
}

/// Those that were named, or the usual ones of whoever asks.
fn public_keys(named: &[Utf8PathBuf]) -> Result<String, CommandError> {
    let mut keys = String::new();
    for path in named {
        keys.push_str(fs_err::read_to_string(path)?.trim());
        keys.push('\n');
    }
    if named.is_empty() {
        for name in ["id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub"] {
            let Some(path) = config::user_home()?.map(|home| home.join(".ssh").join(name)) else {
                break;
            };
            match fs_err::read_to_string(&path) {
                Ok(key) => {
                    keys.push_str(key.trim());
                    keys.push('\n');
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    if keys.trim().is_empty() {
        return Err(CommandError::usage("there is no public key in ~/.ssh")
            .hint("make one with `ssh-keygen`, or name one by --key"));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &[&str]) -> Vec<String> {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let ssh = ssh("ses_1", Utf8Path::new("/tmp/a key"), &command).unwrap();
        let own = std::env::current_exe().unwrap();
        let words = ssh.as_std().get_args();
        let words = words.map(|word| word.to_str().unwrap().to_owned());
        words
            .map(|word| word.replace(own.to_str().unwrap(), "nacre"))
            .collect()
    }

    #[test]
    fn ssh_is_given_nothing_of_the_users_own() {
        let words = words(&[]).join(" ").replace(" -o ", "\n-o ");
        insta::assert_snapshot!(words, @r"
        -F none -i /tmp/a key
        -o ProxyCommand='nacre' session ssh --proxy 'ses_1' --key '/tmp/a key.pub'
        -o UserKnownHostsFile=/dev/null
        -o GlobalKnownHostsFile=/dev/null
        -o StrictHostKeyChecking=no
        -o IdentitiesOnly=yes
        -o IdentityAgent=none
        -o PreferredAuthentications=publickey
        -o ForwardAgent=no
        -o ForwardX11=no
        -o UpdateHostKeys=no
        -o LogLevel=ERROR user@ses_1
        ");
    }

    #[test]
    fn a_command_is_passed_on_and_is_no_option() {
        let words = words(&["-oProxyCommand=evil", "a b"]);
        let at = words.iter().position(|word| word == "user@ses_1").unwrap();
        assert_eq!(words[at + 1..], ["--", "-oProxyCommand=evil", "a b"]);
    }

    #[test]
    fn keys_that_are_named_are_the_ones_that_come_in() {
        let directory = camino_tempfile::tempdir().unwrap();
        let [one, two] = ["one.pub", "two.pub"].map(|name| directory.path().join(name));
        fs_err::write(&one, "ssh-ed25519 one\n").unwrap();
        fs_err::write(&two, "ssh-ed25519 two").unwrap();
        let keys = public_keys(&[one, two]).unwrap();
        assert_eq!(keys, "ssh-ed25519 one\nssh-ed25519 two\n");
        let missing = public_keys(&[directory.path().join("none.pub")]);
        assert!(missing.is_err());
    }
}
