//! A tar into a directory: by descriptor, one component at a time, never through a link. What is
//! wrong with an archive is found before it does harm, and then nothing of it is kept: the caller
//! throws the directory away.

mod content;
mod lane;

use std::io::{self, BufRead};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chmodat,
    chownat, fsetxattr, linkat, mkdirat, mknodat, openat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::tar::{Entry, Kind, Limits, OPAQUE, Reader, WHITEOUT, clean_link};
use crate::{Control, invalid, shown};

pub use content::Contents;
use content::fill;
use lane::{Lane, Small};

/// Left free on the disk.
const DISK_RESERVE: u64 = 64 << 20;
/// The disk is looked at again after so much.
const DISK_STEP: u64 = 16 << 20;

/// What kind of archive it is, and so what may be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Anybody's root file system: a later entry wins, parents are made, devices are left out.
    RootFileSystem,
    /// A layer as we write it: whiteouts mean something, every entry comes once and after its
    /// directory. Whatever else is in it was not written by us.
    Layer,
    /// The same, with nothing below it that could be hidden.
    LowestLayer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpacked {
    pub entries: u64,
    /// Of files, as they look.
    pub bytes: u64,
}

/// Unpacks into an empty directory.
pub fn unpack<R: BufRead>(
    from: R,
    root: OwnedFd,
    rules: Rules,
    limits: Limits,
    control: &Control,
    contents: &mut impl Contents<R>,
) -> io::Result<Unpacked> {
    let mut reader = Reader::new(from, limits);
    let bytes = std::thread::scope(|scope| {
        let mut place = Place {
            levels: vec![Level::new(b"", root)],
            rules,
            limits,
            since_look: DISK_STEP,
            // Where a later entry wins, the order counts.
            lane: (rules != Rules::RootFileSystem).then(|| Lane::open(scope)),
        };
        let mut filled = place.fill(&mut reader, control, contents);
        if let Some(mut lane) = place.lane.take() {
            filled = filled.and_then(|bytes| lane.hand_on().map(|()| bytes));
            // What went wrong there is said first: here it may only be that nobody took an order.
            for (inode, hash) in lane.close()? {
                contents.known(inode, hash);
            }
        }
        let bytes = filled?;
        // Its files may have been the last that were written.
        place.climb(0)?;
        let root = place.levels.pop().expect("the root stays");
        Directory::leave(root.directory)?;
        Ok::<_, io::Error>(bytes)
    })?;
    if rules != Rules::RootFileSystem {
        nothing_more(reader.inner_mut())?;
    }
    Ok(Unpacked {
        entries: reader.entries(),
        bytes,
    })
}

/// After its end an archive is empty; what might be there would be read by others.
fn nothing_more(from: &mut impl BufRead) -> io::Result<()> {
    loop {
        let piece = from.fill_buf()?;
        if piece.is_empty() {
            return Ok(());
        }
        if piece.iter().any(|byte| *byte != 0) {
            return Err(invalid("something follows the end of a layer"));
        }
        let length = piece.len();
        from.consume(length);
    }
}

struct Place<'scope> {
    /// From the root to where we are.
    levels: Vec<Level>,
    rules: Rules,
    limits: Limits,
    since_look: u64,
    lane: Option<Lane<'scope>>,
}

struct Level {
    name: Vec<u8>,
    directory: Arc<Directory>,
}

/// A directory that is being filled, here or on the other thread.
struct Directory {
    fd: OwnedFd,
    /// Given when the directory is full: filling it changes its time, and a set-gid bit or a
    /// default access list would change what is made in it.
    properties: Option<Properties>,
}

