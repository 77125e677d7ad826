//! Where the work is, and whose it is.

use camino::Utf8PathBuf;
use wire::workplace::{HOME, STATE, USER, WORKSPACE};

#[derive(Debug, Clone)]
pub struct Place {
    /// As [`wire::guest::Exec::user`] takes it.
    pub user: String,
    pub home: Utf8PathBuf,
    pub workspace: Utf8PathBuf,
    /// What must outlive the sandbox: service state, logs, metadata.
    pub state: Utf8PathBuf,
    /// A file system in memory, so that no snapshot ever holds what is put there.
    pub secrets: Utf8PathBuf,
}

impl Place {
    /// As every sandbox has it.
    pub fn standard() -> Self {
        Self {
            user: USER.to_owned(),
            home: HOME.into(),
            workspace: WORKSPACE.into(),
            state: STATE.into(),
            secrets: format!("{}/env", wire::guest::DOORS).into(),
        }
    }
}
