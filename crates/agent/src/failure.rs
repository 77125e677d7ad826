//! Why a model failed, and whether another may do better.
//!
//! What the agent says in types decides first: a status code, a named error. Its words are looked
//! at only where it says nothing else, because they change without notice.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    RateLimit,
    Overloaded,
    Auth,
    Billing,
    NoSuchModel,
    /// The provider failed: 5xx.
    Provider,
    ContextLength,
    /// It answered with nothing.
    Empty,
    /// Its stream broke.
    Broken,
    /// It did not answer in time.
    Silent,
    /// Nothing that another model would do better.
    Other,
}

impl FailureKind {
    /// Whether it makes sense to ask another model the same.
    pub fn is_the_models(self) -> bool {
        self != FailureKind::Other
    }
}

const LONGEST_MESSAGE: usize = 600;

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        let message: String = message.into().chars().take(LONGEST_MESSAGE).collect();
        Failure { kind, message }
    }

    /// From a status code of the model's provider, and its words where the code says too little.
    pub fn from_status(status: u16, message: &str) -> Failure {
        let kind = match status {
            429 if reads_as(message) == FailureKind::Billing => FailureKind::Billing,
            429 => FailureKind::RateLimit,
            529 | 503 => FailureKind::Overloaded,
            401 | 403 => FailureKind::Auth,
            402 => FailureKind::Billing,
            404 => FailureKind::NoSuchModel,
            408 => FailureKind::Silent,
            413 => FailureKind::ContextLength,
            500..=599 => FailureKind::Provider,
            // A 400 is how providers say that a prompt is too long, or that a model is unknown.
            _ => reads_as(message),
        };
        Failure::new(kind, message)
    }

    /// From words alone.
    pub fn from_words(message: &str) -> Failure {
        Failure::new(reads_as(message), message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            FailureKind::RateLimit => "rate limit",
            FailureKind::Overloaded => "overloaded",
            FailureKind::Auth => "not authorised",
            FailureKind::Billing => "billing",
            FailureKind::NoSuchModel => "no such model",
            FailureKind::Provider => "provider error",
            FailureKind::ContextLength => "the conversation is too long for it",
            FailureKind::Empty => "empty answer",
            FailureKind::Broken => "stream broken",
            FailureKind::Silent => "no answer in time",
            FailureKind::Other => return f.write_str(&self.message),
        };
        write!(f, "{kind} ({})", self.message)
    }
}

/// Most telling first: a message about quota often speaks of rates too.
const WORDS: &[(FailureKind, &[&str])] = &[
    (
        FailureKind::ContextLength,
        &[
            "context length",
            "context_length",
            "context window",
            "prompt is too long",
            "maximum context",
            "too many tokens",
        ],
    ),
    (
        FailureKind::Billing,
        &[
            "credit balance",
            "insufficient_quota",
            "insufficient quota",
            "billing",
            "exceeded your current quota",
            "payment required",
        ],
    ),
    (
        FailureKind::RateLimit,
        &[
            "rate limit",
            "rate_limit",
            "ratelimit",
            "too many requests",
            "429",
        ],
    ),
    (FailureKind::Overloaded, &["overloaded", "529"]),
    (
        FailureKind::Auth,
        &[
            "invalid_api_key",
            "invalid api key",
            "invalid x-api-key",
            "authentication",
            "unauthorized",
            "permission denied",
        ],
    ),
    (
        FailureKind::NoSuchModel,
        &[
            "model not found",
            "not supported",
            "model_not_found",
            "not enabled",
            "does not exist",
        ],
    ),
    (
        FailureKind::Broken,
        &[
            "connection reset",
            "socket",
            "econnreset",
            "stream error",
            "terminated",
            "network",
        ],
    ),
    (FailureKind::Silent, &["timeout", "timed out"]),
    (
        FailureKind::Empty,
        &["empty completion", "empty response", "no output"],
    ),
    (
        FailureKind::Provider,
        &[
            "internal server error",
            "server_error",
            "bad gateway",
            "service unavailable",
        ],
    ),
];

fn reads_as(message: &str) -> FailureKind {
    let message = message.to_lowercase();
    WORDS
        .iter()
        .find(|(_, words)| words.iter().any(|word| message.contains(word)))
        .map_or(FailureKind::Other, |(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_code_decides_before_words() {
        let failure = Failure::from_status(401, "slow down, rate limit");
        assert_eq!(failure.kind, FailureKind::Auth);
    }

    #[test]
    fn a_rate_limit_that_is_a_quota_is_billing() {
        let failure = Failure::from_status(429, "insufficient_quota");
        assert_eq!(failure.kind, FailureKind::Billing);
    }

    #[test]
    fn a_prompt_that_is_too_long_is_known_by_its_words() {
        let failure = Failure::from_status(400, "prompt is too long: 210000 tokens");
        assert_eq!(failure.kind, FailureKind::ContextLength);
    }

    #[test]
    fn a_bad_request_is_nobodys_turn() {
        assert!(
            !Failure::from_status(400, "messages: field required")
                .kind
                .is_the_models()
        );
    }

    #[test]
    fn words_without_a_code_are_read() {
        for (words, kind) in [
            ("Too Many Requests", FailureKind::RateLimit),
            ("Overloaded", FailureKind::Overloaded),
            ("Connection reset by server", FailureKind::Broken),
            ("Your credit balance is too low", FailureKind::Billing),
            ("no idea", FailureKind::Other),
        ] {
            assert_eq!(Failure::from_words(words).kind, kind, "{words}");
        }
    }
}
