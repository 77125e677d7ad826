use std::rc::Rc;

use fs_err as fs;
use jiff::Timestamp;
use wire::link::Change;
use workplace::git::{Checkout, Cloned, Code, Commit, DIFF_LIMIT, Git, GitError, Source, Staging};
use workplace::turns::Repositories;

use crate::world::{World, in_world};

fn git(world: &World) -> Git {
    let settings = [("user.name", "Pearl"), ("user.email", "pearl@example.org")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Git::new(
        Rc::clone(&world.hands),
        world.place.clone(),
        settings.into(),
    )
}

const IDENTITY: &str = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a \
                        GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_GLOBAL=/dev/null; set -e; ";

async fn make_repo(world: &World, name: &str) {
    world
        .must(&format!(
            "{IDENTITY} git init -q -b main {name}; cd {name}; echo one >a; echo x >.gitignore; \
             git add .; git commit -qm first"
        ))
        .await;
}

fn commit(message: &str, staging: Staging) -> Commit {
    Commit {
        message: message.to_owned(),
        staging,
    }
}

#[test]
fn repositories_are_found_and_their_state_is_told() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        make_repo(&world, "app").await;
        make_repo(&world, "deep/er/lib").await;
        make_repo(&world, "a/b/c/too-deep").await;
        let ids: Vec<_> = git
            .repos()
            .await
            .unwrap()
            .into_iter()
            .map(|r| r.id)
            .collect();
        assert_eq!(ids, ["app", "deep/er/lib"]);
        world
            .must("cd app; echo two >>a; echo new >'b c'; echo s >s; git add s")
            .await;
        let state = git.status("app").await.unwrap();
        assert_eq!(state.branch.as_deref(), Some("main"));
        assert_eq!(state.staged_changes[0].path, "s");
        assert_eq!(state.unstaged_changes[0].path, "a");
        assert_eq!(state.untracked_files, ["b c"]);
        assert_eq!(state.commits[0].message, "first");
        assert_eq!((state.ahead, state.is_busy), (None, false));
        let diff = git.diff("app", None).await.unwrap();
        assert!(diff.diff.contains("+two") && diff.diff.contains("+s") && !diff.truncated);
        let diff = git.diff("app", Some("a")).await.unwrap();
        assert!(diff.diff.contains("+two") && !diff.diff.contains("+s"));
        world.must("touch app/.git/index.lock").await;
        assert!(git.status("app").await.unwrap().is_busy);
        assert_eq!(git.status("nothing").await.unwrap().branch, None);
    });
}

#[test]
fn an_empty_workspace_becomes_a_repository_and_one_with_repositories_does_not() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        git.init_workspace().await.unwrap();
        git.init_workspace().await.unwrap();
        world.must("echo new >new").await;
        assert_eq!(git.status(".").await.unwrap().untracked_files, ["new"]);
        world.must("rm -rf .git; git init -q app").await;
        git.init_workspace().await.unwrap();
        world.must("[ ! -e .git ]").await;
    });
}

#[test]
fn a_diff_since_a_commit_has_what_was_committed_and_what_was_not() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        make_repo(&world, "app").await;
        let base = git.status("app").await.unwrap().commits[0].sha.clone();
        world
            .must("cd app; echo two >>a; git commit -qam second; echo three >>a")
            .await;
        let diff = git.diff_since("app", &base, None).await.unwrap().diff;
        assert!(diff.contains("+two") && diff.contains("+three"), "{diff}");
        for bad in ["HEAD", "--output=x", "", &base[1..], &"0".repeat(40)] {
            assert!(git.diff_since("app", bad, None).await.is_err(), "{bad}");
        }
    });
}

#[test]
fn a_long_diff_is_cut_and_marked() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        make_repo(&world, "app").await;
        world.must("seq 1 2000000 >app/a").await;
        let diff = git.diff("app", None).await.unwrap();
        assert!(diff.truncated && diff.diff.ends_with("are shown]\n"));
        assert!(diff.diff.len() < DIFF_LIMIT + 200);
    });
}