struct Properties {
    mode: u32,
    mtime: Option<i64>,
    /// Of what was said of the directory, those that are given last.
    access: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Place<'_> {
    fn fill<R: BufRead>(
        &mut self,
        reader: &mut Reader<R>,
        control: &Control,
        contents: &mut impl Contents<R>,
    ) -> io::Result<u64> {
        let mut bytes = 0u64;
        while let Some(entry) = reader.next_entry()? {
            control.check()?;
            bytes = bytes.saturating_add(entry.size);
            self.put(&entry, reader, contents)?;
        }
        Ok(bytes)
    }

    fn put<R: BufRead>(
        &mut self,
        entry: &Entry,
        reader: &mut Reader<R>,
        contents: &mut impl Contents<R>,
    ) -> io::Result<()> {
        self.look_at_disk(entry.size)?;
        if entry.path.is_empty() {
            return self.root(entry);
        }
        let (parent, name) = split(&entry.path);
        self.descend(parent)?;
        if self.rules != Rules::RootFileSystem && !entry.literal && name.starts_with(WHITEOUT) {
            return self.whiteout(entry, name);
        }
        match entry.kind {
            Kind::Directory => return self.directory(entry, name),
            Kind::File => return self.file(entry, name, reader, contents),
            Kind::Link => return self.link(entry, name),
            // A sandbox has its own /dev; nodes in an image are never of use.
            Kind::Device if self.rules == Rules::RootFileSystem => return Ok(()),
            Kind::Device => {
                return Err(invalid(format!("`{}` is a device", shown(&entry.path))));
            }
            Kind::Symlink => {
                if entry.link.is_empty() {
                    return Err(invalid("a symbolic link without a target"));
                }
                self.make(name, &entry.path, |at| symlinkat(&*entry.link, at, name))?;
            }
            Kind::Fifo => {
                let mode = Mode::from_raw_mode(self.mode(entry)?);
                self.make(name, &entry.path, |at| {
                    mknodat(at, name, FileType::Fifo, mode, 0)
                })?;
            }
        }
        let (uid, gid) = self.owner(entry)?;
        let at = self.here();
        chownat(at, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        if entry.kind == Kind::Fifo {
            // Again, because the process's mask was in the way. It is no link: we made it.
            let mode = Mode::from_raw_mode(self.mode(entry)?);
            chmodat(at, name, mode, AtFlags::empty())?;
        }
        utimensat(at, name, &times(entry.mtime), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    fn here(&self) -> &OwnedFd {
        &self.levels.last().expect("the root stays").directory.fd
    }

    fn root(&mut self, entry: &Entry) -> io::Result<()> {
        if entry.kind != Kind::Directory {
            return Err(invalid("its root is not a directory"));
        }
        // A root file system's own root is ours to shape.
        if self.rules == Rules::RootFileSystem {
            return Ok(());
        }
        self.climb(0)?;
        let (uid, gid) = self.owner(entry)?;
        rustix::fs::fchown(self.here(), Some(uid), Some(gid))?;
        let properties = self.properties(entry, self.here())?;
        self.levels[0].expect(properties, &entry.path)
    }

    fn directory(&mut self, entry: &Entry, name: &[u8]) -> io::Result<()> {
        match mkdirat(self.here(), name, Mode::from(0o700)) {
            Ok(()) => {}
            // Again, or made as somebody's parent before.
            Err(Errno::EXIST) if self.rules == Rules::RootFileSystem => {}
            Err(error) => return Err(refused(error, &entry.path)),
        }
        self.enter(name, &entry.path)?;
        let (uid, gid) = self.owner(entry)?;
        rustix::fs::fchown(self.here(), Some(uid), Some(gid))?;
        let properties = self.properties(entry, self.here())?;
        let level = self.levels.last_mut().expect("just entered");
        level.expect(properties, &entry.path)
    }

    fn file<R: BufRead>(
        &mut self,
        entry: &Entry,
        name: &[u8],
        reader: &mut Reader<R>,
        contents: &mut impl Contents<R>,
    ) -> io::Result<()> {
        let (uid, gid) = self.owner(entry)?;
        let properties = lane::Properties {
            mode: self.mode(entry)?,
            uid,
            gid,
            mtime: entry.mtime,
        };
        let directory = &self.levels.last().expect("the root stays").directory;
        if let Some(lane) = self.lane.as_mut().filter(|_| Lane::takes(entry)) {
            let small = Small {
                path: entry.path.clone(),
                name: name.to_vec(),
                content: content::whole(entry, reader)?,
                properties,
            };
            return lane.add(directory, small);
        }
        let file = self.make(name, &entry.path, |at| lane::make(at, name, properties))?;
        let stat = fill(&file, entry, reader, contents)?;
        lane::finish(&file, &stat, properties)?;
        for (attribute, value) in self.wanted(entry)? {
            set(&file, attribute, value, &entry.path)?;
        }
        rustix::fs::futimens(&file, &times(entry.mtime))?;
        Ok(())
    }

    fn link(&mut self, entry: &Entry, name: &[u8]) -> io::Result<()> {
        let target = clean_link(entry, &self.limits)?;
        if let Some(lane) = &mut self.lane {
            lane.settle()?;
        }
        let existing = self.find(&target)?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&existing)?.st_mode);
        match (self.rules, kind) {
            (_, FileType::RegularFile) => {}
            (Rules::RootFileSystem, kind) if kind != FileType::Directory => {}
            _ => {
                return Err(invalid(format!(
                    "`{}` is a hard link to something that is no file",
                    shown(&entry.path)
                )));
            }
        }
        // Through the descriptor that was checked, so that nobody has to be trusted.
        let via = format!("/proc/self/fd/{}", existing.as_raw_fd());
        self.make(name, &entry.path, |at| {
            linkat(CWD, &*via, at, name, AtFlags::SYMLINK_FOLLOW)
        })
    }

    fn whiteout(&mut self, entry: &Entry, name: &[u8]) -> io::Result<()> {
        let wrong = |why: &str| invalid(format!("`{}` {why}", shown(&entry.path)));
        if self.rules == Rules::LowestLayer {
            return Err(wrong("hides something of a layer that is not there"));
        }
        if entry.kind != Kind::File || entry.size > 0 {
            return Err(wrong("is a whiteout with a content"));
        }
        if name == OPAQUE {
            let flags = XattrFlags::CREATE;
            return fsetxattr(self.here(), "trusted.overlay.opaque", b"y", flags)
                .map_err(|error| refused(error, &entry.path));
        }
        match &name[WHITEOUT.len()..] {
            b"" | b"." | b".." => Err(wrong("hides nothing that has a name")),
            hidden if hidden.starts_with(WHITEOUT) => Err(wrong("is an unknown whiteout")),
            hidden => mknodat(
                self.here(),
                hidden,
                FileType::CharacterDevice,
                Mode::from(0o000),
                0,
            )
            .map_err(|error| refused(error, &entry.path)),
        }
    }

    /// Makes something that must be new; in a root file system a later entry wins.
    fn make<T>(
        &self,
        name: &[u8],
        path: &[u8],
        make: impl Fn(&OwnedFd) -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        match make(self.here()) {
            Err(Errno::EXIST) if self.rules == Rules::RootFileSystem => {}
            other => return other.map_err(|error| refused(error, path)),
        }
        match unlinkat(self.here(), name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::ISDIR) => return Err(invalid("a file in the place of a directory")),
            Err(error) => return Err(error.into()),
        }
        Ok(make(self.here())?)
    }

