use std::process::{ExitCode, Stdio};

use client::{Client, ClientError};
use serde_json::json;
use tokio::process::Command;
use wire::v1::Endpoint;

use super::remote;
use crate::app::App;
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
    if arguments.browser && open(&link.url).await {
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

/// Whether the desktop took it.
async fn open(url: &str) -> bool {
    let opened = Command::new("xdg-open")
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await;
    opened.is_ok_and(|status| status.success())
}
