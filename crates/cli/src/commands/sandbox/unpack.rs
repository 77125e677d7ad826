//! Writes what a sandbox sends onto the host. The sandbox may be hostile, so its entries are only
//! ever resolved beneath one directory and through no symbolic link, whoever made it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use provider::{FileEntry, FileEvent, FileKind};
use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;

/// Writes one tree, called `name`, into `directory`.
#[derive(Debug)]
pub(crate) struct Unpacker {
    directory: OwnedFd,
    name: PathBuf,
    /// The file whose data is arriving.
    open: Option<Unfinished>,
    /// Entries come sorted by directory, so that the last one is mostly the next one.
    last_parent: Option<(PathBuf, OwnedFd)>,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// A file under another name until all of it is there. What is at its own name is replaced, never
/// opened: it may be a link or a pipe.
#[derive(Debug)]
struct Unfinished {
    parent: OwnedFd,
    shown: PathBuf,
    name: PathBuf,
    file: File,
    finished: bool,
}

/// The name something has until it is whole. One at a time is under way, and a leftover is ours.
fn unfinished_name() -> String {
    format!(".nacre-cp-{}", std::process::id())
}

impl Unpacker {
    /// `directory` is the user's own choice and is opened as any path is; `name` is one component.
    /// An empty name stands for the directory itself.
    pub(crate) fn below(directory: &Path, name: &OsStr) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(rustix::fs::CWD, directory, flags, Mode::empty())
            .map_err(io::Error::from)
            .with_context(|| format!("cannot open the directory {}", directory.display()))?;
        Ok(Self {
            directory,
            name: PathBuf::from(name),
            open: None,
            last_parent: None,
            files: 0,
            bytes: 0,
        })
    }

    pub(crate) fn take(&mut self, event: FileEvent) -> Result<()> {
        match event {
            FileEvent::Entry(entry) => {
                self.finish_file()?;
                self.entry(&entry)
            }
            FileEvent::Data(data) => {
                let Some(open) = &mut self.open else {
                    bail!("the sandbox sent data that belongs to no file");
                };
                open.file
                    .write_all(&data)
                    .with_context(|| format!("cannot write {}", open.shown.display()))?;
                self.bytes += data.len() as u64;
                Ok(())
            }
        }
    }

    pub(crate) fn finish(mut self) -> Result<(u64, u64)> {
        self.finish_file()?;
        Ok((self.files, self.bytes))
    }

