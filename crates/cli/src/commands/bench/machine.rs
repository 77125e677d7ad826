//! What the figures were measured on. Nothing that tells whose machine it is.

use camino::Utf8Path;
use serde::Serialize;

use crate::output::facts;

#[derive(Debug, Clone, Serialize)]
pub(super) struct Machine {
    kernel: String,
    processor: String,
    cores: usize,
    memory_bytes: u64,
    /// Of the throw-away home.
    file_system: String,
    load_before: String,
    load_after: String,
    /// `release` or `debug`: a debug build's figures are good for nothing.
    build: &'static str,
}

impl Machine {
    pub(super) fn look(home: &Utf8Path) -> Self {
        Self {
            kernel: first_line("/proc/sys/kernel/osrelease"),
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: memory("MemTotal").unwrap_or(0),
            file_system: file_system(&text("/proc/self/mountinfo"), home),
            load_before: load(),
            load_after: String::new(),
            build: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
        }
    }

    pub(super) fn look_again(&mut self) {
        self.load_after = load();
    }

    pub(super) fn shown(&self) -> String {
        facts(&[
            ("kernel", self.kernel.clone()),
            (
                "processor",
                format!("{}, {} cores", self.processor, self.cores),
            ),
            (
                "memory",
                model::ByteCount::new(self.memory_bytes).to_string(),
            ),
            ("file system", self.file_system.clone()),
            (
                "load",
                format!("{} before, {} after", self.load_before, self.load_after),
            ),
            ("build", self.build.to_owned()),
        ])
    }
}

/// A line of `/proc/meminfo`, in bytes.
pub(super) fn memory(name: &str) -> Option<u64> {
    kibibytes(&text("/proc/meminfo"), name)
}

/// `Name:   123 kB`, as many files of `/proc` have it.
pub(super) fn kibibytes(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?
        .trim()
        .strip_suffix(" kB")?
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}

fn processor() -> String {
    text("/proc/cpuinfo")
        .lines()
        .find_map(|line| {
            line.strip_prefix("model name")?
                .split_once(':')
                .map(|(_, name)| name.trim().to_owned())
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// The type of the innermost mount that holds `path`.
fn file_system(mountinfo: &str, path: &Utf8Path) -> String {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            Some((left.split(' ').nth(4)?, right.split(' ').next()?))
        })
        .filter(|(place, _)| path.starts_with(place))
        // Of two on one place the later one is on top.
        .max_by_key(|(place, _)| place.len())
        .map_or_else(|| "unknown".to_owned(), |(_, kind)| kind.to_owned())
}

fn load() -> String {
    let text = text("/proc/loadavg");
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn first_line(path: &str) -> String {
    text(path).lines().next().unwrap_or_default().to_owned()
}

/// Empty when it cannot be read: a figure is worth having without its surroundings.
pub(super) fn text(path: &str) -> String {
    fs_err::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_says_what_the_file_system_is() {
        let mounts = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:20 / /var rw - btrfs /dev/vdb rw
24 23 0:21 / /var/lib/other rw - xfs /dev/vdc rw
";
        let of = |path: &str| file_system(mounts, Utf8Path::new(path));
        assert_eq!(of("/var/lib/nacre"), "btrfs");
        assert_eq!(of("/home"), "ext4");
        assert_eq!(of("/variable"), "ext4");
    }

    #[test]
    fn a_size_is_read_by_its_name() {
        let text = "MemTotal:       24681 kB\nMemAvailable:    1024 kB\n";
        assert_eq!(kibibytes(text, "MemAvailable"), Some(1 << 20));
        assert_eq!(kibibytes(text, "Mem"), None);
    }
}
