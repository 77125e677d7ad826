use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use camino::Utf8Path;
use rustix::fs::{AtFlags, CWD, FileType, Stat, renameat, unlinkat};

use super::walk::{list, open_directory};
use crate::subvolume;

/// Deletes a tree of any depth with two descriptors: directories found below are moved up into the
/// top, where their turn comes.
pub(crate) fn remove(path: &Utf8Path) -> io::Result<()> {
    if !std::fs::symlink_metadata(path)?.is_dir() {
        return fs_err::remove_file(path);
    }
    if subvolume::is_one(path) {
        return subvolume::destroy(
            open_directory(CWD, path.parent().unwrap_or(path).as_std_path())?,
            OsStr::new(path.file_name().unwrap_or_default()),
        );
    }
    let top = open_directory(CWD, path.as_std_path())?;
    let mut moved = 0u64;
    loop {
        let entries = list(&top)?;
        if entries.is_empty() {
            break;
        }
        for (name, stat) in entries {
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                unlink(&top, &name)?;
                continue;
            }
            if dropped(&top, &name, &stat) {
                continue;
            }
            let directory = open_directory(&top, &*name)?;
            for (inner, stat) in list(&directory)? {
                if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                    unlink(&directory, &inner)?;
                    continue;
                }
                if dropped(&directory, &inner, &stat) {
                    continue;
                }
                // An empty one goes at once; most are.
                if unlinkat(&directory, &*inner, AtFlags::REMOVEDIR).is_err() {
                    moved += 1;
                    renameat(
                        &directory,
                        &*inner,
                        &top,
                        format!(".nacre-{}-{moved}", std::process::id()),
                    )?;
                }
            }
            unlinkat(&top, &*name, AtFlags::REMOVEDIR)?;
        }
    }
    drop(top);
    std::fs::remove_dir(path)
}

/// Whether it was a subvolume, which goes whole.
fn dropped(parent: &OwnedFd, name: &CStr, stat: &Stat) -> bool {
    stat.st_ino == subvolume::ROOT_INODE
        && subvolume::destroy(parent, OsStr::from_bytes(name.to_bytes())).is_ok()
}

/// Somebody else may empty the same trash.
fn unlink(directory: &OwnedFd, name: &CStr) -> io::Result<()> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_deeper_than_any_path_is_removed() {
        let temp = std::env::temp_dir().join(format!("nacre-remove-{}", std::process::id()));
        fs_err::create_dir_all(&temp).unwrap();
        let mut at = open_directory(CWD, &temp).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "deeper", 0o755.into()).unwrap();
            at = open_directory(&at, "deeper").unwrap();
        }
        drop(at);
        let path = camino::Utf8PathBuf::from_path_buf(temp).unwrap();
        remove(&path).unwrap();
        assert!(!path.exists());
    }
}
