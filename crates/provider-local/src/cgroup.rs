//! Limits, on cgroup v2 and on the layout with v1 beside it.
//!
//! A sandbox always has a directory on the v2 hierarchy, for freeze and kill; limits go there when
//! it has the controllers, else to the v1 hierarchies. Never the v1 freezer: it gets stuck.

use std::io;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use provider::{ProviderError, SandboxId};
use wire::keeper::{Cgroups, Quota};

use crate::error::Doing as _;
use crate::home::Home;

/// The kernel's scheduling period for quotas.
const PERIOD_US: u64 = 100_000;

#[derive(Debug, Clone)]
pub struct Layout {
    /// Where the v2 hierarchy is mounted.
    pub unified: Utf8PathBuf,
    pub memory: Controller,
    pub pids: Controller,
    pub cpu: Controller,
}

/// Where a controller is to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Controller {
    Unified,
    Legacy(Utf8PathBuf),
    Absent,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    pub(crate) memory: Option<u64>,
    pub(crate) pids: Option<u64>,
    pub(crate) cpu_millis: Option<u64>,
}

impl Layout {
    pub fn detect() -> Result<Self, ProviderError> {
        let mounts = fs_err::read_to_string("/proc/self/mountinfo").doing("reading the mounts")?;
        Self::from_mountinfo(&mounts, |unified| {
            fs_err::read_to_string(unified.join("cgroup.controllers")).unwrap_or_default()
        })
        .ok_or_else(|| {
            ProviderError::refused(
                "no cgroup v2 hierarchy is mounted: `nacre doctor --fix` mounts one",
            )
        })
    }

    fn from_mountinfo(mounts: &str, controllers: impl Fn(&Utf8Path) -> String) -> Option<Self> {
        let mut unified: Option<Utf8PathBuf> = None;
        let mut legacy: Vec<(Utf8PathBuf, Vec<&str>)> = Vec::new();
        for line in mounts.lines() {
            let Some((left, right)) = line.split_once(" - ") else {
                continue;
            };
            let Some(place) = left.split(' ').nth(4) else {
                continue;
            };
            let mut right = right.split(' ');
            match (right.next(), right.nth(1)) {
                (Some("cgroup2"), _) if unified.is_none() => unified = Some(place.into()),
                (Some("cgroup"), Some(options)) => {
                    legacy.push((place.into(), options.split(',').collect()));
                }
                _ => {}
            }
        }
        let unified = unified?;
        let available = controllers(&unified);
        let find = |name: &str| {
            if available.split_whitespace().any(|c| c == name) {
                return Controller::Unified;
            }
            legacy
                .iter()
                .find(|(_, options)| options.contains(&name))
                .map_or(Controller::Absent, |(place, _)| {
                    Controller::Legacy(place.clone())
                })
        };
        Some(Self {
            memory: find("memory"),
            pids: find("pids"),
            cpu: find("cpu"),
            unified,
        })
    }

    pub(crate) fn can_limit_pids(&self) -> bool {
        self.pids != Controller::Absent
    }

    /// One directory for each home, so that two homes on one machine do not meet.
    pub(crate) fn group(home: &Home) -> String {
        format!(
            "nacre-{}",
            &blake3::hash(home.root().as_str().as_bytes()).to_hex()[..8]
        )
    }

    /// The directories that a sandbox with these limits has, made or not.
    pub(crate) fn of(&self, home: &Home, id: SandboxId, limits: Limits) -> Cgroups {
        let below = format!("{}/{id}", Self::group(home));
        let unified = self.unified.join(&below);
        let mut legacy = Vec::new();
        // Always one for the processor: the scheduler then weighs the sandbox as one, and a
        // hundred busy processes in it keep nobody else waiting a hundred turns.
        let wanted = [
            (&self.memory, limits.memory.is_some()),
            (&self.pids, limits.pids.is_some()),
            (&self.cpu, true),
        ];
        for (controller, wanted) in wanted {
            if let (Controller::Legacy(place), true) = (controller, wanted) {
                let directory = place.join(&below).into_string();
                if !legacy.contains(&directory) {
                    legacy.push(directory);
                }
            }
        }
        let quota = limits.cpu_millis.and_then(|millis| {
            let microseconds = millis * PERIOD_US / 1000;
            match &self.cpu {
                Controller::Unified => Some(Quota {
                    file: format!("{unified}/cpu.max"),
                    lifted: "max".to_owned(),
                    limited: format!("{microseconds} {PERIOD_US}"),
                }),
                Controller::Legacy(place) => Some(Quota {
                    file: format!("{}/cpu.cfs_quota_us", place.join(&below)),
                    lifted: "-1".to_owned(),
                    limited: microseconds.to_string(),
                }),
                Controller::Absent => None,
            }
        });
        Cgroups {
            unified: unified.into_string(),
            legacy,
            quota,
        }
    }

