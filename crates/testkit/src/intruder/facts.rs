//! What the intruder was told, and what it found when it woke up.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// Things of the host that must not be seen, and what the caller allows to be tried.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) canary_file: Option<PathBuf>,
    pub(crate) canary_pid: Option<i32>,
    /// A word in the command line of that process.
    pub(crate) canary_cmdline: Option<String>,
    pub(crate) canary_name: Option<String>,
    pub(crate) abstract_socket: Option<String>,
    pub(crate) host_port: Option<u16>,
    pub(crate) layer_dir: Option<PathBuf>,
    /// Mount points beyond the ones that every sandbox has.
    pub(crate) expected_mounts: Vec<PathBuf>,
    /// What the attempts on PID 1 aim at, when it is another process.
    pub(crate) other_process: Option<i32>,
    /// We are in a sandbox, so that what a success breaks is the sandbox and not the host.
    pub(crate) inside: bool,
    pub(crate) bombs: bool,
    /// Keep what the budget attempts took until standard input closes.
    pub(crate) hold: bool,
    /// Only attempts whose name begins so.
    pub(crate) only: Option<String>,
    /// Descriptors beyond the first three that were open when we were started.
    pub(crate) inherited: Vec<String>,
}

impl Facts {
    pub(crate) fn process(&self) -> i32 {
        self.other_process.unwrap_or(1)
    }
}

#[derive(Debug)]
pub(crate) enum Asked {
    Try(Facts),
    List,
    /// Says the capabilities that it has: what an attempt starts to learn what a program gains.
    ShowCapabilities,
    Wrong(String),
}

pub(crate) const USAGE: &str = "nacre-intruder [--inside] [--bombs] [--hold] [--only PREFIX] [--canary-file PATH] \
    [--canary-pid PID] [--canary-cmdline WORD] [--canary-name HOSTNAME] [--abstract-socket NAME] [--host-port PORT] \
    [--layer-dir PATH] [--process PID] [--expect-mount PATH]... | --list | --show-capabilities";

pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Asked {
    let mut facts = Facts {
        inherited: inherited_descriptors(),
        ..Facts::default()
    };
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--list" => return Asked::List,
            "--show-capabilities" => return Asked::ShowCapabilities,
            "--inside" => facts.inside = true,
            "--bombs" => facts.bombs = true,
            "--hold" => facts.hold = true,
            name => {
                let Some(value) = arguments.next() else {
                    return Asked::Wrong(format!("{name} is unknown or lacks its value"));
                };
                if let Err(wrong) = set(&mut facts, name, value) {
                    return Asked::Wrong(wrong);
                }
            }
        }
    }
    Asked::Try(facts)
}

fn set(facts: &mut Facts, name: &str, value: String) -> Result<(), String> {
    match name {
        "--canary-file" => facts.canary_file = Some(value.into()),
        "--canary-pid" => facts.canary_pid = Some(number(name, &value)?),
        "--canary-cmdline" => facts.canary_cmdline = Some(value),
        "--canary-name" => facts.canary_name = Some(value),
        "--abstract-socket" => facts.abstract_socket = Some(value),
        "--host-port" => facts.host_port = Some(number(name, &value)?),
        "--layer-dir" => facts.layer_dir = Some(value.into()),
        "--expect-mount" => facts.expected_mounts.push(value.into()),
        "--process" => facts.other_process = Some(number(name, &value)?),
        "--only" => facts.only = Some(value),
        _ => return Err(format!("{name} is unknown")),
    }
    Ok(())
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("{name} takes a number, not {value:?}"))
}

/// Has to be asked before we open anything ourselves.
fn inherited_descriptors() -> Vec<String> {
    let Ok(entries) = fs_err::read_dir("/proc/self/fd") else {
        return vec!["/proc/self/fd cannot be read".to_owned()];
    };
    let beyond = entries.flatten().filter_map(|entry| {
        let number: i32 = entry.file_name().to_str()?.parse().ok()?;
        let target = fs_err::read_link(entry.path()).ok()?;
        // The one with which we read the directory shows the directory.
        let own = target == Path::new(&format!("/proc/{}/fd", std::process::id()));
        (number > 2 && !own).then(|| format!("{number} -> {}", target.display()))
    });
    beyond.collect()
}

/// For a call that takes a path; one with a zero byte in it is nobody's.
pub(crate) fn c_path(path: impl Into<OsString>) -> CString {
    CString::new(path.into().into_vec()).unwrap_or_default()
}
