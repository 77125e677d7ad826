use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::CommandFactory as _;
use serde_json::json;

use crate::app::App;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[arg(value_name = "DIR")]
    directory: Utf8PathBuf,
}

pub(crate) fn run(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let directory = &arguments.directory;
    fs_err::create_dir_all(directory)?;
    clap_mangen::generate_to(crate::arguments::Arguments::command(), directory)?;
    app.output.result(&json!({ "directory": directory }), || {
        format!("manual pages are in {directory}")
    })?;
    Ok(ExitCode::SUCCESS)
}