    /// Makes the directories and sets the limits.
    pub(crate) fn create(&self, cgroups: &Cgroups, limits: Limits) -> Result<(), ProviderError> {
        let asked = [
            ("memory", &self.memory, limits.memory),
            ("pids", &self.pids, limits.pids),
            ("cpu", &self.cpu, limits.cpu_millis),
        ];
        for (name, controller, limit) in asked {
            if limit.is_some() && *controller == Controller::Absent {
                return Err(ProviderError::refused(format!(
                    "this machine cannot limit {name}: its kernel offers no {name} controller; create the sandbox without that limit"
                )));
            }
        }
        for directory in [&cgroups.unified].into_iter().chain(&cgroups.legacy) {
            self.make(Utf8Path::new(directory))
                .doing(format!("making the cgroup {directory}"))?;
        }
        self.set(cgroups, limits).doing("setting the limits")
    }

    fn make(&self, directory: &Utf8Path) -> io::Result<()> {
        let group = directory.parent().ok_or(io::ErrorKind::InvalidInput)?;
        loop {
            if self.has_controllers() && directory.starts_with(&self.unified) {
                make_directory(group)?;
                match self.enable_controllers(group) {
                    // A process that ended took the empty group away under us.
                    Err(error) if is_gone(&error) => continue,
                    other => other?,
                }
            }
            match make_directory(directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => make_directory(group)?,
                other => return other,
            }
        }
    }

    fn has_controllers(&self) -> bool {
        [&self.memory, &self.pids, &self.cpu].contains(&&Controller::Unified)
    }

    /// On v2 a directory has a controller only if its parent says so, all the way down.
    fn enable_controllers(&self, group: &Utf8Path) -> io::Result<()> {
        let ours = [
            ("memory", &self.memory),
            ("pids", &self.pids),
            ("cpu", &self.cpu),
        ];
        for directory in [&*self.unified, group] {
            let file = directory.join("cgroup.subtree_control");
            let mut enabled = String::new();
            io::Read::read_to_string(&mut std::fs::File::open(&file)?, &mut enabled)?;
            for (name, controller) in ours {
                let has = enabled.split_whitespace().any(|enabled| enabled == name);
                if *controller == Controller::Unified && !has {
                    write(file.as_str(), &format!("+{name}"))?;
                }
            }
        }
        Ok(())
    }

    fn set(&self, cgroups: &Cgroups, limits: Limits) -> io::Result<()> {
        let directory = |controller: &Controller| match controller {
            Controller::Legacy(place) => cgroups
                .legacy
                .iter()
                .find(|d| Utf8Path::new(d).starts_with(place))
                .map(String::as_str),
            Controller::Unified => Some(&*cgroups.unified),
            Controller::Absent => None,
        };
        if let (Some(bytes), Some(directory)) = (limits.memory, directory(&self.memory)) {
            if self.memory == Controller::Unified {
                write(&format!("{directory}/memory.max"), &bytes.to_string())?;
                // Swap would only make a full sandbox slow instead of telling it; absent without swap.
                let _ = write(&format!("{directory}/memory.swap.max"), "0");
            } else {
                write(
                    &format!("{directory}/memory.limit_in_bytes"),
                    &bytes.to_string(),
                )?;
                // Memory and swap together; the file is there only where swap is accounted.
                let _ = write(
                    &format!("{directory}/memory.memsw.limit_in_bytes"),
                    &bytes.to_string(),
                );
            }
        }
        if let (Some(count), Some(directory)) = (limits.pids, directory(&self.pids)) {
            write(&format!("{directory}/pids.max"), &count.to_string())?;
        }
        if let Some(quota) = &cgroups.quota {
            if let (Controller::Legacy(_), Some(directory)) = (&self.cpu, directory(&self.cpu)) {
                write(
                    &format!("{directory}/cpu.cfs_period_us"),
                    &PERIOD_US.to_string(),
                )?;
            }
            write(&quota.file, &quota.limited)?;
        }
        Ok(())
    }
}