#[test]
fn branch_commit_and_push_say_what_came_of_them() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        make_repo(&world, "app").await;
        world.must("git init -q --bare ../remote.git").await;
        assert_eq!(git.push("app").await.unwrap().code, Code::NoRemote);
        world
            .must("cd app; git remote add origin $PWD/../../remote.git")
            .await;
        assert_eq!(
            git.create_branch("app", "topic").await.unwrap().code,
            Code::Success
        );
        assert_eq!(
            git.create_branch("app", "main").await.unwrap().code,
            Code::BranchExists
        );
        for bad in ["-x", "a b", "a..b", "", "--orphan=x"] {
            let result = git.create_branch("app", bad).await.unwrap();
            assert_eq!(result.code, Code::UnknownError, "{bad:?}");
        }
        let nothing = git
            .commit("app", &commit("m", Staging::Tracked))
            .await
            .unwrap();
        assert_eq!(nothing.code, Code::NothingToCommit);
        world
            .must("cd app; echo two >>a; echo new >new; echo other >other")
            .await;
        let result = git
            .commit("app", &commit("tracked", Staging::Tracked))
            .await
            .unwrap();
        assert_eq!(result.code, Code::Success, "{}", result.message);
        let files = Staging::Files(vec!["new".to_owned()]);
        assert!(
            git.commit("app", &commit("one", files))
                .await
                .unwrap()
                .success
        );
        assert_eq!(world.must("cd app; git status --short").await, "?? other");
        assert!(
            git.commit("app", &commit("all", Staging::All))
                .await
                .unwrap()
                .success
        );
        assert_eq!(world.must("cd app; git log -1 --format=%an").await, "Pearl");
        let pushed = git.push("app").await.unwrap();
        assert_eq!(pushed.code, Code::Success, "{}", pushed.message);
        assert_eq!(
            world
                .must("git -C ../remote.git log -1 --format=%s topic")
                .await,
            "all"
        );
        assert_eq!(git.status("app").await.unwrap().ahead, Some(0));
        world
            .must("touch app/.git/index.lock; echo 3 >>app/a")
            .await;
        let busy = git
            .commit("app", &commit("m", Staging::Tracked))
            .await
            .unwrap();
        assert_eq!(busy.code, Code::RepoBusy, "{}", busy.message);
        assert_eq!(git.push("nothing").await.unwrap().code, Code::NotARepo);
        world.must("cd app; git remote rename origin one; git remote add two /x; git config --unset branch.topic.remote").await;
        assert_eq!(git.push("app").await.unwrap().code, Code::MultipleRemotes);
    });
}

#[test]
fn a_conflict_is_not_committed() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        make_repo(&world, "app").await;
        world
            .must(&format!(
                "{IDENTITY} cd app; git switch -qc b; echo b >a; git commit -qam b; \
                 git switch -q main; echo m >a; git commit -qam m; git merge b || true"
            ))
            .await;
        let state = git.status("app").await.unwrap();
        assert_eq!(state.conflicted_files, ["a"]);
        assert!(state.merge_in_progress);
        let result = git.commit("app", &commit("m", Staging::All)).await.unwrap();
        assert_eq!(result.code, Code::MergeConflict);
    });
}

