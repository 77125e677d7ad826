//! Putting on the disk what the host sends. Below the path of the request no link is followed,
//! and a file appears whole or not at all.

use std::ffi::CString;
use std::io::Read;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, mkdirat, openat, symlinkat};
use rustix::io::{Errno, write};
use rustix::process::geteuid;
use wire::guest::{Entry, EntryKind, Failed, Reply};
use wire::{Channel, Frame, Raw};

use super::Stop;
use super::disk::{
    DIRECTORY, NEW_DIRECTORY, Owner, Temporary, beneath, follow, make_beneath, make_directories,
};
use super::path::{Place, absolute, joined};
use crate::failure::{cannot, refused};

pub(super) const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

pub(super) fn receive(path: &Raw, host: &mut impl Read) -> Result<(), Stop> {
    let mut receiver = Receiver {
        path,
        top: None,
        parent: None,
        late_modes: Vec::new(),
        temporaries: 0,
        gives_away: geteuid().is_root(),
    };
    absolute(path)?;
    let mut untouched = true;
    loop {
        match next(host)? {
            Reply::Entry(entry) => receiver.entry(&entry, host)?,
            Reply::Done { .. } if untouched => return receiver.top().map(drop),
            Reply::Done { .. } => return receiver.finish(),
            _ => return Err(Stop::Gone),
        }
        untouched = false;
    }
}

fn next(host: &mut impl Read) -> Result<Reply, Stop> {
    Ok(Frame::read(host)?.ok_or(Stop::Gone)?.message()?)
}

struct Receiver<'a> {
    path: &'a Raw,
    /// The directory that the request names, once it is needed.
    top: Option<OwnedFd>,
    /// The directory of the entry before, which is usually that of the next.
    parent: Option<(Vec<u8>, Rc<OwnedFd>)>,
    /// Directories that their owner could not write to, had they their modes at once.
    late_modes: Vec<(Vec<u8>, Mode)>,
    temporaries: u32,
    gives_away: bool,
}