fn make_directory(directory: &Utf8Path) -> io::Result<()> {
    match std::fs::create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// What the kernel says of a file in a cgroup that was removed: before it was opened, and after.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

fn write(path: &str, value: &str) -> io::Result<()> {
    std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()))
}

/// Ends whatever is in there, without a keeper's help, and removes the directories.
pub(crate) fn end(cgroups: &Cgroups) -> Result<(), ProviderError> {
    let events = format!("{}/cgroup.events", cgroups.unified);
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Ok(text) = fs_err::read_to_string(&events) {
        if text.contains("populated 0") {
            break;
        }
        if Instant::now() > deadline {
            return Err(ProviderError::unavailable(
                "ending the sandbox",
                "a process would not die within ten seconds",
            ));
        }
        let _ = write(&format!("{}/cgroup.kill", cgroups.unified), "1");
        let _ = write(&format!("{}/cgroup.freeze", cgroups.unified), "0");
        std::thread::sleep(Duration::from_millis(1));
    }
    remove(cgroups);
    Ok(())
}

/// Removes the sandbox's directories; the home's own goes with [`Group`].
pub(crate) fn remove(cgroups: &Cgroups) {
    for directory in [&cgroups.unified].into_iter().chain(&cgroups.legacy) {
        if let Ok(children) = std::fs::read_dir(directory) {
            for child in children.flatten() {
                let _ = std::fs::remove_dir(child.path());
            }
        }
        let _ = std::fs::remove_dir(directory);
    }
}

/// The home's directory in each hierarchy. A process that ends takes them away if no sandbox is
/// left in them: not sooner, because the next create would make them again.
#[derive(Debug)]
pub(crate) struct Group {
    directories: Vec<Utf8PathBuf>,
}

impl Group {
    pub(crate) fn new(layout: &Layout, home: &Home) -> Self {
        let legacy = [&layout.memory, &layout.pids, &layout.cpu]
            .into_iter()
            .filter_map(|c| match c {
                Controller::Legacy(place) => Some(place),
                Controller::Unified | Controller::Absent => None,
            });
        let name = Layout::group(home);
        let directories = legacy
            .chain([&layout.unified])
            .map(|place| place.join(&name))
            .collect();
        Self { directories }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in &self.directories {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 29 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 29 0:29 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
37 29 0:33 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
39 29 0:35 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn on_the_hybrid_layout_limits_go_to_v1_and_freezing_to_v2() {
        let layout = Layout::from_mountinfo(HYBRID, |_| "hugetlb".to_owned()).unwrap();
        assert_eq!(layout.unified, "/sys/fs/cgroup/unified");
        assert_eq!(
            layout.memory,
            Controller::Legacy("/sys/fs/cgroup/memory".into())
        );
        assert_eq!(layout.cpu, Controller::Legacy("/sys/fs/cgroup/cpu".into()));
    }

    #[test]
    fn on_a_v2_machine_everything_is_in_one_place() {
        let mounts = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let layout =
            Layout::from_mountinfo(mounts, |_| "cpuset cpu io memory pids".to_owned()).unwrap();
        assert_eq!(layout.memory, Controller::Unified);
        assert_eq!(layout.pids, Controller::Unified);
    }

    #[test]
    fn a_group_that_was_taken_away_while_its_file_was_open_is_gone_too() {
        assert!(is_gone(&io::Error::from_raw_os_error(libc::ENODEV)));
        assert!(is_gone(&io::ErrorKind::NotFound.into()));
        assert!(!is_gone(&io::Error::from_raw_os_error(libc::EBUSY)));
    }

    #[test]
    fn without_v2_there_is_no_layout() {
        assert!(
            Layout::from_mountinfo("31 29 0:27 / /c rw - cgroup cgroup rw,cpu\n", |_| {
                String::new()
            })
            .is_none()
        );
    }
}
