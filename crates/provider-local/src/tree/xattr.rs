//! Extended attributes, all of them.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr, lgetxattr, llistxattr, lsetxattr};

/// The kernel's own limits on a list of names and on a value.
const MAX_LIST: usize = 64 << 10;
const MAX_VALUE: usize = 64 << 10;

pub(super) fn names(file: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut buffer = vec![0u8; 1024];
    let length = match flistxattr(file, &mut buffer) {
        Err(rustix::io::Errno::RANGE) => {
            buffer.resize(MAX_LIST, 0);
            flistxattr(file, &mut buffer)?
        }
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        other => other?,
    };
    Ok(split(&buffer[..length]))
}

fn split(list: &[u8]) -> Vec<CString> {
    list.split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .filter_map(|name| CString::new(name).ok())
        .collect()
}

pub(super) fn value(file: &OwnedFd, name: &CStr) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0u8; 256];
    let length = match fgetxattr(file, name, &mut buffer) {
        Err(rustix::io::Errno::RANGE) => {
            buffer.resize(MAX_VALUE, 0);
            fgetxattr(file, name, &mut buffer)?
        }
        other => other?,
    };
    buffer.truncate(length);
    Ok(buffer)
}

/// Those that move with a file, by name.
pub(crate) fn portable(file: &OwnedFd) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = Vec::new();
    for name in names(file)? {
        if portable::is_portable(name.to_bytes()) {
            found.push((name.to_bytes().to_vec(), value(file, &name)?));
        }
    }
    found.sort();
    Ok(found)
}

/// What the overlay noted on a directory; `None` for nothing.
pub(crate) fn mark(file: &OwnedFd, name: &CStr) -> io::Result<Option<Vec<u8>>> {
    match value(file, name) {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENODATA | libc::EOPNOTSUPP) => Ok(None),
            _ => Err(error),
        },
    }
}

pub(super) fn copy(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    for name in names(from)? {
        fsetxattr(to, &*name, &value(from, &name)?, XattrFlags::empty())?;
    }
    Ok(())
}

/// A symbolic link cannot be opened for this; it is reached through its directory's descriptor,
/// whose path no one else can change.
pub(super) fn copy_link(from: &OwnedFd, to: &OwnedFd, name: &CStr) -> io::Result<()> {
    let path = |directory: &OwnedFd| {
        let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
        path.extend_from_slice(name.to_bytes());
        CString::new(path).map_err(io::Error::other)
    };
    let (from, to) = (path(from)?, path(to)?);
    let mut buffer = vec![0u8; 1024];
    let length = match llistxattr(&*from, &mut buffer) {
        Ok(length) => length,
        Err(rustix::io::Errno::OPNOTSUPP) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for attribute in split(&buffer[..length]) {
        let mut value = vec![0u8; MAX_VALUE];
        let length = lgetxattr(&*from, &*attribute, &mut value)?;
        lsetxattr(&*to, &*attribute, &value[..length], XattrFlags::empty())?;
    }
    Ok(())
}
