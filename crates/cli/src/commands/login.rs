use std::process::ExitCode;

use client::{Client, ClientError};
use serde_json::json;
use wire::v1::Endpoint;

use super::{browser, remote};
use crate::app::App;
use crate::config;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre login                          # prints the link
  nacre login --browser                # and opens it here
  ssh host nacre login                 # for a browser that reaches the host")]
pub(crate) struct Arguments {
    /// Open it in this machine's browser
    #[arg(long)]
    browser: bool,
}

pub(crate) async fn run(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let client = remote::connect()?;
    let link = link(&client).await?;
    app.output.result(&link, || format!("{}\n", link.url))?;
    if arguments.browser && browser::open(&config::desktop(), &link.url).await {
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.browser {
        app.output.warning("no browser can be opened from here");
    }
    app.output.aside(&format!(
        "open it in a browser; it is good once, until {}",
        link.expires_at
    ));
    Ok(ExitCode::SUCCESS)
}

/// A link that signs a browser in.
pub(crate) async fn link(client: &Client) -> Result<Endpoint, ClientError> {
    client
        .post_json(&["v1", "login", "codes"], &json!({}))
        .await
}
