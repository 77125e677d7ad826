//! Several repositories side by side. The agent remembers files by the repository it works in; above
//! several it is in none, compares nothing and takes nothing back. So that is done here.

use std::cell::RefCell;
use std::rc::Rc;

use wire::link::{Change, FileDiff};

use super::marks::Trees;
use crate::git::{ChangeKind, ChangedFile, Git};

/// Those that the agent works above. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Repositories {
    git: Git,
    folders: Rc<RefCell<Vec<String>>>,
    /// What was there before something was taken back last.
    taken_back: Rc<RefCell<Trees>>,
}

impl Repositories {
    pub fn new(git: Git) -> Self {
        Self {
            git,
            folders: Rc::default(),
            taken_back: Rc::default(),
        }
    }

    pub fn set(&self, folders: Vec<String>) {
        self.folders.replace(folders);
    }

    /// As they are now. One that cannot be read is left out: it costs its past, and no turn.
    pub async fn trees(&self) -> Trees {
        let folders = self.folders.borrow().clone();
        let mut trees = Trees::new();
        for folder in folders {
            match self.git.tree(&folder).await {
                Ok(tree) => drop(trees.insert(folder, tree)),
                Err(error) => tracing::warn!(%error, folder, "its files cannot be gone back to"),
            }
        }
        trees
    }

    /// What differs from the last commits. `None` when the agent knows that itself.
    pub async fn changes(&self) -> Result<Option<Vec<FileDiff>>, String> {
        let folders = self.folders.borrow().clone();
        if folders.is_empty() {
            return Ok(None);
        }
        let mut all = Vec::new();
        for folder in folders {
            let changes = self.git.changes(&folder).await;
            let changes = changes.map_err(|error| format!("{folder}: {error}"))?;
            all.extend(changes.into_iter().map(file_diff));
        }
        Ok(Some(all))
    }

    /// Makes the files what they were.
    pub async fn take_back(&self, trees: Trees) -> Result<(), String> {
        if trees.is_empty() {
            return Ok(());
        }
        let now = self.trees().await;
        self.taken_back.replace(now);
        self.restore(trees).await
    }

    /// Undoes the last [`Repositories::take_back`].
    pub async fn bring_back(&self) -> Result<(), String> {
        let trees = self.taken_back.take();
        self.restore(trees).await
    }

    async fn restore(&self, trees: Trees) -> Result<(), String> {
        let mut wrong = Vec::new();
        for (folder, tree) in trees {
            if let Err(error) = self.git.restore(&folder, &tree).await {
                wrong.push(format!("the files of {folder} are as they were: {error}"));
            }
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(wrong.join("; "))
        }
    }
}

fn file_diff(file: ChangedFile) -> FileDiff {
    FileDiff {
        path: file.path,
        status: match file.kind {
            ChangeKind::Added => Change::Added,
            ChangeKind::Modified => Change::Modified,
            ChangeKind::Deleted => Change::Deleted,
        },
        patch: file.patch,
    }
}
