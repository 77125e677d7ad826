//! What is written in TypeScript.

use anyhow::Result;

use crate::command::{command, find, output_of, run_command};
use crate::report::End;

/// Its types are those of the description, and it is held to the same vectors as the client in Rust.
pub(crate) fn client() -> Result<End> {
    in_folder(
        "web/client",
        &["npm run --silent check", "npm test --silent"],
    )
}

/// The page that the server shows. It is built before the server, which has it inside.
pub(crate) fn build_app() -> Result<End> {
    in_folder("web/app", &["npm run --silent build"])
}

pub(crate) fn app() -> Result<End> {
    in_folder("web/app", &["npm run --silent check", "npm test --silent"])
}

fn in_folder(folder: &str, lines: &[&str]) -> Result<End> {
    if find("npm").is_none() {
        return Ok(End::Skipped("there is no npm".to_owned()));
    }
    let install = "npm ci --no-audit --no-fund";
    if let Err(error) = output_of(command(install).current_dir(folder)) {
        println!("{error:#}");
        return Ok(End::Skipped(
            "its packages cannot be installed from here".to_owned(),
        ));
    }
    for line in lines {
        run_command(command(line).current_dir(folder))?;
    }
    Ok(End::Passed)
}
