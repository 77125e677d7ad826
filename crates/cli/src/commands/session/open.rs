use serde_json::json;
use wire::v1::Endpoint;

use super::of_session;
use crate::app::App;
use crate::commands::remote;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session open ID                # what the session shows of itself
  nacre session open ID 3000           # what listens on a port
  nacre session open ID terminal       # or editor, desktop")]
pub(crate) struct Arguments {
    /// The session's id
    #[arg(value_name = "ID")]
    session: String,
    /// A port, app, editor, desktop or terminal
    #[arg(default_value = "app")]
    target: String,
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<(), CommandError> {
    let client = remote::connect()?;
    let path = ["v1", "sessions", &arguments.session, "open"];
    let wanted = json!({ "target": arguments.target });
    let link: Endpoint = client.post_json(&path, &wanted).await.map_err(of_session)?;
    app.output.result(&link, || link.url.clone())?;
    app.output
        .aside("open it in a browser within a minute; it is good once");
    Ok(())
}
