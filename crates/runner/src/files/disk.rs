//! What writing needs of the disk: directories found and made without being led astray, files that
//! appear at once, owners.

use std::ffi::CString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Uid, chownat, fchown, fstat, mkdir,
    mkdirat, open, openat, openat2, readlinkat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::getpid;

pub(super) const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
pub(super) const NEW_DIRECTORY: Mode = Mode::from_raw_mode(0o755);
/// As many as `path_resolution(7)` allows.
const MAX_LINKS: usize = 40;

/// Opens below a directory, through no link at all.
pub(super) fn beneath(
    directory: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    for _ in 0..16 {
        // It says "again" when something was renamed meanwhile and it cannot be sure.
        match openat2(
            directory,
            path,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            resolve,
        ) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // gVisor does not have it.
            Err(Errno::NOSYS) => return step_by_step(directory, path, flags),
            other => return other,
        }
    }
    Err(Errno::BUSY)
}

/// As [`beneath`], one name at a time, none of which may be a link or lead up.
fn step_by_step(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let (parents, last) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&b""[..], path),
    };
    let mut reached: Option<OwnedFd> = None;
    for name in parents
        .split(|byte| *byte == b'/')
        .filter(|n| !n.is_empty())
    {
        let here = reached.as_ref().map_or(directory, |fd| fd.as_fd());
        reached = Some(open_one(here, name, OFlags::PATH | OFlags::DIRECTORY)?);
    }
    let here = reached.as_ref().map_or(directory, |fd| fd.as_fd());
    open_one(here, last, flags)
}

fn open_one(directory: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    if name == b".." {
        return Err(Errno::XDEV);
    }
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(directory, name, flags, Mode::empty())?;
    if flags.contains(OFlags::PATH) && FileType::from_raw_mode(fstat(&opened)?.st_mode).is_symlink()
    {
        return Err(Errno::LOOP);
    }
    Ok(opened)
}

/// Opens a directory below another; what is missing on the way is made.
pub(super) fn make_beneath(top: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    if path.is_empty() {
        return beneath(top, b".", OFlags::PATH | DIRECTORY);
    }
    match beneath(top, path, OFlags::PATH | DIRECTORY) {
        Err(Errno::NOENT) => {}
        other => return other,
    }
    let mut directory: Option<OwnedFd> = None;
    for name in path.split(|byte| *byte == b'/') {
        let here = directory
            .as_ref()
            .map_or(top, |directory| directory.as_fd());
        match mkdirat(here, name, NEW_DIRECTORY) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        directory = Some(beneath(here, name, OFlags::PATH | DIRECTORY)?);
    }
    directory.ok_or(Errno::INVAL)
}

/// Opens the directory that a request names, through links as usual; what is missing is made.
pub(super) fn make_directories(path: &CString) -> Result<OwnedFd, Errno> {
    match open(path, OFlags::PATH | DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => {}
        other => return other,
    }
    let bytes = path.as_bytes();
    let ends = (1..=bytes.len()).filter(|end| bytes.get(*end).is_none_or(|byte| *byte == b'/'));
    for end in ends {
        match mkdir(&bytes[..end], NEW_DIRECTORY) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    open(path, OFlags::PATH | DIRECTORY, Mode::empty())
}

/// Where a path leads when it is itself a link, so that the file and not the link is replaced.
pub(super) fn follow(mut path: Vec<u8>) -> Result<Vec<u8>, Errno> {
    for _ in 0..MAX_LINKS {
        match statat(CWD, path.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_symlink() => {}
            _ => return Ok(path),
        }
        let target = readlinkat(CWD, path.as_slice(), Vec::new())?.into_bytes();
        if target.starts_with(b"/") {
            path = target;
        } else {
            let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            path.truncate(slash + 1);
            path.extend(target);
        }
    }
    Err(Errno::LOOP)
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) uid: Option<Uid>,
    pub(super) gid: Option<Gid>,
}

impl Owner {
    pub(super) fn give(self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.uid.is_none() && self.gid.is_none() {
            Ok(())
        } else {
            fchown(fd, self.uid, self.gid)
        }
    }

    pub(super) fn give_link(self, directory: BorrowedFd<'_>, name: &CString) -> Result<(), Errno> {
        if self.uid.is_none() && self.gid.is_none() {
            return Ok(());
        }
        chownat(
            directory,
            name,
            self.uid,
            self.gid,
            AtFlags::SYMLINK_NOFOLLOW,
        )
    }
}

/// Removed again unless it becomes real.
pub(super) struct Temporary<'a> {
    directory: BorrowedFd<'a>,
    pub(super) name: CString,
    real: bool,
}

