//! A directory to try things in, on the home's own file system.

use std::os::unix::fs::DirBuilderExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use super::trial;
use crate::Config;

const PREFIX: &str = ".nacre-doctor-";

/// Goes, with all that is in it, when this is dropped.
#[derive(Debug)]
pub(super) struct Scratch(Utf8PathBuf);

impl Scratch {
    pub(super) fn new(place: &Utf8Path) -> std::io::Result<Self> {
        let path = place.join(format!("{PREFIX}{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Utf8Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes what a doctor that was killed left behind, its sandbox too.
pub(super) fn sweep(config: &Config, place: &Utf8Path) {
    for path in left_by_the_dead(place, PREFIX) {
        let left = Scratch(path);
        trial::clear(config, &left);
    }
}

/// Directories named by a prefix and the number of a process that is no more.
pub(super) fn left_by_the_dead(place: &Utf8Path, prefix: &str) -> Vec<Utf8PathBuf> {
    let is_dead = |pid: u32| !Utf8Path::new(&format!("/proc/{pid}")).exists();
    let entries = place.read_dir_utf8().into_iter().flatten().flatten();
    entries
        .filter(|entry| owner(entry.file_name(), prefix).is_some_and(is_dead))
        .map(|entry| entry.path().to_owned())
        .collect()
}

fn owner(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_doctors_own_directories_are_swept() {
        assert_eq!(owner(".nacre-doctor-12", PREFIX), Some(12));
        for other in [
            ".nacre-doctor-",
            ".nacre-doctor-x",
            "sandboxes",
            "nacre-doctor-12",
        ] {
            assert_eq!(owner(other, PREFIX), None, "{other}");
        }
    }
}
