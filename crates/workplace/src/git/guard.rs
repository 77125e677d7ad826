//! The surroundings in which git runs nothing of a repository's choosing.

use std::time::Duration;

use wire::Raw;

use super::{Git, GitError, Repo, complaint, text};
use crate::command::{Outcome, exec_as, run, run_with};

/// Whatever a repository says, these hold. An empty helper clears those named before.
const ALWAYS: [(&str, &str); 34] = [
    ("advice.detachedHead", "false"),
    ("color.ui", "false"),
    ("commit.gpgSign", "false"),
    ("core.alternateRefsCommand", "true"),
    ("core.askPass", ""),
    ("core.attributesFile", "/dev/null"),
    ("core.editor", "true"),
    ("core.fsmonitor", "false"),
    ("core.gitProxy", ""),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.quotePath", "false"),
    ("core.sshCommand", "ssh"),
    ("core.symlinks", "true"),
    ("credential.helper", ""),
    ("credential.interactive", "never"),
    ("diff.external", ""),
    ("diff.submodule", "short"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("gc.auto", "0"),
    ("log.showSignature", "false"),
    ("maintenance.auto", "false"),
    ("merge.autoStash", "false"),
    ("protocol.allow", "never"),
    ("protocol.file.allow", "always"),
    ("protocol.http.allow", "always"),
    ("protocol.https.allow", "always"),
    ("protocol.ssh.allow", "always"),
    ("push.gpgSign", "false"),
    ("push.recurseSubmodules", "no"),
    ("safe.directory", "*"),
    ("submodule.recurse", "false"),
    ("tag.gpgSign", "false"),
];

const ENVIRONMENT: [(&str, &str); 14] = [
    ("GIT_ALLOW_PROTOCOL", "file:http:https:ssh"),
    ("GIT_ASKPASS", "false"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_EDITOR", "true"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("LC_ALL", "C.UTF-8"),
    ("SSH_ASKPASS", "false"),
];

/// What `git-lfs install` writes. It is no repository's choice, and a commit without it would put
/// large files where pointers belong.
const LFS: [(&str, &str); 4] = [
    ("filter.lfs.clean", "git-lfs clean -- %f"),
    ("filter.lfs.smudge", "git-lfs smudge -- %f"),
    ("filter.lfs.process", "git-lfs filter-process"),
    ("filter.lfs.required", "true"),
];

/// For whatever talks to a remote. Of its programs git takes the first that is configured, so that
/// none can be overridden but on the command line.
pub(super) const UPLOAD_PACK: &str = "--upload-pack=git-upload-pack";
pub(super) const RECEIVE_PACK: &str = "--receive-pack=git-receive-pack";

const CONFIGURATION: usize = 1 << 20;
/// Of the workplace's own folder.
pub(crate) const IGNORE_FILE: &str = "gitignore";

/// Whether a command only looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    Look,
    Change,
}

impl Git {
    /// Runs git in a repository, on nothing but what is ours to say.
    pub(super) async fn git(
        &self,
        repo: &Repo,
        intent: Intent,
        arguments: &[&str],
        limit: usize,
        time: Duration,
    ) -> Result<Outcome, GitError> {
        self.git_with(repo, intent, &[], arguments, limit, time)
            .await
    }

    /// With more in its environment.
    pub(super) async fn git_with(
        &self,
        repo: &Repo,
        intent: Intent,
        more: &[(Raw, Raw)],
        arguments: &[&str],
        limit: usize,
        time: Duration,
    ) -> Result<Outcome, GitError> {
        let names = self.configured(repo).await?;
        let mut env = self.environment(intent, &overrides(&names));
        env.extend_from_slice(more);
        self.run(repo, env, arguments, limit, time).await
    }

    async fn run(
        &self,
        repo: &Repo,
        env: Vec<(Raw, Raw)>,
        arguments: &[&str],
        limit: usize,
        time: Duration,
    ) -> Result<Outcome, GitError> {
        let git_dir = format!("--git-dir={}", repo.git_dir);
        let work_tree = format!("--work-tree={}", repo.path);
        let mut argv = vec!["git", "--no-pager", &git_dir, &work_tree];
        argv.extend(arguments);
        let mut exec = exec_as(&self.place.user, argv);
        exec.cwd = Some(repo.path.as_str().into());
        exec.env = env;
        exec.timeout_ms = Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let outcome = run(&self.hands, exec, limit).await?;
        if outcome.timed_out {
            return Err(GitError::TimedOut);
        }
        Ok(outcome)
    }

    /// Outside any repository: for a clone.
    pub(super) async fn git_alone(
        &self,
        arguments: &[&str],
        time: Duration,
        complaint: impl FnMut(&[u8]),
    ) -> Result<Outcome, GitError> {
        let argv = [&["git", "--no-pager"], arguments].concat();
        let mut exec = exec_as(&self.place.user, argv);
        exec.cwd = Some(self.place.workspace.as_str().into());
        exec.env = self.environment(Intent::Change, &[]);
        exec.timeout_ms = Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let outcome = run_with(&self.hands, exec, CONFIGURATION, complaint).await?;
        if outcome.timed_out {
            return Err(GitError::TimedOut);
        }
        Ok(outcome)
    }

    /// The names of all that the repository configures. Reading them runs nothing.
    async fn configured(&self, repo: &Repo) -> Result<Vec<String>, GitError> {
        let arguments = ["config", "--list", "-z"];
        let env = self.environment(Intent::Look, &[]);
        let outcome = self
            .run(repo, env, &arguments, CONFIGURATION, super::READ)
            .await?;
        if outcome.cut {
            return Err(GitError::Failed("its configuration is too long".to_owned()));
        }
        if outcome.code == 128 && text(&outcome.stderr).contains("not a git repository") {
            return Err(GitError::NotARepo(repo.id.clone()));
        }
        if outcome.code != 0 {
            return Err(GitError::Failed(complaint(&outcome)));
        }
        let entries = outcome.stdout.split(|byte| *byte == 0);
        Ok(entries
            .map(text)
            .filter(|entry| !is_lfs(entry))
            .filter_map(|entry| Some(entry.split('\n').next()?.to_owned()))
            .filter(|name| !name.is_empty())
            .collect())
    }

    fn environment(&self, intent: Intent, overrides: &[(String, String)]) -> Vec<(Raw, Raw)> {
        let mut env: Vec<(Raw, Raw)> = ENVIRONMENT
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        env.push(("HOME".into(), self.place.home.as_str().into()));
        let above = self
            .place
            .workspace
            .parent()
            .unwrap_or(&self.place.workspace);
        env.push(("GIT_CEILING_DIRECTORIES".into(), above.as_str().into()));
        if intent == Intent::Look {
            // Looking must not take the lock from under the agent's hands.
            env.push(("GIT_OPTIONAL_LOCKS".into(), "0".into()));
        }
        let always = ALWAYS
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        // The one file of the user's that counts: it is ours, and hides our own folders.
        let ignored = self.place.state.join(IGNORE_FILE).into_string();
        let settings: Vec<(String, String)> = always
            .chain([("core.excludesFile".to_owned(), ignored)])
            .chain(overrides.iter().cloned())
            .chain(self.settings.borrow().iter().cloned())
            .collect();
        env.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()));
        for (number, (name, value)) in settings.into_iter().enumerate() {
            env.push((format!("GIT_CONFIG_KEY_{number}").into(), name.into()));
            env.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.into()));
        }
        env
    }
}

