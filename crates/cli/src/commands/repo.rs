use std::process::ExitCode;

use serde_json::json;
use wire::v1::{NewRepository, Repository};

use super::remote;
use crate::app::App;
use crate::error::CommandError;
use crate::output::{or_dash, table};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show the repositories that sessions are made for
    #[command(after_help = "\
Examples:
  nacre repo ls
  nacre repo ls --json | jq -r '.repositories[].url'")]
    Ls,
    /// Add a repository to choose from
    Add(Add),
    /// Take repositories off the list; sessions keep theirs
    #[command(after_help = "\
Examples:
  nacre repo rm ID")]
    Rm {
        /// As `nacre repo ls` shows them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre repo add https://github.com/octocat/Hello-World
  nacre repo add https://git.example/team/app.git --name app --branch develop
  nacre session new --repo $(nacre repo ls --json | jq -r '.repositories[0].url')")]
pub(crate) struct Add {
    /// As in `https://host/owner/name`; a token for it is a secret (`nacre secret`)
    url: String,
    /// What it is called [default: owner/name]
    #[arg(long)]
    name: Option<String>,
    /// The branch that sessions begin from [default: the remote's own]
    #[arg(long)]
    branch: Option<String>,
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Ls => list(app).await?,
        Command::Add(arguments) => add(app, arguments).await?,
        Command::Rm { ids } => {
            let client = remote::connect()?;
            return super::session::each(app, "removed", &ids, async |id| {
                let removed = client.remove_repository(id).await;
                removed.map_err(|error| {
                    CommandError::from(error).hint_if_missing("`nacre repo ls` shows all of them")
                })
            })
            .await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(app: &App) -> Result<(), CommandError> {
    let repositories = remote::connect()?.all_repositories().await?;
    app.output
        .result(&json!({ "repositories": repositories }), || {
            let row = |repository: &Repository| {
                vec![
                    repository.id.clone(),
                    repository.name.clone(),
                    or_dash(repository.default_branch.as_ref()),
                    repository.url.clone(),
                ]
            };
            let rows: Vec<_> = repositories.iter().map(row).collect();
            table(&["ID", "NAME", "BRANCH", "URL"], &rows)
        })
}

async fn add(app: &App, arguments: Add) -> Result<(), CommandError> {
    let new = NewRepository {
        url: arguments.url,
        name: arguments.name,
        default_branch: arguments.branch,
    };
    let added = remote::connect()?.add_repository(&new).await?;
    app.output.result(&added, || added.id.clone())
}
