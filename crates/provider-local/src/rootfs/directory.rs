use std::ffi::CStr;
use std::os::fd::OwnedFd;

use camino::Utf8Path;
use provider::ProviderError;
use rustix::fs::{CWD, Stat};

use crate::error::Doing as _;
use crate::tree::{self, Visitor};

/// Changes whenever anything in the directory does: names, sizes and times of all of it.
pub(super) fn fingerprint(path: &Utf8Path) -> Result<String, ProviderError> {
    struct Hash(blake3::Hasher);
    impl Visitor for Hash {
        fn entry(
            &mut self,
            _: &OwnedFd,
            _: &CStr,
            path: &[u8],
            stat: &Stat,
        ) -> std::io::Result<bool> {
            self.0.update(path);
            for number in [
                stat.st_size,
                stat.st_mtime,
                stat.st_ctime,
                i64::from(stat.st_mode),
            ] {
                self.0.update(&number.to_le_bytes());
            }
            self.0.update(&stat.st_ctime_nsec.to_le_bytes());
            Ok(true)
        }
    }
    let canonical = path.canonicalize_utf8().doing(format!("reading {path}"))?;
    if canonical == "/" {
        return Err(ProviderError::refused(
            "`/` is no root file system to import: use `--from host`",
        ));
    }
    let mut hash = Hash(blake3::Hasher::new());
    hash.0.update(canonical.as_str().as_bytes());
    let top =
        tree::open_directory(CWD, canonical.as_std_path()).doing(format!("reading {path}"))?;
    tree::walk(top, &mut hash).doing(format!("reading {path}"))?;
    Ok(hash.0.finalize().to_hex().to_string())
}

pub(super) fn fill(path: &Utf8Path, place: &Utf8Path) -> Result<(), ProviderError> {
    tree::copy(path, place).doing(format!("copying {path}"))?;
    super::tarball::check_root(place, path)
}
