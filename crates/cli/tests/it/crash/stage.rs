//! A home with a bystander in it, whom nothing that happens to others may touch.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use camino::Utf8PathBuf;
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use serde_json::Value;

use super::process::{Process, comes_true, hierarchies, running_from, wait_within, within};
use crate::Ran;
use crate::world::{World, text};

/// Whatever takes longer hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What every victim has on its disk.
const KNOWN: &str = "mkdir -p /srv/known/sub && echo kept > /srv/known/a && \
    head -c 70000 /dev/zero | tr '\\0' x > /srv/known/sub/b && rm -rf /opt && \
    ln -s ../a /srv/known/sub/link";
/// Prints what [`KNOWN`] made, and fails if something of it is missing.
const LOOK: &str = "cat /srv/known/sub/link && tr -d x < /srv/known/sub/b | wc -c && \
    wc -c < /srv/known/sub/b && test ! -e /opt";
const SEEN: &str = "kept\n0\n70000";
const BEAT: &str = "i=0; while :; do i=$((i+1)); echo $i > /srv/beat.new; mv /srv/beat.new /srv/beat; sleep 0.01; done";

pub(super) struct Stage {
    pub(super) world: World,
    pub(super) bystander: String,
    /// The home's directory below each cgroup hierarchy.
    group: String,
}

impl Stage {
    pub(super) fn new() -> Self {
        // An abort that dumped core would leave a file behind.
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        let _ = setrlimit(Resource::Core, none);
        let world = World::new();
        let bystander = world.create(&["--name", "bystander"]);
        let mut stage = Self {
            world,
            bystander,
            group: String::new(),
        };
        let (_, runner) = stage.processes(&stage.bystander).unwrap();
        let cgroups = fs_err::read_to_string(format!("/proc/{}/cgroup", runner.pid)).unwrap();
        let group = cgroups
            .lines()
            .find_map(|line| line.strip_prefix("0::/")?.split('/').next());
        group.unwrap().clone_into(&mut stage.group);
        assert!(stage.group.starts_with("nacre-"), "{cgroups}");
        let bystander = stage.bystander.clone();
        stage.fill(&bystander);
        stage.start_beating(&bystander);
        stage
    }

    pub(super) fn home(&self, below: &str) -> Utf8PathBuf {
        self.world.nacre.path(below)
    }

