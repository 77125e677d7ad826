pub(crate) mod copy;
pub(crate) mod create;
mod egress;
pub(crate) mod exec;
mod lifecycle;
mod link;
mod list;
mod open;
pub(crate) mod pack;
mod port;
pub(crate) mod ssh;
pub(crate) mod terminal;
pub(crate) mod unpack;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::app::App;
use crate::error::CommandError;

pub(crate) use self::list::age;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a sandbox and start it
    #[command(after_help = "\
Examples:
  nacre sandbox create --name box
  nacre sandbox create --from base --memory 2G --cpus 1.5 --net proxy --allow example.org
  id=$(nacre sandbox create --from SNAPSHOT --label team=pearls)")]
    Create(create::Arguments),
    /// Show the sandboxes there are
    #[command(after_help = "\
Examples:
  nacre sandbox ls
  nacre sandbox ls --all --label team=pearls")]
    Ls(list::Arguments),
    /// Show one sandbox
    #[command(after_help = "\
Examples:
  nacre sandbox show box
  nacre sandbox show box --json")]
    Show(Named),
    /// End sandboxes and give up their disks; snapshots stay
    #[command(after_help = "\
Examples:
  nacre sandbox rm box
  nacre sandbox stop box                # to keep its disk")]
    Rm {
        /// Ids, names, or beginnings of ids
        #[arg(required = true, value_name = "ID")]
        sandboxes: Vec<String>,
    },
    /// Run a command in a sandbox
    #[command(after_help = "\
Examples:
  nacre sandbox exec box -- ls -l /
  nacre sandbox exec box -it -- bash      # a shell
  nacre sandbox exec box --timeout 30s --env CI=1 -- make test")]
    Exec(exec::Arguments),
    /// Freeze a sandbox in place
    #[command(after_help = "\
Examples:
  nacre sandbox pause box
  nacre sandbox resume box              # everything in it goes on")]
    Pause(Named),
    /// Let a paused sandbox go on
    #[command(after_help = "\
Examples:
  nacre sandbox resume box")]
    Resume(Named),
    /// End a sandbox and keep its disk as a snapshot
    #[command(after_help = "\
Examples:
  nacre sandbox stop box
  nacre sandbox create --from $(nacre sandbox stop box --json | jq -r .snapshot)")]
    Stop(Named),
    /// Take a snapshot of a sandbox's disk; the sandbox goes on
    #[command(after_help = "\
Examples:
  nacre sandbox snapshot box --name before
  nacre sandbox create --from before")]
    Snapshot(lifecycle::SnapshotArguments),
    /// Make sandboxes that start from what this one has on disk now
    #[command(after_help = "\
Examples:
  nacre sandbox fork box
  nacre sandbox fork box -n 10")]
    Fork(lifecycle::ForkArguments),
    /// Copy files into or out of a sandbox
    #[command(after_help = "\
Examples:
  nacre sandbox cp ./app box:/root/app
  nacre sandbox cp box:/var/log/app.log .")]
    Cp(copy::Arguments),
    /// Forward a port of this machine to one in a sandbox
    #[command(after_help = "\
Examples:
  nacre sandbox port box 3000
  nacre sandbox port box 3000 --listen 127.0.0.1:3000")]
    Port(port::Arguments),
    /// Let a browser in to a sandbox's terminal, editor, desktop and preview
    ///
    /// Prints an address that is good once, for a minute, and leads there until it is ended.
    #[command(after_help = "\
Examples:
  nacre sandbox open box                # its terminal
  nacre sandbox open box /vscode/")]
    Open(open::Arguments),
    /// Open a shell in a sandbox through its own ssh server
    #[command(after_help = "\
Examples:
  nacre sandbox ssh box
  nacre sandbox ssh box --user nobody -- id")]
    Ssh(ssh::Arguments),
    /// Show what a sandbox reached on the network
    #[command(after_help = "\
Examples:
  nacre sandbox egress box
  nacre sandbox egress box --refused")]
    Egress(egress::Arguments),
    /// Follow what a sandbox's workplace says, and talk to it: JSON, a line each way
    #[command(after_help = "\
