use std::process::ExitCode;

use anyhow::Context as _;
use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use client::{Body, Client, Update};
use tokio::process::Command;
use wire::v1::{ClientStatus, Event, NewRepo, NewSession, Session};

use super::phases::Phases;
use super::why::lacks_agent;
use super::{find, of_session, prompt, word};
use crate::app::App;
use crate::commands::{models, remote};
use crate::error::CommandError;

/// The id of the prompt that a session begins with.
const FIRST: &str = "initial";
/// The server takes no longer ones.
const LONGEST_BUNDLE: u64 = 2 << 30;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session new --repo https://github.com/me/app --prompt 'make the tests pass' --follow
  nacre session new --repo https://github.com/me/app#develop --title 'login'
  nacre session new . --prompt 'review the last commit'     # the repository here, as committed
  id=$(nacre session new --start)                           # an empty workspace

Without --start or --prompt no sandbox is made before somebody asks something.")]
pub(crate) struct Arguments {
    /// A repository on this machine: what is committed is sent along
    #[arg(value_name = "PATH")]
    path: Option<Utf8PathBuf>,
    /// Clone this one; its branch after a #
    #[arg(long, value_name = "URL[#BRANCH]", value_parser = repository)]
    repo: Vec<NewRepo>,
    /// What people see in lists
    #[arg(long)]
    title: Option<String>,
    /// As in anthropic/claude-sonnet-4-5
    #[arg(long)]
    model: Option<String>,
    /// What runs its sandbox, as in local
    #[arg(long)]
    provider: Option<String>,
    /// What to ask the agent first
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Start it at once, and wait until it runs
    #[arg(long)]
    start: bool,
    /// Print the answer to the first prompt as it comes
    #[arg(long, requires = "prompt")]
    follow: bool,
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<ExitCode, CommandError> {
    let client = remote::connect()?;
    let mut repos = arguments.repo;
    if let Some(path) = &arguments.path {
        repos.push(send(app, &client, path).await?);
    }
    let new = NewSession {
        title: arguments.title,
        repos,
        model: arguments.model,
        provider: arguments.provider,
        initial_prompt: arguments.prompt,
        channel: Some("cli".to_owned()),
        start: arguments.start,
        ..NewSession::default()
    };
    let names_a_model = new.model.is_some();
    let session = client.create_session(&new).await?;
    if !names_a_model {
        models::say_what_answers(app, session.model.as_deref());
    }
    if arguments.follow {
        app.output.aside(&format!("· session {}", session.id));
        return prompt::follow(app, &client, &session.id, FIRST, 0).await;
    }
    let session = if arguments.start {
        until_it_runs(app, &client, session).await?
    } else {
        session
    };
    app.output.result(&session, || session.id.clone())?;
    Ok(ExitCode::SUCCESS)
}

async fn until_it_runs(
    app: &App,
    client: &Client,
    session: Session,
) -> Result<Session, CommandError> {
    let progress = app.output.progress("starting the session");
    let mut phases = Phases::default();
    let id = session.id;
    let mut follow = client.follow(&id, Some(0))?;
    loop {
        let frame = match follow.next().await {
            Some(Update::Frame(frame)) => frame,
            Some(Update::Refused(error)) => return Err(of_session(error)),
            Some(Update::Online | Update::Offline { .. }) => continue,
            None => return Err(client::ClientError::Ended.into()),
        };
        let (status, message) = match &frame.body {
            Body::Init(init) => (init.session.client_status, init.session.error.clone()),
            Body::Event(event) => match &**event {
                Event::Status {
                    status,
                    message,
                    phase,
                    ..
                } => {
                    if let Some(phase) = phase {
                        phases.hear(phase);
                        progress.say(&phases.line("starting"));
                    }
                    (*status, message.clone())
                }
                _ => continue,
            },
        };
        match status {
            ClientStatus::Running => return find(client, &id).await,
            ClientStatus::Error | ClientStatus::Degraded | ClientStatus::Stopped => {
                let why = message.unwrap_or_else(|| format!("it is {}", word(status)));
                let hint = if lacks_agent(Some(&why)) {
                    "make a base on the server's machine: `nacre base build --slim`".to_owned()
                } else {
                    format!("`nacre session why {id}` tells what happened")
                };
                let message = format!("session {id} did not start: {why}");
                return Err(CommandError::failed(message).hint(hint));
            }
            _ => {}
        }
    }
}

/// `URL` or `URL#BRANCH`.
fn repository(text: &str) -> Result<NewRepo, String> {
    let (url, branch) = match text.split_once('#') {
        Some((_, "")) => return Err("after the # there is a branch".to_owned()),
        Some((url, branch)) => (url, Some(branch.to_owned())),
        None => (text, None),
    };
    if !url.contains("://") && !url.contains('@') {
        return Err("it is no address; a repository here is named without --repo".to_owned());
    }
    Ok(NewRepo {
        url: Some(url.to_owned()),
        branch,
        ..NewRepo::default()
    })
}

/// Sends a repository of this machine, with every branch and tag.
async fn send(app: &App, client: &Client, path: &Utf8Path) -> Result<NewRepo, CommandError> {
    let path = path
        .canonicalize_utf8()
        .with_context(|| format!("there is no {path}"))?;
    let progress = app.output.progress("packing the repository");
    let directory = camino_tempfile::tempdir()?;
    let file = directory.path().join("bundle");
    let bundle = [
        "bundle",
        "create",
        "--quiet",
        file.as_str(),
        "HEAD",
        "--branches",
        "--tags",
    ];
    git(&path, &bundle).await?;
    let changed = git(&path, &["status", "--porcelain"]).await?;
    if !changed.is_empty() {
        app.output
            .warning("what is not committed is not sent along");
    }
    if fs_err::metadata(&file)?.len() > LONGEST_BUNDLE {
        return Err(CommandError::refused(format!("{path} is more than 2 GiB"))
            .hint("push it somewhere, and name that by --repo"));
    }
    // A bundle says which commit it stands on, and not which of its branches. Nobody may be on one.
    let branch = git(&path, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await;
    let branch = branch.ok().and_then(|name| String::from_utf8(name).ok());
    progress.say("sending the repository");
    let upload = client.upload(Bytes::from(fs_err::read(&file)?)).await?;
    Ok(NewRepo {
        bundle: Some(upload.upload_id),
        branch: branch.map(|name| name.trim().to_owned()),
        path: path.file_name().map(str::to_owned),
        ..NewRepo::default()
    })
}

async fn git(path: &Utf8Path, arguments: &[&str]) -> Result<Vec<u8>, CommandError> {
    let ran = Command::new("git")
        .arg("-C")
        .arg(path)
        .args(arguments)
        .kill_on_drop(true)
        .output()
        .await
        .context("git cannot be run: is it installed?")?;
    if ran.status.success() {
        return Ok(ran.stdout);
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(CommandError::failed(said.trim())
        .context(format!("{path} cannot be sent"))
        .hint("it must be a git repository with a commit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_an_address_and_maybe_a_branch() {
        let repo = repository("https://h/a#b/c").unwrap();
        assert_eq!(repo.url.as_deref(), Some("https://h/a"));
        assert_eq!(repo.branch.as_deref(), Some("b/c"));
        assert_eq!(repository("https://h/a").unwrap().branch, None);
        assert!(repository(".").is_err() && repository("https://h/a#").is_err());
    }
}
