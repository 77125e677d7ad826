//! What came of something done to a repository, in a word that a program can act on.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    CreateBranch,
    Commit,
    Push,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    Success,
    NothingToCommit,
    NoRemote,
    NotARepo,
    ShallowPushFailed,
    AuthFailed,
    BranchExists,
    MergeConflict,
    RepoBusy,
    MultipleRemotes,
    UnknownError,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GitResult {
    pub action: Action,
    pub success: bool,
    pub code: Code,
    pub message: String,
}

impl GitResult {
    pub(super) fn success(action: Action, message: impl Into<String>) -> Self {
        Self {
            action,
            success: true,
            code: Code::Success,
            message: message.into(),
        }
    }

    pub(super) fn failure(action: Action, code: Code, message: impl Into<String>) -> Self {
        Self {
            action,
            success: false,
            code,
            message: message.into(),
        }
    }
}

/// In the order in which one hides another.
const SIGNS: [(&str, Code); 22] = [
    ("not a git repository", Code::NotARepo),
    ("index.lock", Code::RepoBusy),
    (".lock': file exists", Code::RepoBusy),
    ("another git process", Code::RepoBusy),
    ("shallow update not allowed", Code::ShallowPushFailed),
    ("shallow", Code::ShallowPushFailed),
    ("authentication failed", Code::AuthFailed),
    ("could not read username", Code::AuthFailed),
    ("could not read password", Code::AuthFailed),
    ("permission denied", Code::AuthFailed),
    ("terminal prompts disabled", Code::AuthFailed),
    ("requested url returned error: 401", Code::AuthFailed),
    ("requested url returned error: 403", Code::AuthFailed),
    ("invalid username or", Code::AuthFailed),
    ("already exists", Code::BranchExists),
    ("unmerged", Code::MergeConflict),
    ("merge conflict", Code::MergeConflict),
    ("conflict (", Code::MergeConflict),
    ("nothing to commit", Code::NothingToCommit),
    ("no changes added to commit", Code::NothingToCommit),
    ("no configured push destination", Code::NoRemote),
    ("does not appear to be a git repository", Code::NoRemote),
];

/// From what git said.
pub(super) fn classify(said: &str) -> Code {
    let said = said.to_lowercase();
    SIGNS
        .iter()
        .find(|(sign, _)| said.contains(sign))
        .map_or(Code::UnknownError, |(_, code)| *code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_becomes_a_code() {
        let table = [
            ("fatal: not a git repository: '/x/.git'", Code::NotARepo),
            (
                "fatal: Unable to create '/x/.git/index.lock': File exists.",
                Code::RepoBusy,
            ),
            (
                " ! [remote rejected] main -> main (shallow update not allowed)",
                Code::ShallowPushFailed,
            ),
            (
                "fatal: could not read Username for 'https://h': terminal prompts disabled",
                Code::AuthFailed,
            ),
            (
                "remote: error: 403\nfatal: unable to access: The requested URL returned error: 403",
                Code::AuthFailed,
            ),
            (
                "fatal: a branch named 'x' already exists",
                Code::BranchExists,
            ),
            (
                "error: Committing is not possible because you have unmerged files.",
                Code::MergeConflict,
            ),
            ("something new", Code::UnknownError),
        ];
        for (said, code) in table {
            assert_eq!(classify(said), code, "{said}");
        }
        assert_eq!(serde_json::to_value(Code::NotARepo).unwrap(), "NOT_A_REPO");
    }
}
