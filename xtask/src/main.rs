//! What `make` runs: `cargo xtask test`, `lint`, `up`; and `cargo xtask vm`. Each is a list of named
//! steps, and each step says how it ended and how long it took.

#![expect(
    clippy::print_stdout,
    reason = "this program talks to a person at a terminal"
)]

mod attacks;
mod command;
mod directions;
mod drivers;
mod generated;
mod long_files;
mod opencode;
mod property;
mod report;
mod setup;
mod suite;
mod up;
mod vm;
mod web;

use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let passed = match arguments[..] {
        ["test"] => suite::test(),
        ["lint"] => suite::lint(),
        ["generate"] => generated::write_all().map(|()| true)?,
        ["opencode"] => suite::fetch_agent(),
        ["up"] => up::up()?,
        ["vm", ref options @ ..] => return vm::vm(options),
        _ => {
            println!("cargo xtask test | lint | generate | opencode | up | vm");
            return Ok(ExitCode::from(2));
        }
    };
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
