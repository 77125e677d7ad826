//! Git as the session wants it, and its repositories in their places.

use std::cell::RefCell;
use std::time::Duration;

use camino::Utf8PathBuf;
use wire::link::{Boot, Repo};
use wire::workplace::GIT_PORT;

use super::{Phases, Site};
use crate::command::{exec_as, run};
use crate::git::{Checkout, CloneError, Facts, IGNORE_FILE, Source, is_pull_due};
use crate::uploads::Pieces;

/// What nobody wants to commit.
const IGNORED: &str = ".nacre/\n.opencode/\n";
const OUTPUT: usize = 64 << 10;
/// The hub takes no longer uploads.
const LONGEST_BUNDLE: usize = 2 << 30;

/// Who commits, what is ignored, and where the git door is.
pub(super) async fn identity(site: &Site, boot: &Boot) -> Result<(), String> {
    let ignored = site.place.state.join(IGNORE_FILE);
    let below = ignored
        .strip_prefix(&site.place.home)
        .map_err(|error| error.to_string())?;
    site.files
        .write(below.as_str(), IGNORED.as_bytes(), None)
        .await
        .map_err(|error| error.to_string())?;
    let excludes = ("core.excludesFile".to_owned(), ignored.to_string());
    for (key, value) in settings(boot).into_iter().chain([excludes]) {
        let mut set = exec_as(
            &site.place.user,
            ["git", "config", "--global", "--replace-all", &key, &value],
        );
        // The file may have become a pipe.
        set.timeout_ms = Some(5000);
        let done = run(&site.hands, set, OUTPUT)
            .await
            .map_err(|e| e.to_string())?;
        if done.code != 0 {
            let complaint = String::from_utf8_lossy(&done.stderr);
            return Err(format!("git config {key} failed: {}", complaint.trim()));
        }
    }
    Ok(())
}

/// What git is told on every way: in a shell by its configuration, by us with each command.
pub(super) fn settings(boot: &Boot) -> Vec<(String, String)> {
    let (name, email) = match &boot.git_identity {
        Some(identity) => (identity.name.as_str(), identity.email.as_str()),
        None => ("Nacre", "nacre@localhost"),
    };
    let mut settings = vec![
        ("user.name".to_owned(), name.to_owned()),
        ("user.email".to_owned(), email.to_owned()),
    ];
    settings.extend(doors(boot));
    settings
}

/// HTTPS of the session's hosts goes to the git door, which adds what no sandbox may hold.
pub(super) fn doors(boot: &Boot) -> Vec<(String, String)> {
    let mut hosts: Vec<&str> = boot
        .git_access
        .iter()
        .filter_map(|repo| repo.url.strip_prefix("https://")?.split('/').next())
        .filter(|host| !host.is_empty())
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    let rewrite = |host: &&str| {
        (
            format!("url.http://127.0.0.1:{GIT_PORT}/git/https/{host}/.insteadOf"),
            format!("https://{host}/"),
        )
    };
    hosts.iter().map(rewrite).collect()
}

/// The folders of the repositories, which are there afterwards.
pub(super) async fn bring(
    site: &Site,
    boot: &Boot,
    phases: &Phases,
) -> Result<Vec<String>, String> {
    let workspace = below_home(site, &site.place.workspace)?;
    site.files
        .make_directory(&workspace)
        .await
        .map_err(|error| error.to_string())?;
    if boot.repos.is_empty() {
        let made = site.git.init_workspace().await;
        made.map_err(|error| error.to_string())?;
        return Ok(Vec::new());
    }
    let mut folders = Vec::new();
    for repo in &boot.repos {
        let folder = folder(repo);
        let wanted = Checkout {
            folder: folder.clone(),
            from: match &repo.bundle {
                Some(bundle) => Source::Bundle(bundle_at(site, phases, bundle, &folder).await?),
                None => Source::Url(repo.url.clone()),
            },
            branch: repo.branch.clone(),
            reference: repo.reference.clone(),
        };
        let progress = RefCell::new(phases.progress("workspace"));
        let cloning = site
            .git
            .clone_into(&wanted, |line| progress.borrow_mut().line(line));
        let telling = async {
            loop {
                tokio::time::sleep(Duration::from_millis(250)).await;
                // Taken out, so that no line that comes meanwhile finds it borrowed.
                let mut taken = progress.replace(phases.progress("workspace"));
                taken.tell().await;
            }
        };
        let cloned: Result<_, CloneError> = tokio::select! {
            cloned = cloning => cloned,
            () = telling => continue,
        };
        cloned.map_err(|error| format!("{folder}: {error}"))?;
        folders.push(folder);
    }
    Ok(folders)
}

