//! Where everything is kept, and the locks that let several nacre processes share it.
//!
//! ```text
//! NACRE_HOME/
//!   sandboxes/ID/  record.json · disk/{upper,work} · keeper.sock · guest.sock · …
//!   layers/ID/     fs/ · layer.json (written last: without it a layer is not one) · manifest (what
//!                  it was when it was first read) · portable.json (what it was when last sent)
//!   snapshots/ID.json
//!   intents/       one locked file for each operation under way; unlocked ones were left by a crash
//!   ranges/ names/ keys/   claims: one file each, made exclusively
//!   trash/         what is being deleted
//!   aside/         files that are being written; each gets its place by one rename
//!   bin/HASH/      keeper and runner of this build
//! ```

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use provider::{ProviderError, SandboxId};
use rustix::fs::{FlockOperation, IFlags, flock, ioctl_getflags, ioctl_setflags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Doing as _;

pub(crate) const DIRECTORIES: [&str; 11] = [
    "sandboxes",
    "layers",
    "snapshots",
    "intents",
    "ranges",
    "names",
    "keys",
    "trash",
    "bin",
    "run",
    "aside",
];

/// How long one nacre process waits for another that works on the same thing.
const LOCK_PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone)]
pub(crate) struct Home {
    root: Utf8PathBuf,
    /// Everyone who uses the home shares this; whoever moves it wants it alone.
    _shared: Option<Arc<Lock>>,
}

impl Home {
    pub(crate) fn open(root: &Utf8Path) -> Result<Self, ProviderError> {
        if !root.is_absolute() {
            return Err(ProviderError::refused(format!(
                "NACRE_HOME must be an absolute path, not `{root}`"
            )));
        }
        let opening = || format!("opening the home {root}");
        make(root).doing(opening())?;
        let shared = Lock::wait(
            File::open(root).doing(opening())?,
            FlockOperation::NonBlockingLockShared,
            "the home",
        )?;
        let root = &crate::image::attach(root)?;
        let home = Self {
            root: root.clone(),
            _shared: Some(Arc::new(shared)),
        };
        home.make_directories()?;
        let metadata = fs::metadata(root).doing(opening())?;
        // Layers hold set-uid files that a hostile root wrote: nobody but us may reach them.
        if metadata.mode() & 0o077 != 0 {
            rustix::fs::chmod(root.as_std_path(), 0o700.into()).doing(opening())?;
        }
        Ok(home)
    }

    /// A home as it lies there, opened by nobody: for whoever moves it.
    pub(crate) fn at(root: &Utf8Path) -> Self {
        Self {
            root: root.to_owned(),
            _shared: None,
        }
    }

    /// Keeps every other nacre process out, or says that one is in.
    pub(crate) fn own(root: &Utf8Path) -> Result<Lock, ProviderError> {
        let file = File::open(root).doing(format!("opening the home {root}"))?;
        Lock::exclusive(file, "the home to be unused")
    }

    pub(crate) fn make_directories(&self) -> Result<(), ProviderError> {
        for name in DIRECTORIES {
            make(&self.path(name)).doing(format!("opening the home {}", self.root))?;
        }
        for name in ["sandboxes", "layers"] {
            spread(&self.path(name));
        }
        Ok(())
    }

    /// Writes everything back.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(&self.root)?)?)
    }

    pub(crate) fn root(&self) -> &Utf8Path {
        &self.root
    }

    pub(crate) fn path(&self, relative: impl AsRef<str>) -> Utf8PathBuf {
        self.root.join(relative.as_ref())
    }

    pub(crate) fn sandbox(&self, id: SandboxId) -> Utf8PathBuf {
        self.root.join("sandboxes").join(id.to_string())
    }

    /// The one way to work on an existing sandbox: its directory, locked.
    pub(crate) fn lock_sandbox(&self, id: SandboxId) -> Result<Lock, ProviderError> {
        let path = self.sandbox(id);
        let not_found = || ProviderError::not_found(format!("sandbox {id}"));
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_found()),
            other => other.doing(format!("opening sandbox {id}"))?,
        };
        let lock = Lock::wait(
            file,
            FlockOperation::NonBlockingLockExclusive,
            &format!("sandbox {id}"),
        )?;
        // It may have been removed while we waited; then this directory is not there any more.
        if lock.is_at(&path) {
            Ok(lock)
        } else {
            Err(not_found())
        }
    }

    /// Held while a stack of layers is read and named in a record, so that no collector comes
    /// between.
    pub(crate) fn share_layers(&self) -> Result<Lock, ProviderError> {
        self.lock_layers(FlockOperation::NonBlockingLockShared)
    }

    /// Held while it is decided that nobody names a layer.
    pub(crate) fn own_layers(&self) -> Result<Lock, ProviderError> {
        self.lock_layers(FlockOperation::NonBlockingLockExclusive)
    }

    /// Held while a snapshot's record is changed or removed: a digest that took long must not
    /// bring back a record that was removed meanwhile.
    pub(crate) fn own_snapshots(&self) -> Result<Lock, ProviderError> {
        let file = File::open(self.path("snapshots")).doing("opening the snapshots")?;
        Lock::wait(
            file,
            FlockOperation::NonBlockingLockExclusive,
            "the snapshots",
        )
    }

    /// Held by whoever computes digests in the background; `None` when somebody does already.
    pub(crate) fn try_digests(&self) -> Result<Option<Lock>, ProviderError> {
        let file =
            File::create(self.path("run/digests.lock")).doing("opening the digests' lock")?;
        Ok(Lock::try_file(file))
    }

    /// Held by whoever builds a base; `None` when somebody builds the same one already.
    pub(crate) fn try_base(&self, version: &str) -> Result<Option<Lock>, ProviderError> {
        let path = self.path(format!("run/{version}.lock"));
        let file = File::create(path).doing("opening the base's lock")?;
        Ok(Lock::try_file(file))
    }

    fn lock_layers(&self, operation: FlockOperation) -> Result<Lock, ProviderError> {
        let file = File::open(self.path("layers")).doing("opening the layers")?;
        Lock::wait(file, operation, "the layer store")
    }
}

