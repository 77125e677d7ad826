use std::fmt;
use std::io;

use provider::ProviderError;
use serde::Serialize;

use crate::commands::remote;

/// What ends a command, as its user sees it: the kind sets the exit code, the hints say the next
/// step.
#[derive(Debug)]
pub(crate) struct CommandError {
    kind: Kind,
    error: anyhow::Error,
    hints: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Failed,
    Usage,
    NotFound,
    Refused,
    Unavailable,
    TimeLimit,
}

impl Kind {
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Unavailable => 5,
            // As `timeout` of coreutils does.
            Self::TimeLimit => 124,
        }
    }
}

impl CommandError {
    pub(crate) fn new(kind: Kind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            error: anyhow::Error::msg(message.to_string()),
            hints: Vec::new(),
        }
    }

    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::new(Kind::Failed, message)
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Kind::Usage, message)
    }

    pub(crate) fn not_found(message: impl fmt::Display) -> Self {
        Self::new(Kind::NotFound, message)
    }

    pub(crate) fn refused(message: impl fmt::Display) -> Self {
        Self::new(Kind::Refused, message)
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    #[must_use]
    pub(crate) fn hint_if_missing(self, hint: impl Into<String>) -> Self {
        if self.kind == Kind::NotFound {
            self.hint(hint)
        } else {
            self
        }
    }

    /// Says what was being done when `self` happened.
    #[must_use]
    pub(crate) fn context(mut self, doing: impl fmt::Display + Send + Sync + 'static) -> Self {
        self.error = self.error.context(doing);
        self
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn exit_code(&self) -> u8 {
        self.kind.exit_code()
    }

    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The message, then each cause that says something new.
    pub(crate) fn chain(&self) -> Vec<String> {
        let mut messages: Vec<String> = Vec::new();
        for cause in self.error.chain() {
            let text = cause.to_string();
            // Some libraries repeat their source in their own message.
            if !messages.last().is_some_and(|last| last.contains(&text)) {
                messages.push(text);
            }
        }
        messages
    }
}

/// Anything a command meets: a provider's error brings its own kind, wherever it is in the chain.
impl<E: Into<anyhow::Error>> From<E> for CommandError {
    fn from(error: E) -> Self {
        let error = error.into();
        let (kind, hint) = error
            .chain()
            .find_map(classify)
            .unwrap_or((Kind::Failed, None));
        Self {
            kind,
            error,
            hints: hint.into_iter().collect(),
        }
    }
}

fn classify(cause: &(dyn std::error::Error + 'static)) -> Option<(Kind, Option<String>)> {
    if let Some(error) = cause.downcast_ref::<client::ClientError>() {
        return Some(remote::classify(error));
    }
    let answer = match cause.downcast_ref::<ProviderError>()? {
        ProviderError::NotFound { .. } => (Kind::NotFound, None),
        ProviderError::Unsupported(_)
        | ProviderError::Refused { .. }
        | ProviderError::Damaged { .. } => (Kind::Refused, None),
        ProviderError::Throttled { retry_after } => {
            let hint = match retry_after {
                Some(wait) => format!("try again in {} s", wait.as_secs().max(1)),
                None => "try again later".to_owned(),
            };
            (Kind::Unavailable, Some(hint))
        }
        ProviderError::Unavailable { source, .. } => {
            let hint = if is_permission(source.as_ref()) {
                "the local engine needs root: run it with sudo"
            } else {
                "try again; `nacre doctor` looks for what is wrong with this machine"
            };
            (Kind::Unavailable, Some(hint.to_owned()))
        }
    };
    Some(answer)
}

/// Whether the system said no, and we are not root.
fn is_permission(source: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(source), |error| error.source());
    let denied = causes.any(|cause| {
        let error = cause.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    });
    denied && !rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use provider::Capability;

    use super::*;

    #[test]
    fn a_providers_error_keeps_its_meaning_in_the_exit_code() {
        let cases = [
            (ProviderError::not_found("sandbox x"), 3),
            (ProviderError::Unsupported(Capability::Fork), 4),
            (ProviderError::refused("it is paused"), 4),
            (
                ProviderError::Throttled {
                    retry_after: Some(Duration::from_secs(2)),
                },
                5,
            ),
            (ProviderError::unavailable("create", "no memory"), 5),
        ];
        for (error, code) in cases {
            let shown = error.to_string();
            assert_eq!(CommandError::from(error).exit_code(), code, "{shown}");
        }
    }

    #[test]
    fn a_providers_error_is_recognised_below_a_context() {
        let error =
            anyhow::Error::new(ProviderError::not_found("sandbox x")).context("cannot copy");
        let error = CommandError::from(error);
        assert_eq!(error.kind(), Kind::NotFound);
        assert_eq!(error.chain(), ["cannot copy", "sandbox x does not exist"]);
    }

    #[test]
    fn a_cause_that_its_error_repeats_is_said_once() {
        let error = anyhow::anyhow!("permission denied").context("cannot open: permission denied");
        assert_eq!(
            CommandError::from(error).chain(),
            ["cannot open: permission denied"]
        );
    }
}