    fn entry(&mut self, entry: &FileEntry) -> Result<()> {
        let path = self.place(&entry.path)?;
        // The directory that the user named is there already, with a mode of its own.
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(());
        };
        let (parent, name) = (self.parent(parent)?, Path::new(name));
        let shown = || format!("cannot write {}", path.display());
        // Ownership stays ours, and setuid, setgid and sticky mean nothing good here.
        let mode = entry.mode & 0o777;
        match &entry.kind {
            FileKind::Directory => {
                // Without these the rest of the tree could not be written.
                let mode = Mode::from_raw_mode(mode | 0o700);
                match mkdirat(&parent, name, mode) {
                    Ok(()) => {}
                    Err(Errno::EXIST) => {
                        beneath(&parent, name)
                            .with_context(|| format!("{} is in the way", path.display()))?;
                    }
                    Err(error) => return Err(io::Error::from(error)).with_context(shown),
                }
            }
            FileKind::Symlink { target } => {
                let aside = unfinished_name();
                let _ = unlinkat(&parent, &aside, AtFlags::empty());
                symlinkat(OsStr::from_bytes(target), &parent, &aside)
                    .map_err(io::Error::from)
                    .with_context(shown)?;
                if let Err(error) = renameat(&parent, &aside, &parent, name) {
                    let _ = unlinkat(&parent, &aside, AtFlags::empty());
                    return Err(io::Error::from(error)).with_context(shown);
                }
            }
            FileKind::File => {
                let aside = unfinished_name();
                let _ = unlinkat(&parent, &aside, AtFlags::empty());
                let flags = OFlags::WRONLY
                    | OFlags::CREATE
                    | OFlags::EXCL
                    | OFlags::NOFOLLOW
                    | OFlags::CLOEXEC;
                let file = openat(&parent, &aside, flags, Mode::from_raw_mode(mode))
                    .map_err(io::Error::from)
                    .with_context(shown)?;
                self.open = Some(Unfinished {
                    parent,
                    name: name.to_owned(),
                    shown: path,
                    file: File::from(file),
                    finished: false,
                });
            }
        }
        Ok(())
    }

    fn finish_file(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        renameat(&open.parent, unfinished_name(), &open.parent, &open.name)
            .map_err(io::Error::from)
            .with_context(|| format!("cannot write {}", open.shown.display()))?;
        open.finished = true;
        self.files += 1;
        Ok(())
    }

    /// Where an entry goes, relative to the directory.
    fn place(&self, path: &[u8]) -> Result<PathBuf> {
        let mut place = self.name.clone();
        if path.is_empty() {
            return Ok(place);
        }
        for component in path.split(|byte| *byte == b'/') {
            if matches!(component, b"" | b"." | b"..") || component.contains(&0) {
                bail!(
                    "the sandbox sent a path that leads elsewhere: {}",
                    String::from_utf8_lossy(path)
                );
            }
            place.push(OsStr::from_bytes(component));
        }
        Ok(place)
    }

    fn parent(&mut self, path: &Path) -> Result<OwnedFd> {
        if let Some((last, fd)) = &self.last_parent
            && last == path
        {
            return Ok(fd.try_clone()?);
        }
        let fd = if path.as_os_str().is_empty() {
            self.directory.try_clone()?
        } else {
            beneath(self.directory.as_fd(), path)
                .with_context(|| format!("cannot open the directory {}", path.display()))?
        };
        self.last_parent = Some((path.to_owned(), fd.try_clone()?));
        Ok(fd)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.finished {
            let _ = unlinkat(&self.parent, unfinished_name(), AtFlags::empty());
        }
    }
}

