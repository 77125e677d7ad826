//! Programs beside ours: one that builds bases, and those that the benchmark compares with.

use std::process::{Command, Stdio};

use super::{Finding, Fix};

/// What `doctor` calls it, the program, and how it tells its version.
const PEERS: [(&str, &str, &str); 6] = [
    ("bubblewrap", "bwrap", "--version"),
    ("runc", "runc", "--version"),
    ("crun", "crun", "--version"),
    ("podman", "podman", "--version"),
    ("docker", "docker", "--version"),
    ("btrfs tools", "btrfs", "--version"),
];

pub(super) fn examine() -> Vec<Finding> {
    let mut findings = vec![match version("mmdebstrap", "--version") {
        Some(version) => Finding::ok("mmdebstrap", format!("found {version}")),
        None => Finding::warning(
            "mmdebstrap",
            "not found",
            "install mmdebstrap: `nacre base build` makes a Debian base with it",
        )
        .fixed_by(Fix::Packages(vec!["mmdebstrap"])),
    }];
    findings.extend(PEERS.iter().map(|(name, program, argument)| {
        let found = version(program, argument).map_or_else(
            || "not found".to_owned(),
            |version| format!("found {version}"),
        );
        Finding::info(name, found)
    }));
    findings
}

/// What a program says of itself; `None` when there is none that answers.
pub(super) fn version(program: &str, argument: &str) -> Option<String> {
    // One that hangs, such as a client whose server does, must not hang us.
    let ran = Command::new("timeout")
        .args(["--kill-after=1", "5", program, argument])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    // Some say their version and then complain about something else.
    Some(number(&String::from_utf8_lossy(&ran.stdout))).filter(|version| !version.is_empty())
}

/// The first word of the first line that looks like a version, or the whole line.
fn number(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim();
    let looks_like_one =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    let word = line
        .split([' ', ','])
        .map(|word| word.strip_prefix('v').unwrap_or(word))
        .find(looks_like_one);
    word.unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_each_program_says() {
        for (said, is) in [
            ("bubblewrap 0.8.0\n", "0.8.0"),
            ("runc version 1.1.5+ds1\ncommit: x\n", "1.1.5+ds1"),
            ("Docker version 26.1.3, build b72abbb\n", "26.1.3"),
            ("btrfs-progs v6.2\n+EXPERIMENTAL", "6.2"),
            (
                "runsc version release-20240513.0\nspec: 1.1.0-rc.1",
                "runsc version release-20240513.0",
            ),
            ("", ""),
        ] {
            assert_eq!(number(said), is);
        }
    }

    #[test]
    fn a_program_that_is_not_there_has_no_version() {
        assert_eq!(version("nacre-no-such-program", "--version"), None);
    }
}
