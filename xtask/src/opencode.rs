//! The real OpenCode for tests, in `target/tools`. Tests find it there.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::command::{command, find, output_of};
use crate::report::End;

/// Where the version is pinned; nowhere else.
const PIN: &str = "crates/agent/src/opencode/mod.rs";
/// OpenCode's tools search with it, and it would fetch one itself.
const RIPGREP: &str = "1.18.0";

pub(crate) fn fetch() -> Result<End> {
    let version = pinned_version()?;
    let tools = tools_directory()?;
    let stamp = tools.join("opencode.version");
    let is_there = fs_err::read_to_string(&stamp).is_ok_and(|known| known == version);
    if is_there && tools.join("opencode").is_file() {
        return Ok(End::Passed);
    }
    let skipped = |why: &str| {
        let effect = "tests with the real OpenCode prove nothing";
        Ok(End::Skipped(format!("{why}: {effect}")))
    };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "linux-x64",
        "aarch64" => "linux-arm64",
        _ => return skipped("there is no OpenCode for this machine"),
    };
    if find("npm").is_none() {
        return skipped("there is no npm here");
    }
    let packages = tools.join("packages");
    fs_err::create_dir_all(&packages)?;
    let mut install = command("npm install --no-audit --no-fund --ignore-scripts --prefix");
    install
        .arg(&packages)
        .arg(format!("opencode-{machine}@{version}"))
        .arg(format!("@vscode/ripgrep-{machine}@{RIPGREP}"));
    if let Err(error) = output_of(&mut install) {
        println!("{error:#}");
        return skipped("OpenCode cannot be fetched from here");
    }
    let modules = packages.join("node_modules");
    let opencode = modules.join(format!("opencode-{machine}/bin/opencode"));
    let ripgrep = modules.join(format!("@vscode/ripgrep-{machine}/bin/rg"));
    link(&opencode, &tools.join("opencode"))?;
    link(&ripgrep, &tools.join("rg"))?;
    fs_err::write(&stamp, version)?;
    Ok(End::Passed)
}

fn pinned_version() -> Result<String> {
    let source = fs_err::read_to_string(PIN)?;
    let after = source.split_once("pub const VERSION: &str = \"");
    let version = after.and_then(|(_, rest)| rest.split('"').next());
    Ok(version
        .with_context(|| format!("{PIN} pins no version"))?
        .to_owned())
}

/// Beside the profile that this program was built in.
fn tools_directory() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("not built by cargo")?;
    Ok(target.join("tools"))
}

fn link(program: &Path, name: &Path) -> Result<()> {
    if name.is_symlink() {
        fs_err::remove_file(name)?;
    }
    Ok(fs_err::os::unix::fs::symlink(program, name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_where_it_is_pinned() {
        std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
        let version = pinned_version().unwrap();
        assert!(version.split('.').count() == 3, "{version}");
    }
}
