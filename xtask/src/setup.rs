//! Installs what is missing: Debian packages and cargo tools.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};

use crate::command::{TOOLS, command, find, output_of, run, run_command};
use crate::report::End;

/// A program and the Debian package that has it.
const BUILD: &[(&str, &str)] = &[("cc", "build-essential"), ("git", "git")];
const USE: &[(&str, &str)] = &[
    ("mmdebstrap", "mmdebstrap"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("xz", "xz-utils"),
    ("ssh", "openssh-client"),
    ("node", "nodejs"),
    ("npm", "npm"),
];
const TEST: &[(&str, &str)] = &[
    ("bwrap", "bubblewrap"),
    ("runc", "runc"),
    ("crun", "crun"),
    ("setcap", "libcap2-bin"),
    ("setfattr", "attr"),
    ("mkfs.xfs", "xfsprogs"),
    ("sudo", "sudo"),
    ("tmux", "tmux"),
    ("ffmpeg", "ffmpeg"),
    ("pg_ctlcluster", "postgresql"),
];

const INSTALL_RUNSC: &str = "crates/provider-local/src/doctor/install-runsc.sh";

/// A cargo tool: its program, its crate, and the version that is installed where the machine has
/// none.
const CARGO_TOOLS: &[(&str, &str, &str)] = &[
    ("cargo-nextest", "cargo-nextest", "0.9.151"),
    ("cargo-machete", "cargo-machete", "0.9.2"),
    ("typos", "typos-cli", "1.52.0"),
    ("cargo-deny", "cargo-deny", "0.20.2"),
];

pub(crate) fn packages_to_use() -> Result<End> {
    packages(&[BUILD, USE])
}

pub(crate) fn packages_to_test() -> Result<End> {
    match packages(&[BUILD, USE, TEST])? {
        End::Passed => gvisor(),
        noted => Ok(noted),
    }
}

/// Some tests look at things in a real browser. Not every release has it as a package, and it is no
/// fault of the tree where it does not.
pub(crate) fn browser() -> End {
    if let Err(error) = packages(&[&[("chromium", "chromium")]]) {
        println!("{error:#}");
    }
    match find("chromium") {
        Some(_) => End::Passed,
        None => End::Skipped(
            "chromium cannot be installed here: tests in a browser prove nothing".to_owned(),
        ),
    }
}

/// As `nacre doctor --fix` does it: the package of that name is too old on some releases.
fn gvisor() -> Result<End> {
    if find("runsc").is_none() {
        let sudo = as_root().context("missing: runsc")?;
        run(&format!("{sudo}sh {INSTALL_RUNSC}"))?;
    }
    Ok(End::Passed)
}

fn packages(wanted: &[&[(&str, &str)]]) -> Result<End> {
    let missing: Vec<&str> = wanted
        .iter()
        .flat_map(|group| group.iter())
        .filter(|(program, _)| find(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(End::Passed);
    }
    let missing = missing.join(" ");
    if find("apt-get").is_none() {
        return Ok(End::Noted(format!(
            "this machine has no apt; it lacks what Debian has in: {missing}"
        )));
    }
    let sudo = as_root().with_context(|| format!("missing packages: {missing}"))?;
    run(&format!("{sudo}apt-get update -q"))?;
    let install = "env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends";
    run(&format!("{sudo}{install} {missing}"))?;
    Ok(End::Passed)
}

/// What to put before a command that needs root: nothing, or `sudo `.
pub(crate) fn as_root() -> Result<&'static str> {
    if output_of(&mut command("id -u"))?.trim() == "0" {
        return Ok("");
    }
    ensure!(
        find("sudo").is_some(),
        "this needs root, and there is no sudo"
    );
    Ok("sudo ")
}

pub(crate) fn cargo_tools() -> Result<End> {
    for (program, package, version) in CARGO_TOOLS {
        if find(program).is_some_and(|path| path.is_absolute()) && answers(program) {
            continue;
        }
        println!("{package} is missing; compiling it takes a few minutes, once");
        run_command(
            command("cargo install --locked --root")
                .arg(TOOLS)
                .arg(format!("{package}@{version}"))
                // The tools' own warnings are not ours to read.
                .env_remove("RUSTFLAGS"),
        )?;
    }
    Ok(End::Passed)
}

fn answers(program: &str) -> bool {
    let line = match program.strip_prefix("cargo-") {
        Some(subcommand) => format!("cargo {subcommand} --version"),
        None => format!("{program} --version"),
    };
    command(&line)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