Examples:
  nacre sandbox create --from base --workplace --name box
  nacre sandbox link box --boot boot.json")]
    Link(link::Arguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// The sandbox's id, name, or the beginning of its id
    #[arg(value_name = "ID")]
    pub(super) sandbox: String,
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Create(arguments) => create::run(app, arguments).await?,
        Command::Ls(arguments) => list::list(app, &arguments).await?,
        Command::Show(named) => list::show(app, &named.sandbox).await?,
        Command::Rm { sandboxes } => return lifecycle::remove(app, &sandboxes).await,
        Command::Exec(arguments) => return exec::run(app, arguments).await,
        Command::Pause(named) => lifecycle::pause(app, &named.sandbox).await?,
        Command::Resume(named) => lifecycle::resume(app, &named.sandbox).await?,
        Command::Stop(named) => lifecycle::stop(app, &named.sandbox).await?,
        Command::Snapshot(arguments) => lifecycle::snapshot(app, &arguments).await?,
        Command::Fork(arguments) => lifecycle::fork(app, &arguments).await?,
        Command::Cp(arguments) => copy::run(app, &arguments).await?,
        Command::Port(arguments) => port::run(app, &arguments).await?,
        Command::Open(arguments) => open::run(app, &arguments).await?,
        Command::Link(arguments) => link::run(app, &arguments).await?,
        Command::Ssh(arguments) => return ssh::run(app, &arguments).await,
        Command::Egress(arguments) => egress::run(app, &arguments).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Does the same to each, goes on after a failure, and ends with the first failure's code.
pub(super) async fn each<F>(
    app: &App,
    done: &str,
    texts: &[String],
    mut act: F,
) -> Result<ExitCode, CommandError>
where
    F: AsyncFnMut(&String) -> Result<String, CommandError>,
{
    let mut ids = Vec::new();
    let mut code = None;
    for text in texts {
        match act(text).await {
            Ok(id) => ids.push(id),
            Err(error) => {
                app.output.error(&error);
                code.get_or_insert(error.exit_code());
            }
        }
    }
    app.output
        .result(&json!({ done: ids }), || ids.join("\n"))?;
    Ok(ExitCode::from(code.unwrap_or(0)))
}

fn milliseconds(since: Instant) -> f64 {
    to_milliseconds(since.elapsed())
}

/// To the microsecond: what is below is noise.
fn to_milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// `K=V`.
fn key_and_value(text: &str) -> Result<(String, String), String> {
    let wrong = || format!("`{text}` is not of the form KEY=VALUE");
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    if key.is_empty() || text.contains('\0') {
        return Err(wrong());
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// `K=V` in whatever bytes the user's shell had.
fn raw_key_and_value(text: OsString) -> Result<(Vec<u8>, Vec<u8>), CommandError> {
    use std::os::unix::ffi::OsStringExt as _;
    let bytes = text.into_vec();
    let split = bytes
        .iter()
        .position(|byte| *byte == b'=')
        .filter(|split| *split > 0);
    let Some(split) = split else {
        let shown = String::from_utf8_lossy(&bytes);
        return Err(CommandError::usage(format!(
            "`{shown}` is not of the form KEY=VALUE"
        )));
    };
    Ok((bytes[..split].to_vec(), bytes[split + 1..].to_vec()))
}

/// What a sandbox or a snapshot may be called: nothing that could be taken for an id.
fn name(text: &str) -> Result<String, String> {
    if ["sbx", "snp"]
        .iter()
        .any(|prefix| text == *prefix || text.starts_with(&format!("{prefix}_")))
        || text.contains(':')
    {
        return Err("it looks like an id; choose a name of your own".to_owned());
    }
    let first = text
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let rest = text
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !first || !rest || text.len() > 63 {
        return Err(
            "a name has 1 to 63 characters of a-z, 0-9 and -, and does not begin with -".to_owned(),
        );
    }
    Ok(text.to_owned())
}

/// A snapshot may not have a name that `create --from` gives another meaning.
fn snapshot_name(text: &str) -> Result<String, String> {
    if text == "host" || text == "base" {
        return Err(format!(
            "`{text}` has a meaning of its own; choose another name"
        ));
    }
    name(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain_and_no_ids() {
        let long = "a".repeat(63);
        for good in ["a", "0", "web-1", "a--b", long.as_str()] {
            assert_eq!(name(good).as_deref(), Ok(good));
        }
        let too_long = "a".repeat(64);
        for bad in [
            "",
            "-a",
            "A",
            "a_b",
            "a.b",
            "ä",
            "sbx",
            "sbx_01",
            "snp_x",
            "local:disk:x",
            too_long.as_str(),
        ] {
            assert!(name(bad).is_err(), "{bad}");
        }
        assert!(snapshot_name("host").is_err() && snapshot_name("base").is_err());
    }

    #[test]
    fn a_value_may_contain_the_sign_that_ends_the_key() {
        assert_eq!(
            key_and_value("A=b=c"),
            Ok(("A".to_owned(), "b=c".to_owned()))
        );
        for bad in ["", "A", "=b"] {
            assert!(key_and_value(bad).is_err(), "{bad}");
        }
    }
}
