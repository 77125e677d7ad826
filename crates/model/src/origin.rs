use serde::{Deserialize, Serialize};

use crate::SnapshotId;

/// What a new sandbox of a session starts from: the best that there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", content = "snapshot", rename_all = "snake_case")]
pub enum Origin {
    /// The session's own disk, as it last was.
    Session(SnapshotId),
    /// Cloned, dependencies installed.
    Prebuild(SnapshotId),
    /// A prebuild that is only a clone.
    DefaultPrebuild(SnapshotId),
    /// A clone of the one repository.
    Repo(SnapshotId),
    Base(SnapshotId),
    /// The provider's own image; everything is installed and cloned.
    Bare,
}

/// What there is to start from.
#[derive(Debug, Clone, Default)]
pub struct Candidates {
    pub session: Option<SnapshotId>,
    pub prebuild: Option<Prebuilt>,
    /// Of the repository, when it is ready.
    pub repo: Option<SnapshotId>,
    pub repositories: usize,
    pub base: Option<SnapshotId>,
}

/// A prebuild's snapshot.
#[derive(Debug, Clone)]
pub struct Prebuilt {
    pub snapshot: SnapshotId,
    pub has_deps: bool,
}

impl Origin {
    /// The one place that decides it. A snapshot of another provider is none: moving it is another
    /// thing, and asked for.
    pub fn choose(provider: &str, candidates: Candidates) -> Self {
        let ours = |snapshot: &SnapshotId| snapshot.provider == provider;
        let Candidates {
            session,
            prebuild,
            repo,
            repositories,
            base,
        } = candidates;
        if let Some(snapshot) = session.filter(ours) {
            return Self::Session(snapshot);
        }
        if let Some(prebuilt) = prebuild.filter(|prebuilt| ours(&prebuilt.snapshot)) {
            return if prebuilt.has_deps {
                Self::Prebuild(prebuilt.snapshot)
            } else {
                Self::DefaultPrebuild(prebuilt.snapshot)
            };
        }
        if let Some(snapshot) = repo.filter(ours).filter(|_| repositories == 1) {
            return Self::Repo(snapshot);
        }
        base.filter(ours).map_or(Self::Bare, Self::Base)
    }

    /// Whether what the services need is installed, so that they may start by themselves.
    pub fn has_deps(&self) -> bool {
        matches!(self, Self::Session(_) | Self::Prebuild(_))
    }

    pub fn snapshot(&self) -> Option<&SnapshotId> {
        match self {
            Self::Session(snapshot)
            | Self::Prebuild(snapshot)
            | Self::DefaultPrebuild(snapshot)
            | Self::Repo(snapshot)
            | Self::Base(snapshot) => Some(snapshot),
            Self::Bare => None,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Prebuild(_) | Self::DefaultPrebuild(_) => "prebuild",
            Self::Repo(_) => "repo",
            Self::Base(_) => "base",
            Self::Bare => "bare",
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{Id, SnapshotKind};

    fn snapshot(provider: &str, number: u128) -> SnapshotId {
        SnapshotId {
            provider: provider.to_owned(),
            kind: SnapshotKind::Disk,
            id: Id::from_uuid(Uuid::from_u128(number)),
        }
    }

    fn all() -> Candidates {
        Candidates {
            session: Some(snapshot("local", 4)),
            prebuild: Some(Prebuilt {
                snapshot: snapshot("local", 3),
                has_deps: true,
            }),
            repo: Some(snapshot("local", 2)),
            repositories: 1,
            base: Some(snapshot("local", 1)),
        }
    }

    fn chosen(candidates: Candidates) -> (&'static str, bool) {
        let origin = Origin::choose("local", candidates);
        (origin.name(), origin.has_deps())
    }

    #[test]
    fn the_nearest_to_the_session_is_chosen() {
        let mut candidates = all();
        assert_eq!(chosen(candidates.clone()), ("session", true));
        candidates.session = None;
        assert_eq!(chosen(candidates.clone()), ("prebuild", true));
        candidates.prebuild = None;
        assert_eq!(chosen(candidates.clone()), ("repo", false));
        candidates.repo = None;
        assert_eq!(chosen(candidates.clone()), ("base", false));
        candidates.base = None;
        assert_eq!(chosen(candidates), ("bare", false));
    }

    #[test]
    fn a_prebuild_that_is_only_a_clone_has_no_dependencies() {
        let candidates = Candidates {
            session: None,
            prebuild: Some(Prebuilt {
                snapshot: snapshot("local", 3),
                has_deps: false,
            }),
            ..all()
        };
        assert_eq!(chosen(candidates), ("prebuild", false));
    }

    #[test]
    fn the_snapshot_of_a_repository_is_for_sessions_of_it_alone() {
        let candidates = Candidates {
            session: None,
            prebuild: None,
            repositories: 2,
            ..all()
        };
        assert_eq!(chosen(candidates), ("base", false));
    }

    #[test]
    fn a_snapshot_of_another_provider_is_none() {
        let origin = Origin::choose("e2b", all());
        assert_eq!(origin, Origin::Bare);
    }
}
