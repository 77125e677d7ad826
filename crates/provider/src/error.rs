use std::time::Duration;

use model::Redactor;

use crate::Capability;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What can go wrong, by what the caller does about it.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Already gone: a terminate succeeds.
    #[error("{what} does not exist")]
    NotFound { what: String },
    /// It is there and of no use: what was kept in it is lost, and trying again gives nothing.
    #[error("{what} is damaged: {how}")]
    Damaged { what: String, how: String },
    /// The caller should have asked [`crate::Capabilities`] first.
    #[error("this provider has no {0}")]
    Unsupported(Capability),
    /// Permanent as asked: wrong state, quota, bad image, bad input.
    #[error("{reason}")]
    Refused { reason: String },
    #[error("the provider asks to slow down")]
    Throttled { retry_after: Option<Duration> },
    /// May work when tried again.
    #[error("{operation} failed")]
    Unavailable {
        operation: String,
        #[source]
        source: BoxError,
    },
}

impl ProviderError {
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::NotFound { what: what.into() }
    }

    pub fn damaged(what: impl Into<String>, how: impl Into<String>) -> Self {
        Self::Damaged {
            what: what.into(),
            how: how.into(),
        }
    }

    pub fn refused(reason: impl Into<String>) -> Self {
        Self::Refused {
            reason: reason.into(),
        }
    }

    pub fn unavailable(operation: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Unavailable {
            operation: operation.into(),
            source: source.into(),
        }
    }

    /// The same error with every known secret taken out, causes included: they are flattened into
    /// text, because a cause of an unknown type cannot be rewritten.
    #[must_use]
    pub fn redacted(self, redactor: &Redactor) -> Self {
        match self {
            Self::NotFound { what } => Self::NotFound {
                what: redactor.apply(&what),
            },
            Self::Damaged { what, how } => Self::Damaged {
                what: redactor.apply(&what),
                how: redactor.apply(&how),
            },
            Self::Refused { reason } => Self::Refused {
                reason: redactor.apply(&reason),
            },
            Self::Unavailable { operation, source } => Self::Unavailable {
                operation: redactor.apply(&operation),
                source: redactor.apply(&chain(source.as_ref())).into(),
            },
            other @ (Self::Unsupported(_) | Self::Throttled { .. }) => other,
        }
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redacted_error_has_no_secret_in_message_or_cause() {
        let redactor = Redactor::new(["s3cr3t-canary"]);
        let cause = std::io::Error::other("token s3cr3t-canary was refused");
        let error =
            ProviderError::unavailable("create with s3cr3t-canary", cause).redacted(&redactor);
        let shown = format!("{error} {error:?} {}", chain(&error));
        assert!(!shown.contains("s3cr3t-canary"), "{shown}");
        assert!(shown.contains("was refused"));
    }
}
