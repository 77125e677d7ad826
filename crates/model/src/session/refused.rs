/// A move that the table does not have. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the session is stopped: fork it to go on from its last snapshot")]
    Stopped,
    #[error("the session is suspended: what suspended it must be cleared first")]
    Suspended,
    #[error("the session lost something: `recover` accepts that, nothing else wakes it")]
    Degraded,
    #[error("the session is not running")]
    NotRunning,
    #[error("the session is being moved to another sandbox")]
    Migrating,
    #[error("the session is being paused")]
    Leaving,
    #[error("the session has nothing to recover from")]
    NotDegraded,
    #[error("the session is not suspended")]
    NotSuspended,
    #[error("the session is not paused in place")]
    NotInPlace,
}

impl Refused {
    /// Stable, for programs.
    pub fn code(self) -> &'static str {
        match self {
            Self::Stopped => "session-stopped",
            Self::Suspended => "session-suspended",
            Self::Degraded => "session-degraded",
            Self::NotRunning => "session-not-running",
            Self::Migrating => "session-migrating",
            Self::Leaving => "session-pausing",
            Self::NotDegraded => "session-not-degraded",
            Self::NotSuspended => "session-not-suspended",
            Self::NotInPlace => "session-not-in-place",
        }
    }
}
