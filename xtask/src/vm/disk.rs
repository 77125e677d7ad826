//! The disk that the virtual machine has at `/tmp`: the programs as they were just built, and room.
//! Copies, because somebody may build while the machine runs.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::fresh_directory;
use crate::command::{command, display, output_of, run_command};

const SIZE: &str = "8G";

/// What runs inside, by the name that it has there.
#[derive(Debug)]
pub(super) struct Programs(Vec<(&'static str, PathBuf)>);

impl Programs {
    pub(super) fn build() -> Result<Self> {
        let mut build = command(
            "cargo build --package nacre --package nacre-testkit --package nacre-provider-local --bins --tests --message-format json-render-diagnostics",
        );
        println!("$ {}", display(&build));
        let said = output_of(build.stderr(Stdio::inherit()))?;
        let made: Vec<Value> = said
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?;
        let wanted = [
            ("nacre", "cli", "bin"),
            ("nacre-probe", "testkit", "bin"),
            ("nacre-intruder", "testkit", "bin"),
            ("it", "provider-local", "test"),
        ];
        wanted
            .into_iter()
            .map(|(name, directory, kind)| {
                let made = executable(&made, name, directory, kind);
                Ok((
                    name,
                    made.with_context(|| format!("cargo says nothing of {name}"))?,
                ))
            })
            .collect::<Result<_>>()
            .map(Self)
    }
}

/// Among cargo's messages. A binary is also built as a test of itself; that one is not meant.
fn executable(made: &[Value], name: &str, directory: &str, kind: &str) -> Option<PathBuf> {
    let manifest = format!("/{directory}/Cargo.toml");
    made.iter()
        .filter(|message| {
            let of = message["manifest_path"].as_str().unwrap_or_default();
            of.ends_with(&manifest)
                && message["target"]["name"] == name
                && message["target"]["kind"][0] == kind
                && message["profile"]["test"] == (kind == "test")
        })
        .find_map(|message| message["executable"].as_str())
        .map(PathBuf::from)
}

/// Sparse, and made anew for each run.
pub(super) fn make(place: &Path, programs: &Programs, tests: &str) -> Result<PathBuf> {
    let content = place.join("disk");
    let directory = content.join("programs");
    fresh_directory(&content)?;
    fs_err::create_dir(&directory)?;
    for (name, path) in &programs.0 {
        fs_err::copy(path, directory.join(name))?;
    }
    fs_err::write(directory.join("inside.sh"), include_bytes!("inside.sh"))?;
    fs_err::write(directory.join("tests"), tests)?;
    let disk = place.join("disk.ext4");
    if disk.exists() {
        fs_err::remove_file(&disk)?;
    }
    run_command(
        command("mkfs.ext4 -q -d")
            .arg(&content)
            .arg(&disk)
            .arg(SIZE),
    )?;
    fs_err::remove_dir_all(&content)?;
    Ok(disk)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_binary_is_told_from_the_test_of_itself() {
        let message = |test: bool, executable: &str| {
            json!({
                "manifest_path": "/n/crates/cli/Cargo.toml",
                "target": { "name": "nacre", "kind": ["bin"] },
                "profile": { "test": test },
                "executable": executable,
            })
        };
        let made = [message(true, "/deps/nacre-1"), message(false, "/nacre")];
        assert_eq!(
            executable(&made, "nacre", "cli", "bin"),
            Some(PathBuf::from("/nacre"))
        );
    }
}