    /// Goes to a directory, keeping open what it shares with where we were.
    fn descend(&mut self, path: &[u8]) -> io::Result<()> {
        let components: Vec<&[u8]> = if path.is_empty() {
            Vec::new()
        } else {
            path.split(|byte| *byte == b'/').collect()
        };
        let shared = self.levels[1..]
            .iter()
            .zip(&components)
            .take_while(|(level, component)| level.name == **component)
            .count();
        self.climb(shared)?;
        for component in &components[shared..] {
            self.enter(component, path)?;
        }
        Ok(())
    }

    fn enter(&mut self, name: &[u8], path: &[u8]) -> io::Result<()> {
        let opened = match open_directory(self.here(), name) {
            Err(Errno::NOENT) if self.rules == Rules::RootFileSystem => {
                mkdirat(self.here(), name, Mode::from(0o700))?;
                let made = open_directory(self.here(), name)?;
                let mut level = Level::new(name, made);
                let properties = Properties {
                    mode: 0o755,
                    mtime: None,
                    access: Vec::new(),
                };
                level.expect(properties, path)?;
                self.levels.push(level);
                return Ok(());
            }
            Err(Errno::NOENT) => {
                return Err(invalid(format!(
                    "the directory `{}` is not in it, or comes too late",
                    shown(path)
                )));
            }
            Err(error @ (Errno::LOOP | Errno::NOTDIR)) => {
                return Err(blocked(error, self.here(), name, path));
            }
            other => other?,
        };
        self.levels.push(Level::new(name, opened));
        Ok(())
    }

