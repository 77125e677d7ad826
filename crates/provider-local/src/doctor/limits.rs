//! Who we are, and what the machine lets one user have.

use rustix::process::{Resource, geteuid, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::{Finding, Fix};

/// What bringing up a sandbox takes, and for what.
const NEEDED: [(CapabilitySet, &str); 11] = [
    (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    (CapabilitySet::CHOWN, "CAP_CHOWN"),
    (CapabilitySet::DAC_OVERRIDE, "CAP_DAC_OVERRIDE"),
    (CapabilitySet::FOWNER, "CAP_FOWNER"),
    (CapabilitySet::KILL, "CAP_KILL"),
    (CapabilitySet::MKNOD, "CAP_MKNOD"),
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
    (CapabilitySet::SETGID, "CAP_SETGID"),
    (CapabilitySet::SETPCAP, "CAP_SETPCAP"),
    (CapabilitySet::SETUID, "CAP_SETUID"),
    (CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE"),
];

/// Editors and build tools watch whole trees.
const FEW_WATCHES: u64 = 65_536;
const FEW_INSTANCES: u64 = 128;
const FEW_NAMESPACES: u64 = 1000;
const FEW_FILES: u64 = 4096;

pub(super) fn root() -> Finding {
    const NAME: &str = "root";
    let uid = geteuid();
    if !uid.is_root() {
        return Finding::missing(
            NAME,
            format!("this is uid {}", uid.as_raw()),
            "run nacre as root, with sudo or as a service: sandboxes get ids, mounts and limits that only root can give",
        );
    }
    match capabilities(None) {
        Ok(sets) => match lacking(sets.effective) {
            lacking if lacking.is_empty() => {
                Finding::ok(NAME, "with the capabilities that are needed")
            }
            lacking => Finding::missing(
                NAME,
                format!("without {}", lacking.join(", ")),
                "run nacre outside the container or service that took these capabilities away, or give them back",
            ),
        },
        Err(error) => Finding::warning(
            NAME,
            format!("capabilities cannot be read: {error}"),
            "look at what confines this process",
        ),
    }
}

fn lacking(held: CapabilitySet) -> Vec<&'static str> {
    NEEDED
        .iter()
        .filter(|(capability, _)| !held.contains(*capability))
        .map(|(_, name)| *name)
        .collect()
}

pub(super) fn examine() -> Vec<Finding> {
    let namespaces = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]
        .map(|kind| (kind, setting(&format!("user/max_{kind}_namespaces"))));
    vec![
        inotify(
            setting("fs/inotify/max_user_instances"),
            setting("fs/inotify/max_user_watches"),
        ),
        namespace_limits(&namespaces),
        open_files(getrlimit(Resource::Nofile).maximum),
    ]
}

fn setting(name: &str) -> Option<u64> {
    fs_err::read_to_string(format!("/proc/sys/{name}"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

fn inotify(instances: Option<u64>, watches: Option<u64>) -> Finding {
    const NAME: &str = "inotify";
    let (Some(instances), Some(watches)) = (instances, watches) else {
        return Finding::warning(
            NAME,
            "not in this kernel",
            "programs that watch files fall back to looking again and again",
        );
    };
    let found = format!("{instances} instances and {watches} watches for each sandbox");
    let write = |name: &str, value: u64| {
        Fix::Write(
            format!("/proc/sys/fs/inotify/{name}").into(),
            value.to_string(),
        )
    };
    if watches < FEW_WATCHES {
        let advice = "raise fs.inotify.max_user_watches with sysctl: an editor or build tool watches whole trees";
        return Finding::warning(NAME, found, advice).fixed_by(write("max_user_watches", 524_288));
    }
    if instances < FEW_INSTANCES {
        let advice = "raise fs.inotify.max_user_instances with sysctl: every tool that watches files takes one";
        return Finding::warning(NAME, found, advice).fixed_by(write("max_user_instances", 1024));
    }
    Finding::ok(NAME, found)
}

fn namespace_limits(limits: &[(&str, Option<u64>)]) -> Finding {
    const NAME: &str = "namespace limits";
    let least = limits
        .iter()
        .filter_map(|(kind, limit)| Some((limit.as_ref()?, kind)))
        .min();
    let Some((least, kind)) = least else {
        return Finding::warning(
            NAME,
            "this kernel does not tell",
            "nothing: the trial at the end shows whether namespaces can be made",
        );
    };
    let file = || format!("/proc/sys/user/max_{kind}_namespaces").into();
    let found = format!("at most {least} {kind} namespaces");
    match least {
        0 => Finding::missing(
            NAME,
            found,
            format!("raise user.max_{kind}_namespaces with sysctl"),
        )
        .fixed_by(Fix::Write(file(), "15000".to_owned())),
        few if *few < FEW_NAMESPACES => {
            let advice = format!(
                "raise user.max_{kind}_namespaces with sysctl: every sandbox takes one or more"
            );
            Finding::warning(NAME, found, advice).fixed_by(Fix::Write(file(), "15000".to_owned()))
        }
        _ => Finding::ok(NAME, found),
    }
}

/// `None` is no limit.
fn open_files(hard: Option<u64>) -> Finding {
    const NAME: &str = "open files";
    match hard {
        None => Finding::ok(NAME, "no limit"),
        Some(hard) if hard < FEW_FILES => Finding::warning(
            NAME,
            format!("at most {hard}"),
            "raise the hard limit (LimitNOFILE of a service, limits.conf): nacre goes up to it, never above it",
        ),
        Some(hard) => Finding::ok(
            NAME,
            format!("at most {hard}; nacre goes up to that, never above"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FindingStatus;

    #[test]
    fn the_capabilities_that_lack_are_named() {
        let held = CapabilitySet::all() - CapabilitySet::SYS_ADMIN - CapabilitySet::MKNOD;
        assert_eq!(lacking(held), ["CAP_SYS_ADMIN", "CAP_MKNOD"]);
        assert!(lacking(CapabilitySet::all() - CapabilitySet::SYS_RESOURCE).is_empty());
    }

    #[test]
    fn few_open_files_are_a_warning_and_no_limit_is_fine() {
        assert_eq!(open_files(Some(1024)).status, FindingStatus::Warning);
        assert_eq!(open_files(Some(4096)).status, FindingStatus::Ok);
        assert_eq!(open_files(None).status, FindingStatus::Ok);
    }

    #[test]
    fn the_scarcest_kind_of_namespace_decides() {
        let some = namespace_limits(&[("user", Some(50_000)), ("net", Some(10)), ("uts", None)]);
        assert_eq!(some.status, FindingStatus::Warning);
        assert!(some.found.contains("10 net"), "{}", some.found);
        let none = namespace_limits(&[("user", Some(0)), ("net", Some(10))]);
        assert_eq!(none.status, FindingStatus::Missing);
        assert_eq!(
            none.fix,
            Some(Fix::Write(
                "/proc/sys/user/max_user_namespaces".into(),
                "15000".to_owned()
            ))
        );
    }

    #[test]
    fn few_watches_are_a_warning_that_can_be_put_right() {
        let few = inotify(Some(128), Some(8192));
        assert_eq!(few.status, FindingStatus::Warning);
        assert!(few.fix.is_some());
        assert_eq!(inotify(Some(128), Some(65_536)).status, FindingStatus::Ok);
    }
}