    pub(super) fn spawn(&self, failpoint: Option<&str>, arguments: &[&str]) -> Child {
        let mut command = self
            .world
            .nacre
            .command(std::iter::once("--json").chain(arguments.iter().copied()));
        command.envs(failpoint.map(|point| ("NACRE_FAILPOINT", point)));
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs nacre to its end, which must come in time.
    pub(super) fn run(&self, failpoint: Option<&str>, arguments: &[&str]) -> Ran {
        let mut child = self.spawn(failpoint, arguments);
        let status = wait_within(&mut child, PATIENCE);
        let output = child.wait_with_output().unwrap();
        let signal = output.status.signal();
        let ran = Ran::from(output, self.world.nacre.home.path());
        assert!(
            status.is_some(),
            "{arguments:?} hangs: {}",
            ran.transcript()
        );
        assert!(
            signal.is_none_or(|signal| signal == 6),
            "{arguments:?} died of {signal:?}"
        );
        ran
    }

    pub(super) fn ok(&self, arguments: &[&str]) -> Value {
        let ran = self.run(None, arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.transcript());
        ran.json()
    }

    /// nacre gets to the fail point and dies there.
    pub(super) fn dies_at(&self, point: &str, arguments: &[&str]) {
        let ran = self.run(Some(point), arguments);
        assert_eq!(
            ran.code,
            None,
            "{arguments:?} did not pass {point}: {}",
            ran.transcript()
        );
    }

    /// Another nacre process comes: every sandbox there is, whatever its state.
    pub(super) fn restart(&self) -> Vec<Value> {
        self.ok(&["sandbox", "ls", "--all"])["sandboxes"]
            .as_array()
            .unwrap()
            .clone()
    }

    pub(super) fn says(&self, id: &str, script: &str) -> String {
        let mut command = self
            .world
            .nacre
            .command(["sandbox", "exec", id, "--", "sh", "-c", script]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let status = wait_within(&mut child, PATIENCE);
        let ran = Ran::from(
            child.wait_with_output().unwrap(),
            self.world.nacre.home.path(),
        );
        assert!(status.is_some(), "{script} in {id} hangs");
        assert_eq!(ran.code, Some(0), "{script}: {}", ran.transcript());
        ran.stdout.trim_end().to_owned()
    }

    /// A running sandbox with known files and a heart.
    pub(super) fn victim(&self, failpoint: Option<&str>) -> String {
        let ran = self.run(
            failpoint,
            &["sandbox", "create", "--from", "host", "--name", "victim"],
        );
        assert_eq!(ran.code, Some(0), "{}", ran.transcript());
        let id = text(&ran.json()["id"]);
        self.fill(&id);
        self.start_beating(&id);
        id
    }

    pub(super) fn fill(&self, id: &str) {
        self.says(id, KNOWN);
    }

    pub(super) fn start_beating(&self, id: &str) {
        self.ok(&["sandbox", "exec", id, "--detach", "--", "sh", "-c", BEAT]);
        within("the first heartbeat", PATIENCE, || self.pulse(id).is_some());
    }

    /// How often its heart has beaten, read from its disk: no nacre process is asked.
    pub(super) fn pulse(&self, id: &str) -> Option<u64> {
        let beat = self.home(&format!("sandboxes/{id}/disk/upper/srv/beat"));
        fs_err::read_to_string(beat).ok()?.trim().parse().ok()
    }

    /// The same heart, not one started anew.
    pub(super) fn beats_on(&self, id: &str, since: u64) {
        within("the heart beats on", PATIENCE, || {
            self.pulse(id).is_some_and(|now| now > since)
        });
        let now = self.pulse(id).unwrap();
        within("the heart beats on", PATIENCE, || {
            self.pulse(id).is_some_and(|later| later > now)
        });
    }

    pub(super) fn has_its_files(&self, id: &str) {
        assert_eq!(self.says(id, LOOK), SEEN, "the files of {id}");
    }

    /// A sandbox made from a snapshot has the files; it is removed again.
    pub(super) fn snapshot_has_the_files(&self, snapshot: &str) {
        let id = text(&self.ok(&["sandbox", "create", "--from", snapshot])["id"]);
        self.has_its_files(&id);
        self.ok(&["sandbox", "rm", &id]);
    }

    /// What a survivor must be good for: commands, an end, and a life after it.
    pub(super) fn is_usable_to_the_end(&self, id: &str) {
        self.has_its_files(id);
        let snapshot = text(&self.ok(&["sandbox", "stop", id])["snapshot"]);
        self.snapshot_has_the_files(&snapshot);
        self.ok(&["sandbox", "rm", id]);
    }

    /// `running`, `paused`, `ended`, `stopped`, or `None` when there is none.
    pub(super) fn status(&self, id: &str) -> Option<String> {
        self.restart()
            .iter()
            .find(|sandbox| sandbox["id"] == id)
            .map(|sandbox| text(&sandbox["state"]["status"]))
    }

    pub(super) fn kept(&self, id: &str) -> String {
        text(&self.ok(&["sandbox", "show", id])["state"]["kept"])
    }

    pub(super) fn snapshots(&self) -> Vec<Value> {
        self.ok(&["snapshot", "ls"])["snapshots"]
            .as_array()
            .unwrap()
            .clone()
    }

    /// Its keeper and its PID 1, living or not.
    pub(super) fn processes(&self, id: &str) -> Option<(Option<Process>, Process)> {
        let path = self.home(&format!("sandboxes/{id}/keeper.json"));
        let running: Value = serde_json::from_str(&fs_err::read_to_string(path).ok()?).ok()?;
        let pid = |key: &str| i32::try_from(running[key].as_i64()?).ok();
        Some((Process::find(pid("keeper")?), Process::find(pid("pid")?)?))
    }

    pub(super) fn keeper(&self, id: &str) -> Process {
        self.processes(id)
            .and_then(|(keeper, _)| keeper)
            .expect("it has a keeper")
    }

    pub(super) fn runner(&self, id: &str) -> Process {
        self.processes(id).expect("it has a PID 1").1
    }

    /// Its directory on the unified hierarchy.
    pub(super) fn cgroup(&self, id: &str) -> String {
        format!("{}/{}/{id}", hierarchies()[0], self.group)
    }

    pub(super) fn is_frozen(&self, id: &str) -> bool {
        fs_err::read_to_string(format!("{}/cgroup.events", self.cgroup(id)))
            .is_ok_and(|events| events.contains("frozen 1"))
    }

    /// What runs in it, as the host sees it: each with its arguments.
    pub(super) fn commands(&self, id: &str) -> Vec<String> {
        let top = self.cgroup(id);
        let below = fs_err::read_dir(&top).into_iter().flatten().flatten();
        let groups = below
            .map(|entry| entry.path().display().to_string())
            .chain([top]);
        let pids =
            groups.filter_map(|group| fs_err::read_to_string(format!("{group}/cgroup.procs")).ok());
        pids.collect::<String>()
            .lines()
            .filter_map(|pid| fs_err::read_to_string(format!("/proc/{pid}/cmdline")).ok())
            .map(|command| command.replace('\0', " "))
            .collect()
    }

    /// The names below the home's directory of each hierarchy.
    pub(super) fn cgroups(&self) -> Vec<String> {
        let mut found = Vec::new();
        for hierarchy in hierarchies() {
            let Ok(entries) = fs_err::read_dir(format!("{hierarchy}/{}", self.group)) else {
                continue;
            };
            let directories = entries
                .flatten()
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            found.extend(directories.map(|entry| {
                format!("{hierarchy}/{}/{}", self.group, entry.file_name().display())
            }));
        }
        found
    }

    /// Kills without asking nacre: for a host that goes down, and for the end of a failed test.
    /// Whether nothing is left.
    pub(super) fn kill_everything(&self) -> bool {
        let programs = self.home("bin").into_string();
        comes_true(PATIENCE, || {
            for keeper in running_from(&programs) {
                keeper.signal(Signal::KILL);
            }
            for cgroup in self.cgroups() {
                let _ = fs_err::write(format!("{cgroup}/cgroup.kill"), "1");
                let _ = fs_err::write(format!("{cgroup}/cgroup.freeze"), "0");
                for child in fs_err::read_dir(&cgroup).into_iter().flatten().flatten() {
                    let _ = std::fs::remove_dir(child.path());
                }
                let _ = std::fs::remove_dir(cgroup);
            }
            for hierarchy in hierarchies() {
                let _ = std::fs::remove_dir(format!("{hierarchy}/{}", self.group));
            }
            self.cgroups().is_empty() && running_from(&programs).is_empty()
        })
    }

    /// Removes every sandbox, after which nothing of them is left.
    fn empty(&self) {
        let all = self.restart();
        let ids: Vec<&str> = all
            .iter()
            .filter_map(|sandbox| sandbox["id"].as_str())
            .collect();
        self.ok(&[&["sandbox", "rm"], ids.as_slice()].concat());
        within("no cgroup and no keeper is left", PATIENCE, || {
            self.cgroups().is_empty() && running_from(self.home("bin").as_str()).is_empty()
        });
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // In a failed test the engine may be what failed; nothing of it is needed to clean up.
        let failed = std::thread::panicking();
        let emptied = if failed {
            Ok(())
        } else {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.empty()))
        };
        self.kill_everything();
        if let Err(panic) = emptied {
            std::panic::resume_unwind(panic);
        }
    }
}
