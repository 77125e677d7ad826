use std::io::{self, IsTerminal as _, Read as _};
use std::process::ExitCode;

use anyhow::Context as _;
use model::{Clock as _, SystemClock};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::json;
use wire::v1::{NewSecret, SecretInfo, SecretScope};

use super::remote;
use super::session::age;
use crate::app::App;
use crate::error::CommandError;
use crate::output::table;

/// The server takes no longer ones.
const LONGEST: u64 = 64 * 1024;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show the secrets there are; never their values
    #[command(after_help = "\
Examples:
  nacre secret ls")]
    Ls,
    /// Keep a secret; its value is read from standard input, or asked for
    Set(Set),
    /// Forget secrets
    #[command(after_help = "\
Examples:
  nacre secret rm ID")]
    Rm {
        /// As `nacre secret ls` shows them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Seal all secrets with a new key; while the server is down
    #[command(after_help = "\
Examples:
  nacre secret rotate                   # then start the server again: nacre up")]
    Rotate,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre secret set --model anthropic                  # asks for the key
  nacre secret set --model openai < key.txt
  nacre secret set --git github.com                   # a token to clone and push with
  nacre secret set DATABASE_URL --repo https://github.com/me/app
  pass show npm | nacre secret set NPM_TOKEN

Keys of models and tokens of git hosts never enter a sandbox. Others are variables in it.")]
pub(crate) struct Set {
    /// Its name, or the variable's; `key` with --model and `token` with --git, unless it is said
    #[arg(required_unless_present_any = ["model", "git"])]
    name: Option<String>,
    /// The key of a model provider: anthropic, openai, …
    #[arg(long, value_name = "PROVIDER", group = "scope")]
    model: Option<String>,
    /// The token of a git host, or of one repository there
    #[arg(long, value_name = "HOST", group = "scope")]
    git: Option<String>,
    /// Only for sessions on this repository
    #[arg(long, value_name = "URL", group = "scope")]
    repo: Option<String>,
    /// Only for this session
    #[arg(long, value_name = "ID", group = "scope")]
    session: Option<String>,
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Ls => list(app).await?,
        Command::Set(arguments) => set(app, arguments).await?,
        Command::Rotate => {
            let done = super::serve::rotate_keys().await?;
            let told = json!({
                "resealed": done.resealed,
                "changed": done.changed,
                "damaged": done.damaged,
            });
            app.output.result(&told, || {
                let damaged = match done.damaged {
                    0 => String::new(),
                    damaged => format!("; {damaged} do not open, and stay as they are"),
                };
                format!("{} secrets have a new key{damaged}", done.resealed)
            })?;
        }
        Command::Rm { ids } => {
            let client = remote::connect()?;
            return super::session::each(app, "removed", &ids, async |id| {
                let removed = client.delete_secret(id).await;
                removed.map_err(|error| {
                    CommandError::from(error).hint_if_missing("`nacre secret ls` shows all of them")
                })
            })
            .await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(app: &App) -> Result<(), CommandError> {
    let secrets = remote::connect()?.all_secrets().await?;
    app.output.result(&json!({ "secrets": secrets }), || {
        let now = SystemClock.now();
        let row = |secret: &SecretInfo| {
            vec![
                secret.id.clone(),
                secret.name.clone(),
                of(&secret.scope),
                age(&secret.updated_at, now),
            ]
        };
        let rows: Vec<_> = secrets.iter().map(row).collect();
        table(&["ID", "NAME", "FOR", "AGE"], &rows)
    })
}

async fn set(app: &App, arguments: Set) -> Result<(), CommandError> {
    let client = remote::connect()?;
    let (name, scope) = arguments.named();
    let value = read_value(app, &format!("{name} ({})", of(&scope)))?;
    let secret = NewSecret { name, scope, value };
    let kept = client.put_secret(&secret).await?;
    app.output.result(&kept, || {
        format!("{} is kept, for {}", kept.name, of(&kept.scope))
    })
}

impl Set {
    fn named(self) -> (String, SecretScope) {
        let (usual, scope) = match (self.model, self.git, self.repo, self.session) {
            (Some(provider), ..) => ("key", SecretScope::Model(provider)),
            (_, Some(host), ..) => ("token", SecretScope::Git(host)),
            (_, _, Some(url), _) => ("secret", SecretScope::Repository(url)),
            (.., Some(id)) => ("secret", SecretScope::Session(id)),
            _ => ("secret", SecretScope::Organisation),
        };
        (self.name.unwrap_or_else(|| usual.to_owned()), scope)
    }
}

fn of(scope: &SecretScope) -> String {
    match scope {
        SecretScope::Organisation => "every session".to_owned(),
        SecretScope::Repository(url) => url.clone(),
        SecretScope::Session(id) => id.clone(),
        SecretScope::Model(provider) => format!("model {provider}"),
        SecretScope::Git(host) => format!("git {host}"),
        SecretScope::Unknown => "something newer than this program".to_owned(),
        SecretScope::UserGit(host) => format!("git {host}, your sessions"),
    }
}

/// Never an argument: those are seen by every program of the machine, and kept by shells.
fn read_value(app: &App, what: &str) -> Result<String, CommandError> {
    let stdin = io::stdin();
    let mut value = String::new();
    if stdin.is_terminal() {
        let _quiet = Quiet::enter()?;
        app.output
            .say(&format!("type the value of {what}; it is not shown:"));
        stdin.read_line(&mut value)?;
    } else {
        let mut limited = stdin.lock().take(LONGEST + 1);
        let read = limited.read_to_string(&mut value);
        read.context("the value on standard input is not text")?;
    }
    let value = value.trim_end_matches(['\r', '\n']);
    if value.is_empty() {
        return Err(CommandError::usage("the value is empty")
            .hint("give it on standard input: `nacre secret set NAME < FILE`"));
    }
    Ok(value.to_owned())
}

/// What is typed is not shown, until this is dropped.
struct Quiet {
    before: Termios,
}

impl Quiet {
    fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Now, &quiet)?;
        Ok(Self { before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // The terminal may be gone, and then there is nothing to put back.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Typed {
        #[command(flatten)]
        set: Set,
    }

    fn typed(words: &[&str]) -> Option<(String, SecretScope)> {
        let words = ["set"].iter().chain(words);
        Some(Typed::try_parse_from(words).ok()?.set.named())
    }

    #[test]
    fn a_key_of_a_model_needs_no_name() {
        let model = SecretScope::Model("anthropic".to_owned());
        assert_eq!(
            typed(&["--model", "anthropic"]),
            Some(("key".to_owned(), model))
        );
        let git = SecretScope::Git("github.com".to_owned());
        assert_eq!(
            typed(&["--git", "github.com"]),
            Some(("token".to_owned(), git))
        );
    }

    #[test]
    fn anything_else_does_and_is_for_one_thing() {
        assert_eq!(
            typed(&["A"]),
            Some(("A".to_owned(), SecretScope::Organisation))
        );
        assert_eq!(typed(&[]), None);
        assert_eq!(typed(&["--repo", "https://h/a"]), None);
        assert_eq!(
            typed(&["A", "--repo", "https://h/a", "--session", "ses_1"]),
            None
        );
    }
}