#[test]
fn a_hostile_repository_runs_nothing() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        make_repo(&world, "app").await;
        let evil = world.outside().join("home/evil");
        let script = format!("#!/bin/sh\necho \"$0 $*\" >>{evil}.ran\n");
        world
            .must(&format!("printf '%s' '{script}' >{evil}; chmod 755 {evil}"))
            .await;
        world
            .must(&format!(
                "cd app
                for hook in pre-commit commit-msg post-commit pre-push post-checkout post-merge \
                    prepare-commit-msg reference-transaction post-index-change pre-auto-gc fsmonitor-watchman; do
                    cp {evil} .git/hooks/$hook; done
                git config core.hooksPath .git/hooks
                git config core.fsmonitor {evil}
                git config core.sshCommand {evil}
                git config core.pager {evil}
                git config pager.status true
                git config pager.log {evil}
                git config core.editor {evil}
                git config core.askPass {evil}
                git config core.gitProxy {evil}
                git config core.alternateRefsCommand {evil}
                git config diff.external {evil}
                git config diff.evil.textconv {evil}
                git config diff.evil.command {evil}
                git config filter.evil.clean {evil}
                git config filter.evil.smudge {evil}
                git config filter.evil.process {evil}
                git config filter.evil.required true
                git config merge.evil.driver {evil}
                git config credential.helper {evil}
                git config credential.https://a.example.helper {evil}
                git config gpg.program {evil}
                git config commit.gpgSign true
                git config log.showSignature true
                git config remote.origin.url $PWD/../../remote.git
                git config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'
                git config remote.origin.uploadpack {evil}
                git config remote.origin.receivepack {evil}
                git config protocol.ext.allow always
                git config remote.ext.url 'ext::{evil} %S'
                git config alias.status '!{evil}'
                git config hook.x.event pre-commit
                git config hook.x.command {evil}
                git config trace2.eventTarget {evil}.ran
                printf '* filter=evil diff=evil merge=evil\\n' >.gitattributes
                echo two >>a; echo new >new
                git init -q --bare ../../remote.git"
            ))
            .await;
        let home = &world.place.home;
        world
            .must(&format!("cp app/.git/config {home}/.gitconfig"))
            .await;
        assert!(git.repos().await.unwrap().len() == 1);
        let state = git.status("app").await.unwrap();
        assert_eq!(state.unstaged_changes[0].path, "a");
        assert!(git.diff("app", None).await.unwrap().diff.contains("+two"));
        assert_eq!(
            git.create_branch("app", "topic").await.unwrap().code,
            Code::Success
        );
        let result = git.commit("app", &commit("m", Staging::All)).await.unwrap();
        assert_eq!(result.code, Code::Success, "{}", result.message);
        let result = git.push("app").await.unwrap();
        assert_eq!(result.code, Code::Success, "{}", result.message);
        let pulled = git.refresh(Timestamp::UNIX_EPOCH).await.unwrap();
        assert_eq!(pulled[0].failure, None);
        world.must("cd app; export GIT_CONFIG_GLOBAL=/dev/null; git config branch.topic.remote ext; git config branch.topic.merge refs/heads/x").await;
        assert!(!git.push("app").await.unwrap().success, "no such protocol");
        let ran = fs::read_to_string(format!("{evil}.ran")).unwrap_or_default();
        assert_eq!(ran, "", "something of the repository's was run");
    });
}

#[test]
fn no_name_of_a_repository_leads_out_of_the_workspace() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        make_repo(&world, "app").await;
        world
            .must(
                "git init -q ../other; ln -s ../other link; ln -s app/.. up; \
                 mkdir by-link; ln -s ../../other/.git by-link/.git; \
                 mkdir by-file; echo 'gitdir: ../../other/.git' >by-file/.git; \
                 mkdir abs; echo \"gitdir: $PWD/../other/.git\" >abs/.git; \
                 git -C app worktree add -q ../tree 2>/dev/null",
            )
            .await;
        let outside = world.outside().join("home/other");
        for bad in [
            "../other",
            "..",
            "/etc",
            outside.as_str(),
            "app/../../other",
            "a\0b",
        ] {
            let error = git.status(bad).await.unwrap_err();
            assert!(matches!(error, GitError::Outside(_)), "{bad:?}: {error}");
        }
        for bad in ["link", "up/app", "by-link", "by-file", "abs"] {
            assert!(git.diff(bad, None).await.is_err(), "{bad}");
        }
        assert_eq!(
            git.status("tree").await.unwrap().branch.as_deref(),
            Some("tree")
        );
        world
            .must("cd app; git config core.worktree /; echo two >>a")
            .await;
        let state = git.status("app").await.unwrap();
        assert_eq!(
            state.unstaged_changes.len(),
            1,
            "its own files, whatever it says"
        );
        for bad in ["../../etc/passwd", "/etc/passwd"] {
            assert!(git.diff("app", Some(bad)).await.is_err(), "{bad}");
        }
        let magic = git.diff("app", Some(":(top)a")).await.unwrap();
        assert_eq!(magic.diff, "", "a path is a path");
    });
}

#[test]
fn names_that_are_no_text_are_shown_as_well_as_can_be() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        make_repo(&world, "app").await;
        world
            .must("cd app; echo x >\"$(printf 'b\\377d')\"; printf 'a\\377\\n' >>a")
            .await;
        assert_eq!(
            git.status("app").await.unwrap().untracked_files,
            ["b\u{fffd}d"]
        );
        assert!(
            git.diff("app", None)
                .await
                .unwrap()
                .diff
                .contains("+a\u{fffd}")
        );
    });
}

