//! A workplace under test: PID 1, a workspace of somebody who is not root, and a clock.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use camino_tempfile::Utf8TempDir;
use fs_err as fs;
use model::{Clock, SystemClock};
use testkit::PidOne;
use tokio::task::LocalSet;
use workplace::command::{Outcome, exec_as, run};
use workplace::hands::Hands;
use workplace::place::Place;
use workplace::services::{Definition, Name, Pace, Restart, Services, Status};

/// Nobody's number on any machine.
pub(crate) const UID: u32 = 4242;

pub(crate) struct World {
    pub(crate) hands: Rc<Hands>,
    pub(crate) place: Place,
    pub(crate) clock: Arc<dyn Clock>,
    _pid_one: PidOne,
    directory: Utf8TempDir,
}

impl World {
    pub(crate) fn new((pid_one, conversation): (PidOne, OwnedFd)) -> Self {
        let (hands, _) = Hands::take(conversation).unwrap();
        let directory = camino_tempfile::tempdir().unwrap();
        let top = directory.path();
        let place = Place {
            user: format!("{UID}:{UID}"),
            home: top.join("home"),
            workspace: top.join("home/workspace"),
            state: top.join("home/.nacre"),
            secrets: top.join("secrets"),
        };
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(top, open).unwrap();
        fs::create_dir(&place.secrets).unwrap();
        for path in [&place.home, &place.workspace] {
            fs::create_dir(path).unwrap();
            chown(path, Some(UID), Some(UID)).unwrap();
        }
        Self {
            hands: Rc::new(hands),
            place,
            clock: Arc::new(SystemClock),
            _pid_one: pid_one,
            directory,
        }
    }

    /// Outside the workspace, and not the user's.
    pub(crate) fn outside(&self) -> &Utf8Path {
        self.directory.path()
    }

    pub(crate) fn services(&self) -> Services {
        let pace = Pace {
            grace: Duration::from_millis(500),
            first_delay: Duration::from_millis(20),
            last_delay: Duration::from_millis(100),
            healthy: Duration::from_secs(30),
            budget: 3,
        };
        Services::new(
            Rc::clone(&self.hands),
            self.place.clone(),
            Arc::clone(&self.clock),
            Rc::new(()),
            pace,
        )
    }

    /// As the user, in the workspace.
    pub(crate) async fn sh(&self, script: &str) -> Outcome {
        let mut exec = exec_as(&self.place.user, ["sh", "-c", script]);
        exec.cwd = Some(self.place.workspace.as_str().into());
        exec.env = vec![("HOME".into(), self.place.home.as_str().into())];
        run(&self.hands, exec, 1 << 20).await.unwrap()
    }

    /// As [`World::sh`], and it must go well.
    pub(crate) async fn must(&self, script: &str) -> String {
        let outcome = self.sh(script).await;
        let text = String::from_utf8_lossy(&outcome.stdout).trim().to_owned();
        let complaint = String::from_utf8_lossy(&outcome.stderr);
        assert_eq!(outcome.code, 0, "{script}: {text} {complaint}");
        text
    }
}

pub(crate) fn in_world<F: Future>(work: impl FnOnce(Rc<World>) -> F) -> F::Output {
    in_world_with(PidOne::start(), work)
}

pub(crate) fn in_world_without_cgroup<F: Future>(work: impl FnOnce(Rc<World>) -> F) -> F::Output {
    in_world_with(PidOne::start_without_cgroup(), work)
}

fn in_world_with<F: Future>(
    pid_one: (PidOne, OwnedFd),
    work: impl FnOnce(Rc<World>) -> F,
) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let world = Rc::new(World::new(pid_one));
    LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(Duration::from_mins(1), work(world))
            .await
            .expect("a test takes less than a minute")
    })
}

pub(crate) fn service(name: &str, command: &str) -> Definition {
    Definition {
        name: Name::new(name).unwrap(),
        command: command.to_owned(),
        cwd: None,
        restart: Restart::default(),
    }
}

pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "never came: {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn status_becomes(services: &Services, name: &str, status: Status) {
    let name = Name::new(name).unwrap();
    let what = format!("{name} {status:?}");
    eventually(&what, || services.info(&name).unwrap().status == status).await;
}

pub(crate) fn is_alive(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    !stat
        .rsplit(')')
        .next()
        .is_some_and(|rest| rest.starts_with(" Z"))
}
