//! Bringing a repository into the workspace.

use super::guard::Intent;
use super::repo::below;
use super::{CLONE, Git, GitError, STAGE, complaint};
use crate::files::FileError;

const ANSWER: usize = 64 << 10;
/// In the workspace, where a clone is until it is whole.
const UNDER_WAY: &str = ".nacre-clone";
/// Longer lines of progress are cut.
const MAX_LINE: usize = 500;

/// What to bring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// The name of its folder in the workspace.
    pub folder: String,
    pub from: Source,
    pub branch: Option<String>,
    /// A commit or tag, checked out after the branch.
    pub reference: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Url(String),
    /// A file inside the sandbox.
    Bundle(camino::Utf8PathBuf),
}

#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    #[error("{0:?} is no name for a folder of the workspace")]
    Folder(String),
    #[error("{0:?} is no address of a repository")]
    Address(String),
    #[error("{0:?} is no name of a branch, tag or commit")]
    Reference(String),
    #[error("cloning failed: {0}")]
    Clone(String),
    #[error("{reference} cannot be checked out: {message}")]
    Reach { reference: String, message: String },
    #[error(transparent)]
    Git(#[from] GitError),
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cloned {
    New,
    /// The folder was there, and is left as it is.
    Kept,
}

impl Git {
    /// `progress` gets git's own lines.
    pub async fn clone_into(
        &self,
        wanted: &Checkout,
        mut progress: impl FnMut(&str),
    ) -> Result<Cloned, CloneError> {
        let folder = below(&self.place.workspace, &wanted.folder)
            .ok()
            .filter(|folder| !folder.is_empty() && !folder.starts_with('-'))
            .ok_or_else(|| CloneError::Folder(wanted.folder.clone()))?;
        let address = match &wanted.from {
            Source::Url(url) => url.as_str(),
            Source::Bundle(path) => path.as_str(),
        };
        if address.is_empty() || address.starts_with('-') || address.contains(['\0', '\n']) {
            return Err(CloneError::Address(address.to_owned()));
        }
        for reference in [&wanted.branch, &wanted.reference].into_iter().flatten() {
            if reference.is_empty() || reference.starts_with('-') || reference.contains('\0') {
                return Err(CloneError::Reference(reference.clone()));
            }
        }
        match self.files.listed(&folder, 1).await {
            Ok(names) if !names.is_empty() => return Ok(Cloned::Kept),
            Ok(_) | Err(FileError::NotFound(_)) => {}
            Err(error) => return Err(CloneError::Git(error.into())),
        }
        // Beside, and renamed when it is whole: what is there is taken for cloned at the next start.
        let _ = self.files.remove(UNDER_WAY).await;
        let brought = self.bring(wanted, address, &mut progress).await;
        let placed = match brought {
            Ok(()) => {
                let renamed = self.files.rename(UNDER_WAY, &folder).await;
                renamed.map_err(|error| CloneError::Git(error.into()))
            }
            Err(error) => Err(error),
        };
        if placed.is_err() {
            let _ = self.files.remove(UNDER_WAY).await;
        }
        placed.map(|()| Cloned::New)
    }

    async fn bring(
        &self,
        wanted: &Checkout,
        address: &str,
        progress: &mut impl FnMut(&str),
    ) -> Result<(), CloneError> {
        let path = self.place.workspace.join(UNDER_WAY);
        let mut arguments = vec!["clone", "--progress", "--template="];
        if let Some(branch) = &wanted.branch {
            arguments.extend(["--branch", branch]);
        }
        arguments.extend(["--", address, path.as_str()]);
        let mut lines = Lines::default();
        let outcome = self
            .git_alone(&arguments, CLONE, |bytes| lines.read(bytes, &mut *progress))
            .await?;
        if outcome.code != 0 {
            return Err(CloneError::Clone(complaint(&outcome)));
        }
        if let Some(reference) = &wanted.reference {
            let repo = self.repo(UNDER_WAY).await?;
            let arguments = ["checkout", "--quiet", reference, "--"];
            let outcome = self
                .git(&repo, Intent::Change, &arguments, ANSWER, STAGE)
                .await?;
            if outcome.code != 0 {
                return Err(CloneError::Reach {
                    reference: reference.clone(),
                    message: complaint(&outcome),
                });
            }
        }
        Ok(())
    }

    /// A workspace without any repository becomes one, so that there is something to compare with.
    pub async fn init_workspace(&self) -> Result<(), GitError> {
        if !self.repos().await?.is_empty() {
            return Ok(());
        }
        let path = self.place.workspace.as_str();
        let arguments = [
            "init",
            "--quiet",
            "--initial-branch=main",
            "--template=",
            "--",
            path,
        ];
        let outcome = self.git_alone(&arguments, STAGE, |_| ()).await?;
        if outcome.code == 0 {
            Ok(())
        } else {
            Err(GitError::Failed(complaint(&outcome)))
        }
    }
}

/// Git writes over its own lines: both ends of line are one here.
#[derive(Debug, Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn read(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        for byte in bytes {
            if matches!(byte, b'\r' | b'\n') {
                let text = String::from_utf8_lossy(&self.0);
                if !text.trim().is_empty() {
                    line(text.trim());
                }
                self.0.clear();
            } else if self.0.len() < MAX_LINE {
                self.0.push(*byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_comes_line_by_line() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for piece in [
            &b"Receiving 1%\rRecei"[..],
            b"ving 100%\r\ndone",
            b".\n\n",
            b"\xff\r",
        ] {
            lines.read(piece, |line| seen.push(line.to_owned()));
        }
        assert_eq!(
            seen,
            ["Receiving 1%", "Receiving 100%", "done.", "\u{fffd}"]
        );
    }
}
