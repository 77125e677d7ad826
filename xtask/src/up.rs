//! `make up`: from a fresh machine to a server and a link for the browser, showing every command.

use std::os::unix::process::CommandExt as _;

use anyhow::{Context as _, Result, bail};

use crate::command::{command, display, run};
use crate::report::{End, Report};
use crate::{setup, web};

const NACRE: &str = "target/release/nacre";

pub(crate) fn up() -> Result<bool> {
    let mut report = Report::default();
    let sudo = setup::as_root()?;
    let step = |line: String| {
        move || {
            run(&line)?;
            Ok(End::Passed)
        }
    };
    let is_ready = report.step("packages", setup::packages_to_use)
        && report.step("the page for browsers", page)
        && report.step("build", step("cargo build --release --package nacre".to_owned()))
        && report.step("doctor", step(format!("{sudo}{NACRE} doctor")))
        // What is there already is left as it is.
        && report.step("base", step(format!("{sudo}{NACRE} base build --slim")));
    if !report.finish() || !is_ready {
        return Ok(false);
    }
    // In our place: Ctrl-C is the server's then, which has something to put in order.
    let mut server = command(&format!("{sudo}{NACRE} up"));
    println!("$ {}\n", display(&server));
    Err(server.exec()).context("the server cannot be started")
}

/// Without it there would be nothing to open in a browser.
fn page() -> Result<End> {
    match web::build_app()? {
        End::Skipped(why) => bail!("the page for browsers cannot be built: {why}"),
        end => Ok(end),
    }
}