#[test]
fn a_pull_moves_forward_only_and_the_stamp_only_when_all_went_well() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        make_repo(&world, "origin").await;
        world
            .must(
                "git clone -q origin one; git clone -q origin two; mv origin ../origin; \
            for r in one two; do git -C $r remote set-url origin $PWD/../origin; done",
            )
            .await;
        world
            .must(&format!(
                "{IDENTITY} cd ../origin; echo new >new; git add .; git commit -qm second"
            ))
            .await;
        world.must("echo mine >>one/a").await;
        let at = |second| Timestamp::from_second(second).unwrap();
        let pulled = git.refresh(at(1000)).await.unwrap();
        assert!(
            pulled.iter().all(|pulled| pulled.failure.is_none()),
            "{pulled:?}"
        );
        assert_eq!(
            world.must("cat one/new two/new; tail -1 one/a").await,
            "new\nnew\nmine"
        );
        assert_eq!(git.last_fetch_at(), Some(at(1000)));

        world
            .must(&format!(
                "{IDENTITY} cd two; echo local >local; git add .; git commit -qm local"
            ))
            .await;
        world
            .must(&format!(
                "{IDENTITY} cd ../origin; echo 3 >new; git commit -qam third"
            ))
            .await;
        let pulled = git.refresh(at(2000)).await.unwrap();
        assert_eq!(
            (pulled[0].repo.as_str(), &pulled[0].failure),
            ("one", &None)
        );
        assert!(pulled[1].failure.is_some(), "it has work of its own");
        assert_eq!(world.must("cat two/local; cat two/new").await, "local\nnew");
        assert_eq!(
            git.last_fetch_at(),
            Some(at(1000)),
            "not every pull succeeded"
        );
    });
}

#[test]
fn a_clone_has_its_branch_or_its_reference_and_an_existing_folder_is_kept() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        make_repo(&world, "../origin").await;
        world.must(&format!("{IDENTITY} cd ../origin; git tag v1; git switch -qc dev; echo d >d; \
            git add .; git commit -qm dev; git switch -q main; git bundle create -q ../b.bundle --all")).await;
        let url = world.outside().join("home/origin");
        let wanted = |folder: &str, branch: Option<&str>, reference: Option<&str>| Checkout {
            folder: folder.to_owned(),
            from: Source::Url(url.to_string()),
            branch: branch.map(str::to_owned),
            reference: reference.map(str::to_owned),
        };
        let mut lines = Vec::new();
        let cloned = git
            .clone_into(&wanted("app", Some("dev"), None), |line| {
                lines.push(line.to_owned());
            })
            .await;
        assert_eq!(cloned.unwrap(), Cloned::New);
        assert!(
            lines.iter().any(|line| line.contains("Cloning into")),
            "{lines:?}"
        );
        assert_eq!(world.must("git -C app branch --show-current").await, "dev");
        git.clone_into(&wanted("at", None, Some("v1")), |_| ())
            .await
            .unwrap();
        assert_eq!(
            world
                .must("git -C at describe --tags; git -C at branch --show-current")
                .await,
            "v1"
        );
        assert_eq!(
            git.clone_into(&wanted("app", None, None), |_| ())
                .await
                .unwrap(),
            Cloned::Kept
        );
        let bundle = Checkout {
            from: Source::Bundle(world.outside().join("home/b.bundle")),
            ..wanted("bundled", Some("dev"), None)
        };
        git.clone_into(&bundle, |_| ()).await.unwrap();
        assert_eq!(world.must("cat bundled/d").await, "d");
        for folder in ["../x", "/tmp/x", ".", "-u"] {
            assert!(
                git.clone_into(&wanted(folder, None, None), |_| ())
                    .await
                    .is_err(),
                "{folder}"
            );
        }
        for address in ["--upload-pack=x", "ext::sh -c true", ""] {
            let mut bad = wanted("bad", None, None);
            bad.from = Source::Url(address.to_owned());
            assert!(git.clone_into(&bad, |_| ()).await.is_err(), "{address}");
        }
    });
}

