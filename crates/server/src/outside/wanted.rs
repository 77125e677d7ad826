//! What is asked for as a pull request, and of which repository; and why there is none.

use wire::link::Repo;

const LONGEST_TITLE: usize = 256;
const LONGEST_BODY: usize = 64 << 10;

/// What is asked for. Without a branch it is the one that is checked out, which is pushed first.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) repo: Option<String>,
    pub(crate) branch: Option<String>,
    pub(crate) base: Option<String>,
    pub(crate) title: String,
    pub(crate) body: String,
}

/// Why there is none, with a code of those that git's results have.
#[derive(Debug)]
pub(crate) struct NoPull {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

pub(super) const UNKNOWN: &str = "UNKNOWN_ERROR";

pub(super) fn no(code: &'static str, message: impl Into<String>) -> NoPull {
    NoPull {
        code,
        message: message.into(),
    }
}

pub(super) fn check(wanted: &Wanted) -> Result<(), NoPull> {
    let title = wanted.title.trim();
    if title.is_empty()
        || title.chars().count() > LONGEST_TITLE
        || title.chars().any(char::is_control)
    {
        let message = format!("a pull request has a title of 1 to {LONGEST_TITLE} characters");
        return Err(no(UNKNOWN, message));
    }
    if wanted.body.len() > LONGEST_BODY {
        let message = format!("the text of a pull request has at most {LONGEST_BODY} bytes");
        return Err(no(UNKNOWN, message));
    }
    let mut branches = wanted.branch.iter().chain(&wanted.base);
    match branches.find(|branch| !is_branch(branch)) {
        Some(_) => Err(no(UNKNOWN, "that is no name for a branch")),
        None => Ok(()),
    }
}

/// What git takes for one, more or less; nothing that leads elsewhere.
pub(super) fn is_branch(name: &str) -> bool {
    let plain = |letter: char| {
        !letter.is_whitespace() && !letter.is_control() && !"~^:?*[\\".contains(letter)
    };
    (1..=255).contains(&name.len())
        && name.chars().all(plain)
        && !name.contains("..")
        && !name.contains("//")
        && !name.starts_with(['-', '/'])
        && !name.ends_with('/')
}

/// The one that is named, or the only one.
pub(super) fn choose<'a>(repos: &'a [Repo], named: Option<&str>) -> Result<&'a Repo, NoPull> {
    let cloned: Vec<&Repo> = repos.iter().filter(|repo| !repo.url.is_empty()).collect();
    let named = named.map(|name| name.trim_end_matches('/'));
    match (
        named.filter(|name| !name.is_empty() && *name != "."),
        &cloned[..],
    ) {
        (_, []) => Err(no(
            "NO_REMOTE",
            "this session has no repository with an address",
        )),
        (None, [only]) => Ok(only),
        (None, _) => Err(no(
            "MULTIPLE_REMOTES",
            "this session has several repositories: say which with `repo`",
        )),
        (Some(name), _) => {
            let mut found = cloned.iter();
            let is_it = |repo: &&&Repo| directory(repo) == name || repo.url == name;
            let found = found.find(is_it).copied();
            found.ok_or_else(|| no("NOT_A_REPO", "this session has no repository of that name"))
        }
    }
}

/// Below the workspace.
pub(super) fn directory(repo: &Repo) -> String {
    if let Some(path) = &repo.path {
        return path.clone();
    }
    let name = repo.url.trim_end_matches('/').rsplit('/').next();
    let name = name.unwrap_or_default();
    name.strip_suffix(".git").unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo(url: &str, path: Option<&str>) -> Repo {
        Repo {
            url: url.to_owned(),
            path: path.map(str::to_owned),
            ..Repo::default()
        }
    }

    #[test]
    fn the_only_repository_needs_no_name_and_several_do() {
        let one = [repo("https://github.com/octo/pearl.git", None)];
        for name in [None, Some("."), Some("pearl"), Some("pearl/")] {
            assert!(choose(&one, name).is_ok(), "{name:?}");
        }
        assert_eq!(choose(&one, Some("other")).unwrap_err().code, "NOT_A_REPO");
        let two = [
            repo("https://github.com/octo/pearl", None),
            repo("https://github.com/octo/shell", Some("deep/shell")),
        ];
        assert_eq!(choose(&two, None).unwrap_err().code, "MULTIPLE_REMOTES");
        let found = choose(&two, Some("deep/shell")).unwrap();
        assert_eq!(found.url, two[1].url);
        assert_eq!(choose(&[], None).unwrap_err().code, "NO_REMOTE");
    }

    #[test]
    fn what_is_no_branch_is_told_before_anybody_is_asked() {
        for good in ["main", "feature/a-b", "fix_1.2", "ünï"] {
            assert!(is_branch(good), "{good}");
        }
        for bad in [
            "", "-x", "a b", "a..b", "a:b", "/a", "a/", "a//b", "a\nb", "a?b",
        ] {
            assert!(!is_branch(bad), "{bad}");
        }
    }
}
