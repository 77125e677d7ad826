use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use provider_local::doctor::{Finding, FindingStatus, Fix, examine};
use serde_json::json;

use crate::app::App;
use crate::config;
use crate::error::CommandError;
use crate::output::table;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Put right what can be: packages, directories, kernel modules, settings
    #[arg(long)]
    fix: bool,
}

pub(crate) fn run(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let config = config::load()?.local;
    let mut findings = examine(&config);
    let mut fixed = Vec::new();
    if arguments.fix {
        for finding in &findings {
            let Some(fix) = &finding.fix else { continue };
            let progress = app.output.progress("putting it right");
            progress.say(finding.name);
            match apply(fix) {
                Ok(()) => fixed.push(finding.name),
                Err(error) => app
                    .output
                    .warning(&format!("cannot fix {}: {error:#}", finding.name)),
            }
        }
        findings = examine(&config);
    }
    let ok = findings
        .iter()
        .all(|finding| finding.status != FindingStatus::Missing);
    app.output.result(
        &json!({ "ok": ok, "findings": findings, "fixed": fixed }),
        || shown(&findings, &fixed),
    )?;
    if ok {
        return Ok(ExitCode::SUCCESS);
    }
    let error = CommandError::failed("this machine cannot run sandboxes yet");
    let can_fix = findings.iter().any(|finding| finding.fix.is_some());
    Err(if can_fix && !arguments.fix {
        error.hint("`nacre doctor --fix` puts right what it can")
    } else {
        error
    })
}

fn shown(findings: &[Finding], fixed: &[&str]) -> String {
    let mut rows = Vec::new();
    for finding in findings {
        let status = match finding.status {
            FindingStatus::Ok if fixed.contains(&finding.name) => "fixed",
            FindingStatus::Ok => "ok",
            FindingStatus::Warning => "warning",
            FindingStatus::Missing => "missing",
        };
        rows.push(vec![
            status.to_owned(),
            finding.name.to_owned(),
            finding.found.clone(),
        ]);
        if let Some(advice) = &finding.advice {
            rows.push(vec![String::new(), String::new(), format!("→ {advice}")]);
        }
    }
    table(&["STATUS", "WHAT", "FOUND"], &rows)
}

fn apply(fix: &Fix) -> anyhow::Result<()> {
    match fix {
        Fix::Packages(packages) => succeed(
            Command::new("apt-get")
                .args(["install", "--yes", "--no-install-recommends"])
                .args(packages)
                .env("DEBIAN_FRONTEND", "noninteractive"),
        ),
        Fix::Directory(path) => {
            use std::os::unix::fs::DirBuilderExt as _;
            // What is below may be secret, and it is easier to open a directory than to shut it.
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .with_context(|| format!("cannot make {path}"))
        }
        Fix::Module(name) => succeed(Command::new("modprobe").arg(name)),
        Fix::Write(path, content) => Ok(fs_err::write(path, content)?),
    }
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    bail!(
        "{program} ended with {}: {}",
        done.status,
        said.lines().last().unwrap_or_default()
    )
}