fn beneath(directory: impl std::os::fd::AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(directory, path, flags, Mode::empty(), resolve)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use bytes::Bytes;

    use super::*;

    fn entry(path: &str, kind: FileKind, mode: u32) -> FileEvent {
        FileEvent::Entry(FileEntry {
            path: path.into(),
            kind,
            mode,
            uid: Some(0),
            gid: Some(0),
        })
    }

    fn file(path: &str) -> FileEvent {
        entry(path, FileKind::File, 0o644)
    }

    fn directory(path: &str) -> FileEvent {
        entry(path, FileKind::Directory, 0o755)
    }

    fn link(path: &str, target: &str) -> FileEvent {
        entry(
            path,
            FileKind::Symlink {
                target: target.into(),
            },
            0o777,
        )
    }

    fn data(text: &str) -> FileEvent {
        FileEvent::Data(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// A directory to unpack into, and one beside it that nothing may reach.
    struct Place {
        root: camino_tempfile::Utf8TempDir,
    }

    impl Place {
        fn new() -> Self {
            let root = camino_tempfile::tempdir().unwrap();
            fs_err::create_dir(root.path().join("into")).unwrap();
            fs_err::create_dir(root.path().join("outside")).unwrap();
            Self { root }
        }

        fn unpack(&self, events: Vec<FileEvent>) -> Result<(u64, u64)> {
            let mut unpacker = Unpacker::below(
                self.root.path().join("into").as_std_path(),
                OsStr::new("tree"),
            )?;
            for event in events {
                unpacker.take(event)?;
            }
            unpacker.finish()
        }

        fn outside_is_empty(&self) -> bool {
            fs_err::read_dir(self.root.path().join("outside"))
                .unwrap()
                .next()
                .is_none()
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<String> = fs_err::read_dir(self.root.path().join("into"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }
    }

    #[test]
    fn a_tree_arrives_as_it_was_sent() {
        let place = Place::new();
        let counted = place.unpack(vec![
            directory(""),
            directory("sub"),
            file("sub/a"),
            data("one "),
            data("two"),
            entry("run", FileKind::File, 0o4755),
            link("l", "sub/a"),
        ]);
        assert_eq!(counted.unwrap(), (2, 7));
        let tree = place.root.path().join("into/tree");
        assert_eq!(
            fs_err::read_to_string(tree.join("sub/a")).unwrap(),
            "one two"
        );
        assert_eq!(
            fs_err::metadata(tree.join("run"))
                .unwrap()
                .permissions()
                .mode()
                & 0o7777,
            0o755
        );
        assert_eq!(
            fs_err::read_link(tree.join("l")).unwrap(),
            Path::new("sub/a")
        );
        assert_eq!(place.names(), ["tree"]);
    }

    #[test]
    fn a_link_that_the_stream_made_is_not_followed() {
        for target in ["../../outside", "/tmp"] {
            let place = Place::new();
            let sent = vec![directory(""), link("l", target), file("l/x"), data("bad")];
            assert!(place.unpack(sent).is_err());
            assert!(place.outside_is_empty());
        }
    }

    #[test]
    fn a_link_as_the_tree_itself_is_not_followed() {
        let place = Place::new();
        assert!(
            place
                .unpack(vec![link("", "../outside"), directory(""), file("x")])
                .is_err()
        );
        assert!(place.outside_is_empty());
    }

    #[test]
    fn a_link_that_was_there_before_is_replaced_and_not_written_through() {
        let place = Place::new();
        let victim = place.root.path().join("victim");
        fs_err::write(&victim, "mine").unwrap();
        fs_err::os::unix::fs::symlink(&victim, place.root.path().join("into/tree")).unwrap();
        place.unpack(vec![file(""), data("theirs")]).unwrap();
        assert_eq!(fs_err::read_to_string(&victim).unwrap(), "mine");
        assert_eq!(
            fs_err::read_to_string(place.root.path().join("into/tree")).unwrap(),
            "theirs"
        );
    }

    /// Somebody swaps a directory of ours for a link while we write into it.
    #[test]
    fn a_directory_that_turns_into_a_link_meanwhile_is_not_followed() {
        let place = Place::new();
        let (tree, outside) = (
            place.root.path().join("into/tree"),
            place.root.path().join("outside"),
        );
        fs_err::create_dir_all(tree.join("sub")).unwrap();
        fs_err::os::unix::fs::symlink(&outside, tree.join("trap")).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (mut written, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = rustix::fs::renameat_with(
                        rustix::fs::CWD,
                        tree.join("sub").as_std_path(),
                        rustix::fs::CWD,
                        tree.join("trap").as_std_path(),
                        rustix::fs::RenameFlags::EXCHANGE,
                    );
                }
            });
            for round in 0..4000 {
                let name = format!("sub/{}", round % 7);
                match place.unpack(vec![
                    directory(""),
                    directory("sub"),
                    file(&name),
                    data("x"),
                ]) {
                    Ok(_) => written += 1,
                    Err(_) => refused += 1,
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert!(place.outside_is_empty());
        assert!(
            written > 0 && refused > 0,
            "{written} written, {refused} refused"
        );
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for path in ["../x", "a/../../x", "/etc/x", "a//b", ".", "a/.", "x\0y"] {
            let place = Place::new();
            assert!(
                place
                    .unpack(vec![directory(""), directory("a"), file(path)])
                    .is_err(),
                "{path:?}"
            );
            assert!(place.outside_is_empty());
        }
    }

    #[test]
    fn data_without_a_file_is_refused() {
        let place = Place::new();
        assert!(place.unpack(vec![data("x")]).is_err());
        assert!(place.unpack(vec![directory(""), data("x")]).is_err());
    }

    #[test]
    fn a_file_that_did_not_end_leaves_nothing() {
        let place = Place::new();
        let mut unpacker = Unpacker::below(
            place.root.path().join("into").as_std_path(),
            OsStr::new("tree"),
        )
        .unwrap();
        unpacker.take(file("")).unwrap();
        unpacker.take(data("half")).unwrap();
        drop(unpacker);
        assert!(place.names().is_empty());
    }
}