fn is_lfs(entry: &str) -> bool {
    LFS.iter()
        .any(|(name, value)| entry.split_once('\n') == Some((*name, *value)))
}

/// What has to be said against each thing a repository configures that could run a program.
fn overrides(names: &[String]) -> Vec<(String, String)> {
    let mut said = Vec::new();
    for name in names {
        let mut parts = name.splitn(2, '.');
        let (Some(section), Some(rest)) = (parts.next(), parts.next()) else {
            continue;
        };
        let Some((middle, last)) = rest.rsplit_once('.') else {
            continue;
        };
        let value = match (section, last) {
            ("filter", "clean" | "smudge" | "process")
            | ("credential", "helper")
            | ("diff", "command" | "textconv") => "",
            ("filter", "required") | ("merge", "driver") => "false",
            ("hook", _) => {
                said.push((format!("hook.{middle}.enabled"), "false".to_owned()));
                continue;
            }
            _ => continue,
        };
        said.push((name.clone(), value.to_owned()));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_run_a_program_is_overridden_and_the_rest_is_left() {
        let names = [
            "core.bare",
            "filter.evil.clean",
            "filter.a.b.c.process",
            "filter.evil.required",
            "credential.https://a.example/x=y.helper",
            "remote.origin.uploadpack",
            "remote.origin.url",
            "hook.x.command",
            "alias.st",
            "nonsense",
        ];
        let said: Vec<String> = overrides(&names.map(str::to_owned))
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            said,
            [
                "filter.evil.clean=",
                "filter.a.b.c.process=",
                "filter.evil.required=false",
                "credential.https://a.example/x=y.helper=",
                "hook.x.enabled=false",
            ]
        );
    }

    #[test]
    fn large_file_storage_as_it_is_installed_is_let_be() {
        assert!(is_lfs("filter.lfs.clean\ngit-lfs clean -- %f"));
        assert!(!is_lfs(
            "filter.lfs.clean\ngit-lfs clean -- %f; touch /tmp/x"
        ));
    }
}
