//! Starting programs: shown before they run, and with `.tools/bin` on their path.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// Where `cargo install` puts the tools that the machine does not have.
pub(crate) const TOOLS: &str = ".tools";

/// A command line of words that hold no blanks.
pub(crate) fn command(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).env("PATH", search_path());
    command
}

/// Runs it with its output shown; its failure is an error.
pub(crate) fn run(line: &str) -> Result<()> {
    run_command(&mut command(line))
}

pub(crate) fn run_command(command: &mut Command) -> Result<()> {
    println!("$ {}", display(command));
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`", display(command)))?;
    ensure!(status.success(), "`{}` failed: {status}", display(command));
    Ok(())
}

/// What it prints, its failure being an error that carries what it complained about.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{}`", display(command)))?;
    ensure!(
        output.status.success(),
        "`{}` failed: {}\n{}",
        display(command),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim(),
    );
    Ok(String::from_utf8(output.stdout)?)
}

pub(crate) fn display(command: &Command) -> String {
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    let quoted = words.map(|word| {
        let word = word.to_string_lossy();
        if word.contains(char::is_whitespace) {
            format!("\"{word}\"")
        } else {
            word.into_owned()
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// The program, if it is installed. Some of what we need is in directories that are not on the
/// path of an ordinary user.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    env::split_paths(&search_path())
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")])
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}

#[expect(
    clippy::disallowed_methods,
    reason = "there is no configuration here, only a path"
)]
fn search_path() -> OsString {
    let inherited = env::var_os("PATH").unwrap_or_default();
    let tools = env::current_dir()
        .unwrap_or_default()
        .join(TOOLS)
        .join("bin");
    let all = [tools]
        .into_iter()
        .chain(env::split_paths(&inherited).filter(|p| p != Path::new("")));
    env::join_paths(all).unwrap_or(inherited)
}
