//! What this machine has and lacks.

use camino::Utf8PathBuf;
use serde::Serialize;

use crate::Config;

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
    /// Works, with less.
    Warning,
    /// Sandboxes cannot run.
    Missing,
}

#[derive(Debug, Clone)]
pub enum Fix {
    /// Debian packages to install.
    Packages(Vec<&'static str>),
    /// A directory to make.
    Directory(Utf8PathBuf),
    /// A kernel module to load.
    Module(&'static str),
    /// A file to be given this content.
    Write(Utf8PathBuf, String),
}

/// Looks at everything a sandbox needs.
pub fn examine(_config: &Config) -> Vec<Finding> {
    Vec::new()
}