#[test]
fn a_clone_that_was_interrupted_or_has_no_such_reference_is_not_taken_for_one() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        make_repo(&world, "origin").await;
        world.must("mv origin ../origin").await;
        let wanted = |reference: Option<&str>| Checkout {
            folder: "deep/app".to_owned(),
            from: Source::Url(world.place.home.join("origin").into_string()),
            branch: None,
            reference: reference.map(str::to_owned),
        };
        // As one leaves it whose sandbox was stopped in the middle.
        world.must("mkdir -p .nacre-clone/.git/objects").await;
        let error = git.clone_into(&wanted(Some("v9")), |_| ()).await;
        assert!(error.unwrap_err().to_string().contains("v9"));
        world
            .must("[ ! -e deep/app ] && [ ! -e .nacre-clone ]")
            .await;
        let cloned = git.clone_into(&wanted(None), |_| ()).await;
        assert_eq!(cloned.unwrap(), Cloned::New);
        assert_eq!(world.must("cat deep/app/a").await, "one");
        let status = git.status("deep/app").await.unwrap();
        assert_eq!(status.branch.as_deref(), Some("main"));
    });
}

#[test]
fn several_repositories_are_compared_and_taken_back_each() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        make_repo(&world, "app").await;
        make_repo(&world, "lib").await;
        world
            .must("echo mine >app/staged; cd app; git add staged")
            .await;
        let repositories = Repositories::new(git.clone());
        assert_eq!(repositories.changes().await.unwrap(), None);
        repositories.set(["app", "lib"].map(str::to_owned).to_vec());
        let before = repositories.trees().await;
        assert_eq!(before.len(), 2);
        world
            .must("echo two >>app/a; rm lib/a; mkdir lib/new; echo 'diff --git x' >lib/new/b; rm app/staged")
            .await;
        let changes = repositories.changes().await.unwrap().unwrap();
        let found: Vec<_> = changes
            .iter()
            .map(|file| (file.path.as_str(), file.status))
            .collect();
        assert_eq!(
            found,
            [
                ("app/a", Change::Modified),
                ("lib/a", Change::Deleted),
                ("lib/new/b", Change::Added),
            ]
        );
        let patch = changes[0].patch.as_deref().unwrap();
        assert!(
            patch.contains("+++ b/app/a") && patch.contains("+two"),
            "{patch}"
        );
        let patch = changes[2].patch.as_deref().unwrap();
        assert!(patch.contains("+diff --git x"), "{patch}");
        repositories.take_back(before).await.unwrap();
        world
            .must("[ $(cat app/a) = one ] && [ $(cat lib/a) = one ] && [ ! -e lib/new ] && [ -e app/staged ]")
            .await;
        // Nobody's staging was touched.
        let state = git.status("app").await.unwrap();
        assert_eq!(state.staged_changes[0].path, "staged");
        repositories.bring_back().await.unwrap();
        world.must("[ ! -e lib/a ] && [ -e lib/new/b ]").await;
    });
}

#[test]
fn our_own_folders_are_neither_shown_nor_committed() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        make_repo(&world, "app").await;
        world
            .must("mkdir -p ../.nacre; printf '.nacre/\\n.opencode/\\n' >../.nacre/gitignore")
            .await;
        world
            .must("cd app; mkdir .nacre .opencode; touch .nacre/x .opencode/y; echo two >>a")
            .await;
        assert!(git.status("app").await.unwrap().untracked_files.is_empty());
        let all = commit("all", Staging::All);
        assert!(git.commit("app", &all).await.unwrap().success);
        let files = world
            .must("cd app; git show --name-only --format= HEAD")
            .await;
        assert_eq!(files, "a");
    });
}

#[test]
fn a_link_in_a_diff_shows_where_it_leads_and_nothing_of_what_is_there() {
    in_world(|world: Rc<World>| async move {
        let git = git(&world);
        make_repo(&world, "app").await;
        world
            .must(
                "echo canary >../outside; cd app; ln -s ../../outside l; ln -s ../.. up; git add .",
            )
            .await;
        for path in ["l", "up", "up/outside", "l/x"] {
            match git.diff("app", Some(path)).await {
                Ok(diff) => assert!(!diff.diff.contains("canary"), "{path}: {}", diff.diff),
                Err(error) => assert!(!error.to_string().contains("canary"), "{path}: {error}"),
            }
        }
        assert!(git.diff("app", Some("../../outside")).await.is_err());
        let linked = git.diff("app", Some("l")).await.unwrap();
        assert!(linked.diff.contains("+../../outside"), "{}", linked.diff);
    });
}
