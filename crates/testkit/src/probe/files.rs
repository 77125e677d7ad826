//! Changes to the tree of files.

use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::Path;

use provider::probe::{CAP_NET_BIND_SERVICE, CAPABILITY_XATTR, FileWork, SPARSE_END};
use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use crate::path;

pub(crate) fn work(work: FileWork) -> io::Result<()> {
    match work {
        FileWork::Write { path: to, text } => fs_err::write(path(&to), text),
        FileWork::Append { path: to, text } => {
            let mut options = fs_err::OpenOptions::new();
            options
                .create(true)
                .append(true)
                .open(path(&to))?
                .write_all(&text)
        }
        FileWork::Rm(at) => fs_err::remove_file(path(&at)),
        FileWork::Rmdir(at) => fs_err::remove_dir(path(&at)),
        FileWork::Rmtree(at) => fs_err::remove_dir_all(path(&at)),
        FileWork::Mv { from, to } => fs_err::rename(path(&from), path(&to)),
        FileWork::Mkdir { path: at, mode } => {
            fs_err::create_dir_all(path(&at))?;
            chmod(path(&at), mode)
        }
        FileWork::Chmod { path: at, mode } => chmod(path(&at), mode),
        FileWork::Chown { path: at, uid, gid } => {
            fs_err::os::unix::fs::lchown(path(&at), Some(uid), Some(gid))
        }
        FileWork::Setxattr {
            path: at,
            name,
            value,
        } => setxattr(path(&at), &name, &value),
        FileWork::Setcap(at) => setxattr(path(&at), CAPABILITY_XATTR, &CAP_NET_BIND_SERVICE),
        FileWork::Sparse { path: at, size } => {
            let file = fs_err::File::create(path(&at))?;
            file.set_len(size)?;
            file.file()
                .write_all_at(SPARSE_END, size.saturating_sub(SPARSE_END.len() as u64))
        }
        FileWork::Mkfifo(at) => Ok(rustix::fs::mknodat(
            CWD,
            path(&at),
            FileType::Fifo,
            Mode::from_raw_mode(0o644),
            0,
        )?),
        // Closing it leaves its name behind.
        FileWork::Socket(at) => UnixListener::bind(path(&at)).map(drop),
        FileWork::Symlink { target, path: at } => {
            fs_err::os::unix::fs::symlink(path(&target), path(&at))
        }
        FileWork::Link { existing, path: at } => fs_err::hard_link(path(&existing), path(&at)),
    }
}

/// Exact, whatever the umask.
fn chmod(path: &Path, mode: u32) -> io::Result<()> {
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

fn setxattr(path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::lsetxattr(
        path,
        name,
        value,
        XattrFlags::empty(),
    )?)
}
