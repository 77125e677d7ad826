//! What is written in TypeScript.

use anyhow::Result;

use crate::command::{command, find, output_of, run_command};
use crate::report::End;

/// Its types are those of the description, and it is held to the same vectors as the client in Rust.
pub(crate) fn client() -> Result<End> {
    const FOLDER: &str = "web/client";
    if find("npm").is_none() {
        return Ok(End::Skipped("there is no npm".to_owned()));
    }
    let install = "npm ci --no-audit --no-fund";
    if let Err(error) = output_of(command(install).current_dir(FOLDER)) {
        println!("{error:#}");
        return Ok(End::Skipped(
            "its packages cannot be installed from here".to_owned(),
        ));
    }
    for line in ["npm run --silent check", "npm test --silent"] {
        run_command(command(line).current_dir(FOLDER))?;
    }
    Ok(End::Passed)
}
