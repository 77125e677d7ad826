use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::app::App;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    shell: Shell,
}

pub(crate) fn run(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut crate::arguments::Arguments::command(),
        "nacre",
        &mut script,
    );
    app.output.raw(&script)?;
    Ok(ExitCode::SUCCESS)
}