/// Where a bundle is that somebody uploaded. It stays: what was cloned has it for its origin.
async fn bundle_at(
    site: &Site,
    phases: &Phases,
    bundle: &str,
    folder: &str,
) -> Result<Utf8PathBuf, String> {
    if !bundle.starts_with("upl_") {
        return Ok(Utf8PathBuf::from(bundle));
    }
    let is_name = bundle
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return Err(format!("{bundle:?} is no upload"));
    }
    let path = site.place.state.join("bundles").join(bundle);
    let folder = below_home(site, &site.place.workspace.join(folder))?;
    // A clone that is there is kept, and what it was made from may be too old to be asked for.
    let is_there = site.files.listed(&folder, 1).await;
    if is_there.is_ok_and(|names| !names.is_empty()) {
        return Ok(path);
    }
    let link = phases
        .link()
        .ok_or("there is nobody to ask for the upload")?;
    let below = below_home(site, &path)?;
    let mut writing = site
        .files
        .create_within(&below, None, LONGEST_BUNDLE)
        .await
        .map_err(|error| error.to_string())?;
    let mut pieces = Pieces::of(bundle, link);
    loop {
        let piece = pieces.next().await?;
        let written = writing.write(&piece.bytes).await;
        written.map_err(|error| error.to_string())?;
        if piece.is_last {
            break;
        }
    }
    let finished = writing.finish().await;
    finished.map_err(|error| error.to_string())?;
    Ok(path)
}

/// The folder that is named, or the last name of the address.
fn folder(repo: &Repo) -> String {
    if let Some(path) = &repo.path {
        return path.clone();
    }
    let address = repo.url.trim_end_matches('/');
    let name = address.rsplit(['/', ':']).next().unwrap_or(address);
    name.strip_suffix(".git").unwrap_or(name).to_owned()
}

pub(super) async fn refresh(site: &Site, boot: &Boot) -> Result<(), String> {
    let now = site.clock.now();
    let facts = Facts {
        pull_on_restore: boot.freshness.pull_on_restore,
        cadence: Duration::from_secs(boot.freshness.cadence_s),
        from_snapshot: boot.freshness.restored,
        repos: boot.repos.len(),
        last_fetch_at: site.git.last_fetch_at(),
        now,
    };
    if !is_pull_due(&facts) {
        return Ok(());
    }
    let pulled = site.git.refresh(now).await.map_err(|e| e.to_string())?;
    let failed: Vec<String> = pulled
        .into_iter()
        .filter_map(|pulled| Some(format!("{}: {}", pulled.repo, pulled.failure?)))
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join("; "))
    }
}

/// Where the agent works: in the only repository, or above all of them.
pub(super) fn directory(site: &Site, boot: &Boot) -> String {
    match &boot.repos[..] {
        [only] => site.place.workspace.join(folder(only)).into_string(),
        _ => site.place.workspace.to_string(),
    }
}

/// Repositories that the agent does not work in, but above: it knows nothing of their files' past.
pub fn folders_below_agent(boot: &Boot) -> Vec<String> {
    match &boot.repos[..] {
        [] | [_] => Vec::new(),
        several => several.iter().map(folder).collect(),
    }
}

/// Where a repository's own words to agents may lie.
pub(super) fn directories(site: &Site, boot: &Boot) -> Vec<String> {
    let workspace = &site.place.workspace;
    if boot.repos.is_empty() {
        return vec![workspace.to_string()];
    }
    let repos = boot.repos.iter();
    repos
        .map(|repo| workspace.join(folder(repo)).into_string())
        .collect()
}

pub(super) fn below_home(site: &Site, path: &camino::Utf8Path) -> Result<String, String> {
    path.strip_prefix(&site.place.home)
        .map(ToString::to_string)
        .map_err(|_| format!("{path} is not below the home"))
}

#[cfg(test)]
mod tests {
    use wire::link::{GitRepo, GitVerb};

    use super::*;

    fn at(url: &str) -> Repo {
        Repo {
            url: url.to_owned(),
            ..Repo::default()
        }
    }

    #[test]
    fn a_repository_is_called_by_the_last_name_of_its_address() {
        for (url, name) in [
            ("https://example.com/a/pearl.git", "pearl"),
            ("https://example.com/a/pearl/", "pearl"),
            ("git@example.com:pearl.git", "pearl"),
            ("/srv/pearl", "pearl"),
        ] {
            assert_eq!(folder(&at(url)), name);
        }
        let named = Repo {
            path: Some("other".to_owned()),
            ..at("https://example.com/a/pearl")
        };
        assert_eq!(folder(&named), "other");
    }

    #[test]
    fn each_host_is_rewritten_once_and_only_over_https() {
        let access = |url: &str| GitRepo {
            url: url.to_owned(),
            verbs: vec![GitVerb::Fetch],
        };
        let boot = Boot {
            git_access: vec![
                access("https://git.example/a/b"),
                access("https://git.example/c/d"),
                access("http://plain.example/a"),
                access("https:///nobody"),
            ],
            ..Boot::default()
        };
        assert_eq!(
            doors(&boot),
            [(
                "url.http://127.0.0.1:4003/git/https/git.example/.insteadOf".to_owned(),
                "https://git.example/".to_owned()
            )]
        );
    }
}
