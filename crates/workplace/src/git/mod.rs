//! Git, by the real `git` as the user, in the repositories of the workspace.
//!
//! A repository is hostile: its configuration can name programs to be run when it is merely looked
//! at. `guard` takes all of them away, so that nothing here ever runs a hook, a filter, a helper or
//! a pager of a repository. The person's and the agent's own `git` is their own business.

mod act;
mod clone;
mod diff;
mod freshness;
mod guard;
mod metadata;
mod outcome;
mod repo;
mod status;
mod trees;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::command::Outcome;
use crate::files::{FileError, Files};
use crate::hands::{Hands, HandsError};
use crate::place::Place;

pub use act::{Commit, Staging};
pub use clone::{Checkout, CloneError, Cloned, Source};
pub use diff::{DIFF_LIMIT, Diff};
pub use freshness::{Facts, Pulled, is_pull_due};
pub(crate) use guard::IGNORE_FILE;
pub use outcome::{Action, Code, GitResult};
pub use repo::Repo;
pub use status::{Change, CommitInfo, Standing, State};
pub use trees::{ChangeKind, ChangedFile};

const READ: Duration = Duration::from_secs(10);
const STAGE: Duration = Duration::from_secs(15);
const COMMIT: Duration = Duration::from_secs(30);
const PUSH: Duration = Duration::from_mins(1);
const DEEPEN: Duration = Duration::from_secs(30);
const PULL: Duration = Duration::from_mins(1);
const CLONE: Duration = Duration::from_mins(2);

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("there is no repository at {0:?}; `repos` lists those there are")]
    NotARepo(String),
    #[error("{0:?} leads out of the workspace")]
    Outside(String),
    #[error("{0:?} is not a commit's id, of 40 or 64 digits")]
    NotACommit(String),
    #[error("git did not answer in time")]
    TimedOut,
    #[error("git failed: {0}")]
    Failed(String),
    #[error("the repository cannot be looked at")]
    Files(#[source] FileError),
    #[error("git cannot be run")]
    Hands(#[from] HandsError),
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Git {
    hands: Rc<Hands>,
    files: Files,
    place: Place,
    /// Configuration that the host gives: who commits, and where the git door is. Nothing of the
    /// user's own configuration is read.
    settings: Rc<RefCell<Vec<(String, String)>>>,
    /// Held by whoever uses our own index: channels are at it side by side.
    own_index: Rc<Mutex<()>>,
}

impl Git {
    pub fn new(hands: Rc<Hands>, place: Place, settings: Vec<(String, String)>) -> Self {
        Self {
            files: Files::new(Rc::clone(&hands), &place),
            hands,
            place,
            settings: Rc::new(RefCell::new(settings)),
            own_index: Rc::default(),
        }
    }

    /// Who commits, and where the git door is, from now on; of all clones.
    pub fn set(&self, settings: Vec<(String, String)>) {
        *self.settings.borrow_mut() = settings;
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a failed git said, for people: the end of it, and no more than a few lines.
fn complaint(outcome: &Outcome) -> String {
    const MOST: usize = 1000;
    let said = text(&outcome.stderr);
    let said = said.trim();
    let mut start = said.len().saturating_sub(MOST);
    while !said.is_char_boundary(start) {
        start += 1;
    }
    said[start..].to_owned()
}