fn make(path: &Utf8Path) -> io::Result<()> {
    match std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
    {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Asks ext4 to place each new directory below this one in a part of the disk of its own. Left
/// alone it puts them all in one, where it steps over every file deleted in the last minutes to find
/// room for a new one: after much coming and going that takes a millisecond a file. Other file
/// systems do not know the flag and do not need it.
fn spread(directory: &Utf8Path) {
    if let Ok(file) = File::open(directory)
        && let Ok(flags) = ioctl_getflags(&file)
        && !flags.contains(IFlags::TOPDIR)
    {
        let _ = ioctl_setflags(&file, flags | IFlags::TOPDIR);
    }
}

/// A lock that ends with its holder, however that ends.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    fn wait(file: File, operation: FlockOperation, what: &str) -> Result<Self, ProviderError> {
        let deadline = Instant::now() + LOCK_PATIENCE;
        let mut pause = Duration::from_micros(200);
        loop {
            match flock(&file, operation) {
                Ok(()) => return Ok(Self(file)),
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(20));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(ProviderError::unavailable(
                        format!("waiting for {what}"),
                        "another nacre process is working on it; try again when it is done",
                    ));
                }
                Err(error) => return Err(error).doing(format!("locking {what}")),
            }
        }
    }

    /// Whether the locked file is still the one at this path.
    pub(crate) fn is_at(&self, path: &Utf8Path) -> bool {
        std::fs::metadata(path).is_ok_and(|now| {
            self.0
                .metadata()
                .is_ok_and(|locked| (locked.dev(), locked.ino()) == (now.dev(), now.ino()))
        })
    }

    pub(crate) fn exclusive(file: File, what: &str) -> Result<Self, ProviderError> {
        Self::wait(file, FlockOperation::NonBlockingLockExclusive, what)
    }

    /// `None` when somebody else holds it.
    pub(crate) fn try_file(file: File) -> Option<Self> {
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .ok()
            .map(|()| Self(file))
    }
}

/// Reads a record; `None` when there is none.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Utf8Path) -> Result<Option<T>, ProviderError> {
    let mut text = Vec::new();
    match File::open(path).and_then(|mut file| file.read_to_end(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).doing(format!("reading {path}")),
    }
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|error| ProviderError::unavailable(format!("reading {path}"), error))
}

/// Replaces a record in one step: a reader sees the old one or the new one, whole.
pub(crate) fn write_json(
    home: &Home,
    path: &Utf8Path,
    value: &impl Serialize,
) -> Result<(), ProviderError> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|e| ProviderError::unavailable("writing a record", e))?;
    write_text(home, path, &json)
}

pub(crate) fn write_text(home: &Home, path: &Utf8Path, text: &str) -> Result<(), ProviderError> {
    let (aside, file) = aside(home, text).doing(format!("writing {path}"))?;
    drop(file);
    fs_err::rename(&aside, path)
        .inspect_err(|_| {
            let _ = fs_err::remove_file(&aside);
        })
        .doing(format!("writing {path}"))
}

/// A file that has its content but not yet its place. Named by the thread that writes it, so that
/// those of the dead can be told.
pub(crate) fn aside(home: &Home, text: &str) -> io::Result<(Utf8PathBuf, File)> {
    let path = home.path(format!(
        "aside/{}",
        rustix::thread::gettid().as_raw_nonzero()
    ));
    let write = || {
        // Left by a dead thread of our number, it may have got a second name by now: never write
        // through it.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(text.as_bytes())?;
        Ok(file)
    };
    match write() {
        Ok(file) => Ok((path, file)),
        Err(error) => {
            let _ = fs_err::remove_file(&path);
            Err(error)
        }
    }
}

/// Removes what threads that died left aside. A number that somebody else has by now does not keep
/// a file for ever: no thread takes this long between writing one and giving it its place.
pub(crate) fn tidy(home: &Home) -> Result<(), ProviderError> {
    const LONGEST_WRITE: Duration = Duration::from_secs(10);
    for name in entries(&home.path("aside"))? {
        let path = home.path(format!("aside/{name}"));
        let alive = Utf8Path::new("/proc").join(&name).exists();
        let age = std::fs::metadata(&path)
            .and_then(|found| found.modified())
            .ok()
            .and_then(|written| written.elapsed().ok());
        if !alive || age.is_some_and(|age| age > LONGEST_WRITE) {
            let _ = std::fs::remove_file(path);
        }
    }
    Ok(())
}

/// Names of the entries of a directory, sorted.
pub(crate) fn entries(path: &Utf8Path) -> Result<Vec<String>, ProviderError> {
    let mut names: Vec<String> = fs::read_dir(path)
        .doing(format!("listing {path}"))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}
