//! A layer from its own tree.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Stat};

use super::entry::{Entries, Layer};
use crate::tree::{self, Visitor, is_kept};

pub(super) fn write(top: OwnedFd, writer: &mut Layer<'_>, lowest: bool) -> io::Result<()> {
    let mut own = Own {
        entries: Entries::new(writer),
        lowest,
    };
    let stat = rustix::fs::fstat(&top)?;
    own.directory(&top, b"", &stat)?;
    tree::walk(top, &mut own)
}

struct Own<'w, 'f> {
    entries: Entries<'w, 'f>,
    lowest: bool,
}

impl Own<'_, '_> {
    fn directory(&mut self, directory: &OwnedFd, path: &[u8], stat: &Stat) -> io::Result<()> {
        self.entries.directory(directory, path, stat)?;
        let opaque = tree::mark(directory, c"trusted.overlay.opaque")?;
        if !self.lowest && opaque.is_some_and(|value| value == b"y") {
            self.entries.opaque(path, stat)?;
        }
        Ok(())
    }
}

impl Visitor for Own<'_, '_> {
    fn entry(
        &mut self,
        parent: &OwnedFd,
        name: &CStr,
        path: &[u8],
        stat: &Stat,
    ) -> io::Result<bool> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let directory = tree::open_directory(parent, name)?;
                self.directory(&directory, path, stat)?;
                return Ok(true);
            }
            kind if is_kept(kind) => self.entries.other(parent, name, path, stat)?,
            // A whiteout; or a socket or device, which hides what is below and is not kept itself.
            _ if !self.lowest => self.entries.whiteout(path, stat)?,
            _ => {}
        }
        Ok(false)
    }
}
