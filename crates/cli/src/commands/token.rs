use std::process::ExitCode;

use model::{Clock as _, SystemClock};
use serde_json::json;
use wire::v1::{NewToken, Token};

use super::remote;
use super::session::age;
use crate::app::App;
use crate::config::Span;
use crate::error::CommandError;
use crate::output::{or_dash, table};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show the tokens there are; never the tokens themselves
    #[command(after_help = "\
Examples:
  nacre token ls")]
    Ls,
    /// Make a token and print it, this once
    Create(Create),
    /// Revoke tokens, at once
    #[command(after_help = "\
Examples:
  nacre token rm ID")]
    Rm {
        /// As `nacre token ls` shows them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre token create laptop
  nacre token create ci --service --expires 720h
  NACRE_TOKEN=$(nacre token create script) ./script")]
pub(crate) struct Create {
    /// What it is for
    name: String,
    /// For a program, and nobody's own: it signs no browser in
    #[arg(long)]
    service: bool,
    /// How long it is good, as in 30m or 720h [default: for ever]
    #[arg(long, value_name = "TIME")]
    expires: Option<Span>,
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Ls => list(app).await?,
        Command::Create(arguments) => create(app, arguments).await?,
        Command::Rm { ids } => {
            let client = remote::connect()?;
            return super::session::each(app, "revoked", &ids, async |id| {
                let revoked = client.revoke_token(id).await;
                revoked.map_err(|error| {
                    CommandError::from(error).hint_if_missing("`nacre token ls` shows all of them")
                })
            })
            .await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(app: &App) -> Result<(), CommandError> {
    let tokens = remote::connect()?.all_tokens().await?;
    app.output.result(&json!({ "tokens": tokens }), || {
        let now = SystemClock.now();
        let row = |token: &Token| {
            let used = token.last_used_at.as_deref().map(|at| age(at, now));
            vec![
                token.id.clone(),
                token.name.clone(),
                if token.service { "service" } else { "person" }.to_owned(),
                age(&token.created_at, now),
                or_dash(used.as_ref()),
                or_dash(token.expires_at.as_ref()),
            ]
        };
        let rows: Vec<_> = tokens.iter().map(row).collect();
        table(&["ID", "NAME", "FOR", "AGE", "USED", "EXPIRES"], &rows)
    })
}

async fn create(app: &App, arguments: Create) -> Result<(), CommandError> {
    let new = NewToken {
        name: arguments.name,
        service: arguments.service,
        expires_in_ms: arguments
            .expires
            .map(|span| u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX)),
        org_id: None,
    };
    let made = remote::connect()?.create_token(&new).await?;
    app.output.result(&made, || made.token.clone())?;
    app.output.aside("keep it: it is not shown again");
    Ok(())
}
