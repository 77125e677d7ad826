//! Whether, and how, repositories are brought up to date when a session is restored.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::guard::{Intent, UPLOAD_PACK};
use super::metadata::Metadata;
use super::{Git, GitError, PULL, complaint};

const ANSWER: usize = 256 << 10;

/// What the decision is made on.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// The policy's switch.
    pub pull_on_restore: bool,
    /// How long a pull stays good. Zero: it does not.
    pub cadence: Duration,
    pub from_snapshot: bool,
    pub repos: usize,
    pub last_fetch_at: Option<Timestamp>,
    pub now: Timestamp,
}

pub fn is_pull_due(facts: &Facts) -> bool {
    if !facts.pull_on_restore || !facts.from_snapshot || facts.repos == 0 {
        return false;
    }
    match facts.last_fetch_at {
        None => true,
        Some(_) if facts.cadence.is_zero() => true,
        // A clock that went back says nothing about how long ago it was.
        Some(last) if last > facts.now => true,
        Some(last) => facts.now.duration_since(last).unsigned_abs() > facts.cadence,
    }
}

/// How one repository fared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pulled {
    pub repo: String,
    /// Why it is as it was.
    pub failure: Option<String>,
}

impl Git {
    /// Moves each repository forward to its upstream, where nothing stands against it. Never fails;
    /// when every one went well, the time is written down.
    pub async fn refresh(&self, now: Timestamp) -> Result<Vec<Pulled>, GitError> {
        let mut pulled = Vec::new();
        for repo in self.repos().await? {
            let failure = match self.pull(&repo.id).await {
                Ok(()) => None,
                Err(error) => Some(error.to_string()),
            };
            pulled.push(Pulled {
                repo: repo.id,
                failure,
            });
        }
        if pulled.iter().all(|pulled| pulled.failure.is_none()) {
            let mut metadata = Metadata::load(&self.place);
            metadata.set_last_git_fetch_at(now);
            if let Err(error) = metadata.store(&self.place) {
                pulled.push(Pulled {
                    repo: "metadata.json".to_owned(),
                    failure: Some(error.to_string()),
                });
            }
        }
        Ok(pulled)
    }

    pub fn last_fetch_at(&self) -> Option<Timestamp> {
        Metadata::load(&self.place).last_git_fetch_at()
    }

    async fn pull(&self, name: &str) -> Result<(), GitError> {
        let repo = self.repo(name).await?;
        let arguments = [
            "pull",
            UPLOAD_PACK,
            "--ff-only",
            "--no-rebase",
            "--no-verify",
            "--no-recurse-submodules",
        ];
        let outcome = self
            .git(&repo, Intent::Change, &arguments, ANSWER, PULL)
            .await?;
        if outcome.code == 0 {
            Ok(())
        } else {
            Err(GitError::Failed(complaint(&outcome)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_pull_is_due() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let facts = Facts {
            pull_on_restore: true,
            cadence: Duration::from_mins(1),
            from_snapshot: true,
            repos: 1,
            last_fetch_at: Some(at(1000)),
            now: at(1061),
        };
        let table = [
            ("long enough ago", facts, true),
            (
                "too soon",
                Facts {
                    now: at(1060),
                    ..facts
                },
                false,
            ),
            (
                "never before",
                Facts {
                    last_fetch_at: None,
                    ..facts
                },
                true,
            ),
            (
                "always",
                Facts {
                    now: at(1000),
                    cadence: Duration::ZERO,
                    ..facts
                },
                true,
            ),
            (
                "clock went back",
                Facts {
                    now: at(5),
                    ..facts
                },
                true,
            ),
            (
                "switched off",
                Facts {
                    pull_on_restore: false,
                    ..facts
                },
                false,
            ),
            (
                "cloned just now",
                Facts {
                    from_snapshot: false,
                    ..facts
                },
                false,
            ),
            ("no repository", Facts { repos: 0, ..facts }, false),
        ];
        for (what, facts, due) in table {
            assert_eq!(is_pull_due(&facts), due, "{what}");
        }
    }
}
