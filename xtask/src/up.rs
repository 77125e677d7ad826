//! `make up`: from a fresh machine to a first sandbox, showing every command and what it prints.

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::command::{command, display, output_of, run, run_command};
use crate::report::{End, Report};
use crate::setup;

const NACRE: &str = "target/release/nacre";

pub(crate) fn up() -> Result<bool> {
    let mut report = Report::default();
    let sudo = setup::as_root()?;
    let built = report.step("packages", setup::packages_to_use)
        && report.step("build", || {
            run("cargo build --release --package nacre")?;
            Ok(End::Passed)
        });
    if built
        && report.step("doctor", || {
            run(&format!("{sudo}{NACRE} doctor"))?;
            Ok(End::Passed)
        })
    {
        report.step("a first sandbox", || first_sandbox(sudo));
    }
    Ok(report.finish())
}

fn first_sandbox(sudo: &str) -> Result<End> {
    println!("Make a sandbox out of this machine's own /usr:");
    let sandbox = field_of(
        &format!("{sudo}{NACRE} sandbox create --from host --json"),
        "id",
    )?;
    let used = use_sandbox(sudo, &sandbox);
    println!("Remove the sandbox and its disk:");
    run(&format!("{sudo}{NACRE} sandbox rm {sandbox}"))?;
    let snapshot = used?;
    println!("Remove the snapshot too, so that nothing is left:");
    run(&format!("{sudo}{NACRE} snapshot rm {snapshot}"))?;
    println!("\nThat was a sandbox. `{NACRE} --help` says what else there is.");
    Ok(End::Passed)
}

/// The snapshot that was taken.
fn use_sandbox(sudo: &str, sandbox: &str) -> Result<String> {
    println!("Run something in it:");
    run_command(
        command(&format!("{sudo}{NACRE} sandbox exec {sandbox} -- sh -c"))
            .arg("id; uname -n; echo 'written inside' > /root/note; cat /root/note; ls /home"),
    )?;
    println!("Keep its disk as it is now:");
    field_of(
        &format!("{sudo}{NACRE} sandbox snapshot {sandbox} --json"),
        "snapshot",
    )
}

/// Runs it, shows what it printed, and takes one field out of that.
fn field_of(line: &str, field: &str) -> Result<String> {
    let mut command = command(line);
    println!("$ {}", display(&command));
    let printed = output_of(&mut command)?;
    print!("{printed}");
    let answer: Value = serde_json::from_str(&printed)?;
    let value = answer[field].as_str();
    Ok(value
        .with_context(|| format!("`{line}` printed no `{field}`"))?
        .to_owned())
}
