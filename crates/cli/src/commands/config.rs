use std::process::ExitCode;

use serde_json::{Value, json};

use crate::app::App;
use crate::config;
use crate::error::CommandError;
use crate::output::table;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Read the configuration and show every value and where it is from
    #[command(after_help = "\
Examples:
  nacre config check
  NACRE_SERVER__LISTEN=127.0.0.1:8080 nacre config check")]
    Check,
}

pub(crate) fn check(app: &App) -> Result<ExitCode, CommandError> {
    let settings = config::load()?.settings;
    app.output.result(&json!({ "settings": settings }), || {
        let rows: Vec<Vec<String>> = settings
            .iter()
            .map(|setting| {
                vec![
                    setting.key.clone(),
                    shown(&setting.value),
                    setting.source.clone(),
                ]
            })
            .collect();
        table(&["KEY", "VALUE", "FROM"], &rows)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
