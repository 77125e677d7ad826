/// What a call to an agent's server that went wrong means for its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The agent has forgotten its conversation: it gets another, and is told what was said.
    SessionMissing,
    /// Only the provider knows: it is asked, and an answer of its API is no death.
    SandboxMayBeDown,
    /// Told as it is; nothing is tried.
    NotRecoverable,
}

/// By what came back; a status of 0 is no answer at all.
pub(crate) fn classify(status: u16, body: &str) -> Failure {
    let body = body.to_ascii_lowercase();
    let is_down = ["sandbox not found", "is the sandbox started"];
    if is_down.iter().any(|sign| body.contains(sign)) {
        return Failure::SandboxMayBeDown;
    }
    match status {
        404 | 410 => Failure::SessionMissing,
        0 | 500..=599 => Failure::SandboxMayBeDown,
        _ => Failure::NotRecoverable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_answer_has_its_meaning() {
        use Failure::{NotRecoverable, SandboxMayBeDown, SessionMissing};
        for (status, body, meaning) in [
            (0, "connection refused", SandboxMayBeDown),
            (0, "", SandboxMayBeDown),
            (400, "bad model", NotRecoverable),
            (400, "Sandbox not found", SandboxMayBeDown),
            (
                400,
                "not reachable: is the sandbox started?",
                SandboxMayBeDown,
            ),
            (401, "", NotRecoverable),
            (403, "", NotRecoverable),
            (404, "no such session", SessionMissing),
            (404, "sandbox not found", SandboxMayBeDown),
            (410, "", SessionMissing),
            (429, "", NotRecoverable),
            (500, "", SandboxMayBeDown),
            (502, "bad gateway", SandboxMayBeDown),
            (503, "", SandboxMayBeDown),
            (599, "", SandboxMayBeDown),
        ] {
            assert_eq!(classify(status, body), meaning, "{status} {body}");
        }
    }
}
