use std::process::ExitCode;

use serde_json::json;
use wire::v1::Endpoint;

use super::remote;
use crate::app::App;
use crate::error::CommandError;

pub(crate) async fn run(app: &App) -> Result<ExitCode, CommandError> {
    let client = remote::connect()?;
    let link: Endpoint = client
        .post_json(&["v1", "login", "codes"], &json!({}))
        .await?;
    app.output.result(&link, || format!("{}\n", link.url))?;
    app.output.aside(&format!(
        "open it in a browser; it is good once, until {}",
        link.expires_at
    ));
    Ok(ExitCode::SUCCESS)
}