impl Receiver<'_> {
    fn entry(&mut self, entry: &Entry, host: &mut impl Read) -> Result<(), Stop> {
        let owner = self.owner(entry)?;
        match (Place::new(&entry.path)?, &entry.kind) {
            (Place::Top, EntryKind::Directory) => {
                self.top()?;
                self.directory(entry, owner)?;
                expect_end(host)
            }
            (Place::Top, _) => {
                let (directory, name) = self.beside_top(&entry.kind)?;
                self.replace(directory.as_fd(), &name, entry, owner, host)
            }
            (Place::Below { parent, name }, EntryKind::Directory) => {
                match mkdirat(self.parent(parent)?, name, NEW_DIRECTORY) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(self.cannot_write(entry, errno)),
                }
                self.directory(entry, owner)?;
                expect_end(host)
            }
            (Place::Below { parent, name }, _) => {
                let directory = self.parent(parent)?;
                self.replace(directory.as_fd(), &c_string(name)?, entry, owner, host)
            }
        }
    }

    /// Mode and owner of a directory that exists.
    fn directory(&mut self, entry: &Entry, owner: Owner) -> Result<(), Stop> {
        let mode = Mode::from_raw_mode(entry.mode & 0o7777);
        let late = !mode.contains(Mode::RWXU);
        let set = |directory: OwnedFd| {
            owner.give(directory.as_fd())?;
            fchmod(&directory, if late { mode | Mode::RWXU } else { mode })
        };
        self.open_directory(&entry.path.0)
            .and_then(set)
            .map_err(|errno| self.cannot_write(entry, errno))?;
        if late {
            self.late_modes.push((entry.path.0.clone(), mode));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Stop> {
        for (path, mode) in std::mem::take(&mut self.late_modes).into_iter().rev() {
            self.open_directory(&path)
                .and_then(|directory| fchmod(directory, mode))
                .map_err(|errno| cannot(&format!("set the mode of {:?}", Raw(path)), errno))?;
        }
        Ok(())
    }

    fn open_directory(&self, relative: &[u8]) -> Result<OwnedFd, Errno> {
        let top = self.top.as_ref().ok_or(Errno::NOENT)?;
        let path = if relative.is_empty() { b"." } else { relative };
        beneath(top.as_fd(), path, OFlags::RDONLY | DIRECTORY)
    }

    fn replace(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CString,
        entry: &Entry,
        owner: Owner,
        host: &mut impl Read,
    ) -> Result<(), Stop> {
        let cannot_write = |errno| self.cannot_write(entry, errno);
        let number = self.temporaries;
        let temporary = if let EntryKind::Symlink { target } = &entry.kind {
            let target = c_string(&target.0)?;
            let link = |name: &CString| symlinkat(&target, directory, name);
            let (temporary, ()) = Temporary::make(directory, number, link).map_err(cannot_write)?;
            owner
                .give_link(directory, &temporary.name)
                .map_err(cannot_write)?;
            expect_end(host)?;
            temporary
        } else {
            let create =
                |name: &CString| openat(directory, name, NEW_FILE, Mode::RUSR | Mode::WUSR);
            let (temporary, file) =
                Temporary::make(directory, number, create).map_err(cannot_write)?;
            fill(&file, host, cannot_write)?;
            // In this order: giving a file away takes setuid and setgid from it.
            owner.give(file.as_fd()).map_err(cannot_write)?;
            fchmod(&file, Mode::from_raw_mode(entry.mode & 0o7777)).map_err(cannot_write)?;
            temporary
        };
        temporary.become_real(name).map_err(cannot_write)?;
        self.temporaries = self.temporaries.wrapping_add(1);
        Ok(())
    }

    fn top(&mut self) -> Result<&OwnedFd, Stop> {
        let top = match self.top.take() {
            Some(top) => top,
            None => make_directories(&absolute(self.path)?)
                .map_err(|errno| cannot(&format!("use the directory {:?}", self.path), errno))?,
        };
        Ok(self.top.insert(top))
    }

    /// The directory and the name of the path itself, when it is to be a file.
    fn beside_top(&self, kind: &EntryKind) -> Result<(OwnedFd, CString), Stop> {
        let fail = |errno| cannot(&format!("write {:?}", self.path), errno);
        let mut path = self.path.0.clone();
        if *kind == EntryKind::File {
            path = follow(path).map_err(fail)?;
        }
        let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let name = &path[slash + 1..];
        if matches!(name, b"" | b"." | b"..") {
            return Err(refused(format!("{:?} is no name for a file", self.path)).into());
        }
        let parent = if slash == 0 { b"/" } else { &path[..slash] };
        Ok((
            make_directories(&c_string(parent)?).map_err(fail)?,
            c_string(name)?,
        ))
    }

    fn parent(&mut self, path: &[u8]) -> Result<Rc<OwnedFd>, Stop> {
        if let Some((known, directory)) = &self.parent
            && known == path
        {
            return Ok(Rc::clone(directory));
        }
        let made = make_beneath(self.top()?.as_fd(), path).map_err(|errno| {
            cannot(
                &format!("use the directory {:?}", joined(self.path, path)),
                errno,
            )
        })?;
        let directory = Rc::new(made);
        self.parent = Some((path.to_vec(), Rc::clone(&directory)));
        Ok(directory)
    }

    fn owner(&self, entry: &Entry) -> Result<Owner, Failed> {
        if entry.uid == Some(u32::MAX) || entry.gid == Some(u32::MAX) {
            return Err(refused(format!(
                "{:?} has an owner that cannot be",
                entry.path
            )));
        }
        if !self.gives_away {
            return Ok(Owner {
                uid: None,
                gid: None,
            });
        }
        Ok(Owner {
            uid: entry.uid.map(Uid::from_raw),
            gid: entry.gid.map(Gid::from_raw),
        })
    }

    fn cannot_write(&self, entry: &Entry, errno: Errno) -> Stop {
        let path = joined(self.path, &entry.path.0);
        Stop::Failed(cannot(&format!("write {path:?}"), errno))
    }
}

pub(super) fn fill(
    file: &OwnedFd,
    host: &mut impl Read,
    fail: impl Fn(Errno) -> Stop,
) -> Result<(), Stop> {
    loop {
        let frame = Frame::read(host)?.ok_or(Stop::Gone)?;
        if frame.channel != Channel::Data {
            return if frame.message::<Reply>()? == Reply::EndOfEntry {
                Ok(())
            } else {
                Err(Stop::Gone)
            };
        }
        let mut left = frame.payload.as_slice();
        while !left.is_empty() {
            match write(file, left) {
                Ok(count) => left = &left[count..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(fail(errno)),
            }
        }
    }
}

fn expect_end(host: &mut impl Read) -> Result<(), Stop> {
    if next(host)? == Reply::EndOfEntry {
        Ok(())
    } else {
        Err(Stop::Gone)
    }
}

fn c_string(bytes: &[u8]) -> Result<CString, Failed> {
    CString::new(bytes).map_err(|_| refused("a path contains a NUL byte"))
}