    /// Leaves directories until only so many below the root are open.
    fn climb(&mut self, depth: usize) -> io::Result<()> {
        while self.levels.len() > depth + 1 {
            let level = self.levels.pop().expect("counted");
            Directory::leave(level.directory)?;
        }
        Ok(())
    }

    /// Anything but what is behind a link; only for hard links, so nothing is kept open.
    fn find(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let (parent, name) = split(path);
        let mut at = self.levels[0].directory.fd.try_clone()?;
        let missing = |error, at: &OwnedFd, name: &[u8]| match error {
            Errno::NOENT => invalid(format!(
                "a hard link to `{}`, which is not in it",
                shown(path)
            )),
            error => blocked(error, at, name, path),
        };
        for component in parent.split(|byte| *byte == b'/').filter(|c| !c.is_empty()) {
            at = open_directory(&at, component).map_err(|e| missing(e, &at, component))?;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&at, name, flags, Mode::empty()).map_err(|e| missing(e, &at, name))
    }

    fn mode(&self, entry: &Entry) -> io::Result<u32> {
        if entry.mode > 0o7777 && self.rules != Rules::RootFileSystem {
            return Err(invalid(format!(
                "`{}` has a mode that is none",
                shown(&entry.path)
            )));
        }
        Ok(entry.mode & 0o7777)
    }

    fn owner(&self, entry: &Entry) -> io::Result<(Uid, Gid)> {
        let id = |number: u64| match (self.rules, u32::try_from(number)) {
            // Ids past the range mean nobody inside.
            (Rules::RootFileSystem, id) => Ok(id.ok().filter(|id| *id < 65_536).unwrap_or(65_534)),
            (_, Ok(id)) if id != u32::MAX => Ok(id),
            _ => Err(invalid(format!(
                "`{}` has an owner that is none",
                shown(&entry.path)
            ))),
        };
        Ok((Uid::from_raw(id(entry.uid)?), Gid::from_raw(id(entry.gid)?)))
    }

    /// Gives a directory its attributes, but for what waits until it is full.
    fn properties(&self, entry: &Entry, directory: &OwnedFd) -> io::Result<Properties> {
        let mut access = Vec::new();
        for (name, value) in self.wanted(entry)? {
            if name.starts_with(b"system.posix_acl_") {
                access.push((name.clone(), value.clone()));
            } else {
                set(directory, name, value, &entry.path)?;
            }
        }
        Ok(Properties {
            mode: self.mode(entry)?,
            mtime: Some(entry.mtime),
            access,
        })
    }