impl<'a> Temporary<'a> {
    pub(super) fn make<T>(
        directory: BorrowedFd<'a>,
        number: u32,
        make: impl Fn(&CString) -> Result<T, Errno>,
    ) -> Result<(Self, T), Errno> {
        for attempt in 0..100 {
            let name = format!(".nacre-{}-{number}-{attempt}", getpid().as_raw_pid());
            let name = CString::new(name).map_err(|_| Errno::INVAL)?;
            match make(&name) {
                Ok(content) => {
                    return Ok((
                        Self {
                            directory,
                            name,
                            real: false,
                        },
                        content,
                    ));
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }

    pub(super) fn become_real(mut self, name: &CString) -> Result<(), Errno> {
        renameat(self.directory, &self.name, self.directory, name)?;
        self.real = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.real {
            let _ = unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_openat2_no_link_is_followed_either() {
        let place = camino_tempfile::tempdir().unwrap();
        let path = place.path();
        fs_err::create_dir_all(path.join("a/b")).unwrap();
        fs_err::write(path.join("a/b/file"), "x").unwrap();
        fs_err::os::unix::fs::symlink("a", path.join("link")).unwrap();
        fs_err::os::unix::fs::symlink("file", path.join("a/b/also")).unwrap();
        let top = fs_err::File::open(path).unwrap();
        let top = top.as_fd();
        let directory = OFlags::PATH | DIRECTORY;
        assert!(step_by_step(top, b".", directory).is_ok());
        assert!(step_by_step(top, b"a/b", directory).is_ok());
        assert!(step_by_step(top, b"a/b/file", OFlags::RDONLY).is_ok());
        for (bad, flags) in [
            (&b"link"[..], directory),
            (b"link/b", directory),
            (b"a/b/also", OFlags::RDONLY),
            (b"a/b/also", OFlags::PATH),
            (b"..", directory),
            (b"a/../a", directory),
        ] {
            assert!(step_by_step(top, bad, flags).is_err(), "{bad:?}");
        }
    }

    /// A directory or a link of a tree that somebody hostile made.
    #[derive(Debug, Clone)]
    enum Planted {
        Directory,
        Link(String),
    }

    fn names() -> impl Strategy<Value = String> {
        prop::sample::select(vec!["a", "b", "c", ".", ".."]).prop_map(str::to_owned)
    }

    fn paths() -> impl Strategy<Value = String> {
        prop::collection::vec(names(), 1..5).prop_map(|names| names.join("/"))
    }

    fn planted() -> impl Strategy<Value = Planted> {
        let outside = Just("OUTSIDE".to_owned());
        let target = prop_oneof![paths(), outside, Just("/".to_owned())];
        prop_oneof![Just(Planted::Directory), target.prop_map(Planted::Link)]
    }

    /// Everything in a directory, to see whether it changed.
    fn listing(path: &camino::Utf8Path) -> Vec<String> {
        let mut names: Vec<String> = fs_err::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn no_path_through_any_tree_of_links_leads_out(
            tree in prop::collection::vec((paths(), planted()), 0..8),
            asked in paths(),
            is_write in any::<bool>(),
        ) {
            let place = camino_tempfile::tempdir().unwrap();
            let (root, outside) = (place.path().join("root"), place.path().join("outside"));
            fs_err::create_dir(&root).unwrap();
            fs_err::create_dir(&outside).unwrap();
            fs_err::write(outside.join("a"), "secret").unwrap();
            for (path, planted) in tree {
                // Planted by the kernel's own rules, inside: what the tree leads out by is links.
                let path = path.replace("..", "c");
                let at = root.join(path);
                let _ = match planted {
                    Planted::Directory => fs_err::create_dir_all(&at),
                    Planted::Link(to) => {
                        let to = to.replace("OUTSIDE", outside.as_str());
                        let parent = at.parent().unwrap();
                        let is_inside = parent
                            .canonicalize_utf8()
                            .is_ok_and(|real| real.starts_with(root.canonicalize_utf8().unwrap()));
                        if !is_inside {
                            continue;
                        }
                        fs_err::os::unix::fs::symlink(to, &at)
                    }
                };
            }
            let before = (listing(place.path()), listing(&outside));
            let top = fs_err::File::open(&root).unwrap();
            let asked = asked.as_bytes();
            let real_root = root.canonicalize_utf8().unwrap();
            let opened = if is_write {
                vec![make_beneath(top.as_fd(), asked)]
            } else {
                vec![
                    beneath(top.as_fd(), asked, OFlags::RDONLY),
                    step_by_step(top.as_fd(), asked, OFlags::RDONLY),
                ]
            };
            for fd in opened.into_iter().flatten() {
                let at = rustix::fs::readlink(
                    format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd)),
                    Vec::new(),
                );
                let at = at.unwrap().into_string().unwrap();
                prop_assert!(camino::Utf8Path::new(&at).starts_with(&real_root), "{at}");
            }
            prop_assert_eq!((listing(place.path()), listing(&outside)), before);
        }
    }
}
