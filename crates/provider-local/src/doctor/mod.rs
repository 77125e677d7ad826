//! What this machine has and lacks, found by trying each thing in a harmless way: in a thread or
//! a child that ends, on mounts that are attached nowhere. Version numbers are shown, not trusted.

mod gvisor;
mod home;
mod idle;
mod kernel;
mod limits;
mod network;
mod programs;
mod ranges;
mod scratch;
mod trial;

use camino::Utf8PathBuf;
use model::Secret;
use rustix::process::geteuid;
use serde::Serialize;

use crate::Config;
pub use network::Surroundings;
use scratch::Scratch;

/// What `doctor` looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    pub name: &'static str,
    pub status: FindingStatus,
    pub found: String,
    /// What to do, when something is to be done.
    pub advice: Option<String>,
    #[serde(skip)]
    pub fix: Option<Fix>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingStatus {
    Ok,
    /// Neither good nor bad: sandboxes run with it and without it.
    Info,
    /// Works, with less.
    Warning,
    /// Sandboxes cannot run.
    Missing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// Debian packages to install.
    Packages(Vec<&'static str>),
    /// A directory to make, and to shut to everyone but its owner.
    Directory(Utf8PathBuf),
    /// A kernel module to load.
    Module(&'static str),
    /// A file to be given this content.
    Write(Utf8PathBuf, String),
    /// A key of `[egress]` in the configuration to be set, or added to if it is a list. The value may
    /// be secret.
    Setting {
        file: Utf8PathBuf,
        key: &'static str,
        value: Secret,
    },
    /// A file system of this kind to be mounted at a directory, which is made.
    Mount(&'static str, Utf8PathBuf),
    /// A script for `sh`.
    Script {
        does: &'static str,
        script: &'static str,
    },
}

impl Finding {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            status: FindingStatus::Ok,
            found: found.into(),
            advice: None,
            fix: None,
        }
    }

    fn info(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            status: FindingStatus::Info,
            ..Self::ok(name, found)
        }
    }

    fn warning(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            status: FindingStatus::Warning,
            advice: Some(advice.into()),
            ..Self::ok(name, found)
        }
    }

    fn missing(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            status: FindingStatus::Missing,
            ..Self::warning(name, found, advice)
        }
    }

    fn fixed_by(self, fix: Fix) -> Self {
        Self {
            fix: Some(fix),
            ..self
        }
    }
}

/// Looks at everything a sandbox needs, and last starts one.
///
/// Takes a second or so, and must not be called on a thread that is about to end: what it starts
/// goes with the thread.
pub fn examine(config: &Config, around: &Surroundings) -> Vec<Finding> {
    let mut findings = vec![limits::root(), kernel::version()];
    let (place, found) = home::examine(config);
    findings.extend(found);
    findings.extend(ranges::examine(config));
    findings.extend(limits::examine());
    if geteuid().is_root() {
        as_root(config, place, &mut findings);
    } else {
        findings.push(Finding::info(
            "the rest of the kernel",
            "not tried: that takes root",
        ));
    }
    findings.extend(network::examine(&config.egress, around));
    findings.extend(programs::examine());
    findings
}

/// What only root can try.
fn as_root(config: &Config, place: Option<Utf8PathBuf>, findings: &mut Vec<Finding>) {
    findings.extend(kernel::examine(config));
    // Where nothing can be written, the home's own finding says so.
    let Some(place) = place else { return };
    scratch::sweep(config, &place);
    let scratch = match Scratch::new(&place) {
        Ok(scratch) => scratch,
        Err(error) => {
            findings.push(Finding::missing(
                "a place to try things",
                format!("cannot make a directory in {place}: {error}"),
                "set NACRE_HOME to a directory on a disk that can be written",
            ));
            return;
        }
    };
    findings.extend(kernel::examine_with(config, &scratch));
    let can_run = findings
        .iter()
        .all(|finding| finding.status != FindingStatus::Missing);
    if can_run {
        findings.push(trial::run(config, &scratch));
        findings.push(gvisor::examine(config, &scratch));
    } else {
        findings.push(Finding::info(
            "a sandbox",
            "not tried: something above is missing",
        ));
    }
}