    /// Capabilities, access lists and user attributes; the overlay's own marks are made by
    /// whiteouts alone.
    fn wanted<'e>(&self, entry: &'e Entry) -> io::Result<Vec<&'e (Vec<u8>, Vec<u8>)>> {
        let mut wanted = Vec::new();
        for attribute in &entry.attributes {
            if is_portable(&attribute.0) {
                wanted.push(attribute);
            } else if self.rules != Rules::RootFileSystem {
                return Err(invalid(format!(
                    "`{}` has the attribute `{}`, which no layer has",
                    shown(&entry.path),
                    shown(&attribute.0)
                )));
            }
        }
        Ok(wanted)
    }

    fn look_at_disk(&mut self, wanted: u64) -> io::Result<()> {
        self.since_look = self.since_look.saturating_add(wanted);
        if self.since_look < DISK_STEP {
            return Ok(());
        }
        self.since_look = 0;
        let disk = rustix::fs::fstatvfs(self.levels[0].directory.fd.as_fd())?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < DISK_RESERVE {
            return Err(Errno::NOSPC.into());
        }
        Ok(())
    }
}

impl Level {
    fn new(name: &[u8], fd: OwnedFd) -> Self {
        let directory = Directory {
            fd,
            properties: None,
        };
        Self {
            name: name.to_vec(),
            directory: Arc::new(directory),
        }
    }

    /// Says what the directory will be, before anything is in it.
    fn expect(&mut self, properties: Properties, path: &[u8]) -> io::Result<()> {
        match Arc::get_mut(&mut self.directory) {
            Some(directory) if directory.properties.is_none() => {
                directory.properties = Some(properties);
                Ok(())
            }
            _ => Err(invalid(format!("`{}` is in it twice", shown(path)))),
        }
    }
}

impl Directory {
    /// Whoever is the last to leave gives it its properties.
    fn leave(this: Arc<Self>) -> io::Result<()> {
        let Some(Self {
            fd,
            properties: Some(properties),
        }) = Arc::into_inner(this)
        else {
            return Ok(());
        };
        rustix::fs::fchmod(&fd, Mode::from_raw_mode(properties.mode))?;
        for (name, value) in &properties.access {
            set(&fd, name, value, b".")?;
        }
        if let Some(mtime) = properties.mtime {
            rustix::fs::futimens(&fd, &times(mtime))?;
        }
        Ok(())
    }
}

fn set(file: &OwnedFd, name: &[u8], value: &[u8], path: &[u8]) -> io::Result<()> {
    match fsetxattr(file, name, value, XattrFlags::empty()) {
        Err(error @ (Errno::INVAL | Errno::RANGE | Errno::TOOBIG)) => Err(invalid(format!(
            "an attribute of `{}` cannot be: {error}",
            shown(path)
        ))),
        other => Ok(other?),
    }
}

/// What moves with a file. The rest is the overlay's, or this machine's.
pub fn is_portable(attribute: &[u8]) -> bool {
    (attribute.starts_with(b"user.") && !attribute.starts_with(b"user.overlay."))
        || matches!(
            attribute,
            b"security.capability" | b"system.posix_acl_access" | b"system.posix_acl_default"
        )
}

fn open_directory(at: &OwnedFd, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

/// Why a directory cannot be entered.
fn blocked(error: Errno, at: &OwnedFd, name: &[u8], path: &[u8]) -> io::Error {
    if !matches!(error, Errno::LOOP | Errno::NOTDIR) {
        return error.into();
    }
    let found = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
    let is_link =
        found.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
    let what = if is_link {
        "goes through a symbolic link"
    } else {
        "is not a directory"
    };
    invalid(format!("`{}` {what}", shown(path)))
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

fn refused(error: Errno, path: &[u8]) -> io::Error {
    match error {
        Errno::EXIST => invalid(format!("`{}` is in it twice", shown(path))),
        Errno::NAMETOOLONG => invalid(format!("`{}…` is too long", shown(path))),
        error => error.into(),
    }
}

fn times(mtime: i64) -> Timestamps {
    let time = Timespec {
        tv_sec: mtime,
        tv_nsec: 0,
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
