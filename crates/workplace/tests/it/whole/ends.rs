//! What ends by itself, and what is ended.

use std::time::Duration;

use fs_err as fs;
use rustix::process::{Pid, Signal, getpid, kill_process};
use wire::link::{FromRunner, HealthKind};

use super::world::{inside, with_whole};

/// Where the user finds programs, with nothing in it but this.
fn install(name: &str, script: &str) {
    let bin = "/usr/local/bin";
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", bin, "tmpfs", flags, c"mode=755").unwrap();
    let path = format!("{bin}/{name}");
    fs::write(&path, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&path, mode).unwrap();
}

#[test]
fn an_editor_with_stale_locks_comes_up_and_one_that_is_killed_is_back_and_told() {
    with_whole(async |mut whole, _| {
        install(
            "code-server",
            "#!/bin/sh\ncd ~/.local/share/code-server\n[ -e code.lock ] && exit 1\n\
             echo $$ >> started\nexec sleep 1000\n",
        );
        let own = "/home/user/.local/share/code-server";
        fs::create_dir_all(own).unwrap();
        fs::write(format!("{own}/code.lock"), "4711").unwrap();
        for path in ["/home/user/.local", "/home/user/.local/share", own] {
            std::os::unix::fs::chown(path, Some(1000), Some(1000)).unwrap();
        }
        let started = || -> Vec<i32> {
            let text = fs::read_to_string(format!("{own}/started")).unwrap_or_default();
            text.lines().filter_map(|line| line.parse().ok()).collect()
        };
        let boot = whole.boot();
        whole.start(boot);
        crate::world::eventually("the editor", || started().len() == 1).await;
        let pid = Pid::from_raw(started()[0]).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        let told = whole
            .heard("the crash", |frame| {
                matches!(frame, FromRunner::RunnerHealth(health)
                    if health.kind == HealthKind::ProgramCrash && health.message.contains("editor"))
            })
            .await;
        assert!(
            matches!(told, FromRunner::RunnerHealth(health) if health.message.contains("again"))
        );
        crate::world::eventually("another editor", || started().len() == 2).await;
    });
}

#[test]
fn a_workplace_that_is_told_to_end_says_goodbye_and_answers_who_waits() {
    with_whole(async |mut whole, _| {
        whole.hub.answer_with(Box::new(|_| None));
        let boot = whole.boot();
        whole.start(boot);
        whole
            .heard("a boot", |frame| matches!(frame, FromRunner::Phase(_)))
            .await;
        let ends = async {
            whole
                .heard("the request", |frame| {
                    matches!(frame, FromRunner::Request(_))
                })
                .await;
            kill_process(getpid(), Signal::TERM).unwrap();
        };
        let asks = inside("POST", "/api/snapshot", "{}");
        let (answer, ()) = tokio::join!(asks, ends);
        assert!(answer.contains("shutting down"), "{answer}");
        let goodbye = tokio::time::timeout(
            Duration::from_secs(10),
            whole.heard("goodbye", |frame| matches!(frame, FromRunner::Close(_))),
        );
        let FromRunner::Close(close) = goodbye.await.unwrap() else {
            unreachable!("it was waited for");
        };
        assert_eq!(close.reason, "runner shutting down");
    });
}
