//! A store that lies in a btrfs of its own, inside one file.
//!
//! ```text
//! NACRE_HOME/
//!   store.btrfs   the file; whoever opens the home mounts it if it is not mounted
//!   store/        where: the home's directories are below it
//!   store.new     one that is being filled; without a lock on it, somebody died doing that
//! ```
//!
//! The move is one rename, of `store.new` to `store.btrfs`: before it the old directories are the
//! store, after it they are rubbish.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use model::ByteCount;
use provider::{ProviderError, SandboxState};
use rustix::mount::UnmountFlags;
use serde::Serialize;

use crate::error::Doing as _;
use crate::home::{self, Home, Lock, entries};
use crate::layer::{self, LayerId};
use crate::record::Record;
use crate::{disk, subvolume, tree};

const IMAGE: &str = "store.btrfs";
const UNFINISHED: &str = "store.new";
const PLACE: &str = "store";
/// btrfs itself wants about a hundred megabytes; less than this is not worth the trouble.
const SMALLEST: u64 = 512 << 20;

/// What a move onto btrfs did.
#[derive(Debug, Clone, Serialize)]
pub struct Moved {
    pub image: Utf8PathBuf,
    pub size_bytes: u64,
    pub layers: u64,
    pub snapshots: u64,
    pub sandboxes: u64,
    pub bytes: u64,
}

/// Where the store of a home is, mounted if it has to be.
pub(crate) fn attach(root: &Utf8Path) -> Result<Utf8PathBuf, ProviderError> {
    let image = root.join(IMAGE);
    if root.join(UNFINISHED).exists() {
        discard_unfinished(root)?;
    }
    if !image.exists() {
        return Ok(root.to_owned());
    }
    let place = root.join(PLACE);
    let attaching = || format!("mounting {image}");
    if !is_mounted(&place) {
        // Two processes that mounted one file at once would ruin it.
        let _lock = Lock::exclusive(File::open(&image).doing(attaching())?, "the store's image")?;
        if !is_mounted(&place) {
            mount(&image, &place)?;
        }
    }
    discard_old(root);
    Ok(place)
}

/// Where the store of a home is mounted, if it has one of its own and it is.
pub(crate) fn mounted(root: &Utf8Path) -> Option<Utf8PathBuf> {
    let place = root.join(PLACE);
    (root.join(IMAGE).exists() && is_mounted(&place)).then_some(place)
}

fn is_mounted(place: &Utf8Path) -> bool {
    let device = |path: &Utf8Path| std::fs::metadata(path).map(|found| found.dev()).ok();
    subvolume::possible(place) && device(place) != place.parent().and_then(device)
}

fn mount(image: &Utf8Path, place: &Utf8Path) -> Result<(), ProviderError> {
    let mounting = || format!("mounting {image}");
    match std::fs::create_dir(place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).doing(mounting());
        }
        _ => {}
    }
    let options = "loop,noatime,nosuid,nodev,discard=async";
    run(Command::new("mount")
        .args(["-t", "btrfs", "-o", options])
        .args([image, place]))
    .doing(mounting())
}

/// Runs a program of the host to its end; its own words are the error.
fn run(command: &mut Command) -> io::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => " (`nacre doctor` says how to install it)",
            _ => "",
        };
        io::Error::new(error.kind(), format!("{program}: {error}{hint}"))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program}: {}", words.trim())))
}

/// The store that somebody began to fill and did not finish.
fn discard_unfinished(root: &Utf8Path) -> Result<(), ProviderError> {
    let unfinished = root.join(UNFINISHED);
    let Ok(file) = File::open(&unfinished) else {
        return Ok(());
    };
    // Somebody is at it.
    let Some(_lock) = Lock::try_file(file) else {
        return Ok(());
    };
    let place = root.join(PLACE);
    if !root.join(IMAGE).exists() && is_mounted(&place) {
        rustix::mount::unmount(place.as_std_path(), UnmountFlags::empty())
            .doing("unmounting an unfinished store")?;
    }
    fs_err::remove_file(unfinished).doing("removing an unfinished store")
}

/// Directories from before the move. What cannot be removed now is removed another time.
fn discard_old(root: &Utf8Path) {
    if !root.join("layers").exists() && !root.join("sandboxes").exists() {
        return;
    }
    for name in home::DIRECTORIES {
        let _ = tree::remove(&root.join(name));
    }
}

/// Moves a home's store onto a btrfs of `size` bytes in a file beside it.
pub(crate) fn move_onto(
    root: &Utf8Path,
    size: ByteCount,
    progress: &dyn Fn(&str),
) -> Result<Moved, ProviderError> {
    let _alone = Home::own(root)?;
    if root.join(UNFINISHED).exists() {
        discard_unfinished(root)?;
    }
    if root.join(IMAGE).exists() || subvolume::possible(root) {
        return Err(ProviderError::refused(format!(
            "the store of {root} is on btrfs already"
        )));
    }
    let old = Home::at(root);
    require_nobody(&old)?;
    let used = tree::measure(root).doing("measuring the store")?.bytes;
    require_room(root, size.bytes(), used)?;
    let unfinished = root.join(UNFINISHED);
    let file = File::create_new(&unfinished).doing(format!("making {unfinished}"))?;
    let lock = Lock::exclusive(file, "the new store")?;
    let filled = fill(&old, &unfinished, size.bytes(), progress);
    let (new, mut moved) = match filled {
        Ok(filled) => filled,
        Err(error) => {
            drop(lock);
            discard_unfinished(root)?;
            return Err(error);
        }
    };
    model::failpoint::hit("storage.filled");
    new.sync().doing("writing the new store back")?;
    let image = root.join(IMAGE);
    fs_err::rename(&unfinished, &image).doing("putting the new store in its place")?;
    model::failpoint::hit("storage.moved");
    old.sync().doing("writing the home back")?;
    progress("removing what was moved");
    discard_old(root);
    moved.image = image;
    Ok(moved)
}

/// Processes would go on writing to where their disk was.
fn require_nobody(home: &Home) -> Result<(), ProviderError> {
    for name in entries(&home.path("sandboxes"))? {
        let Some(record) = name
            .parse()
            .ok()
            .and_then(|id| Record::find(home, id).transpose())
        else {
            continue;
        };
        let record = record?;
        if matches!(
            record.observe(home),
            SandboxState::Running
                | SandboxState::Paused {
                    kept: provider::Kept::Memory
                }
        ) {
            return Err(ProviderError::refused(format!(
                "sandbox {0} is alive: `nacre sandbox stop {0}` first; its disk is kept",
                record.id
            )));
        }
    }
    Ok(())
}

fn require_room(root: &Utf8Path, size: u64, used: u64) -> Result<(), ProviderError> {
    let wanted = SMALLEST.max(used.saturating_add(used / 4).saturating_add(256 << 20));
    if size < wanted {
        return Err(ProviderError::refused(format!(
            "the store holds {} and wants at least {}",
            ByteCount::new(used),
            ByteCount::new(wanted)
        )));
    }
    let disk = rustix::fs::statvfs(root.as_std_path()).doing("measuring the disk")?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < wanted {
        return Err(ProviderError::refused(format!(
            "both copies of the store must fit on the disk for a moment: {} are free, {} are needed",
            ByteCount::new(free),
            ByteCount::new(wanted)
        )));
    }
    Ok(())
}

/// Makes the file system and copies everything that is worth keeping, then compares.
fn fill(
    old: &Home,
    image: &Utf8Path,
    size: u64,
    progress: &dyn Fn(&str),
) -> Result<(Home, Moved), ProviderError> {
    progress("making the file system");
    rustix::fs::chmod(image.as_std_path(), 0o600.into()).doing("making the image")?;
    File::options()
        .write(true)
        .open(image)
        .and_then(|file| file.set_len(size))
        .doing("making the image")?;
    run(Command::new("mkfs.btrfs").args(["-q", "-f"]).arg(image))
        .doing("making the file system")?;
    let place = old.path(PLACE);
    mount(image, &place)?;
    rustix::fs::chmod(place.as_std_path(), 0o700.into()).doing("making the store")?;
    subvolume::enable_quota(&place).doing("turning quotas on")?;
    let new = Home::at(&place);
    new.make_directories()?;
    let mut moved = Moved {
        image: image.to_owned(),
        size_bytes: size,
        layers: 0,
        snapshots: 0,
        sandboxes: 0,
        bytes: 0,
    };
    for name in entries(&old.path("layers"))? {
        progress(&format!("layer {name}"));
        copy(old, &new, &format!("layers/{name}"))?;
        moved.layers += 1;
    }
    for directory in ["snapshots", "ranges", "names", "keys", "run"] {
        for name in entries(&old.path(directory))? {
            copy(old, &new, &format!("{directory}/{name}"))?;
            moved.snapshots += u64::from(directory == "snapshots");
        }
    }
    for name in entries(&old.path("sandboxes"))? {
        progress(&format!("sandbox {name}"));
        move_sandbox(old, &new, &name)?;
        moved.sandboxes += 1;
    }
    model::failpoint::hit("storage.copied");
    progress("comparing");
    compare(old, &new, &mut moved)?;
    Ok((new, moved))
}

fn copy(old: &Home, new: &Home, path: &str) -> Result<(), ProviderError> {
    let (from, to) = (old.path(path), new.path(path));
    let copying = || format!("copying {path}");
    if from.is_dir() {
        tree::copy(&from, &to).doing(copying())
    } else {
        fs_err::copy(from, to).map(drop).doing(copying())
    }
}

/// Its disk becomes a subvolume; sockets stay behind, since nobody listens.
fn move_sandbox(old: &Home, new: &Home, name: &str) -> Result<(), ProviderError> {
    use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
    let moving = || format!("moving sandbox {name}");
    let base = format!("sandboxes/{name}");
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(new.path(&base))
        .doing(moving())?;
    for entry in entries(&old.path(&base))? {
        let path = format!("{base}/{entry}");
        let kind = std::fs::symlink_metadata(old.path(&path))
            .doing(moving())?
            .file_type();
        if entry == "disk" {
            let limit = name
                .parse()
                .ok()
                .and_then(|id| Record::find(old, id).ok().flatten())
                .and_then(|record| record.disk);
            disk::make(&new.path(&path), limit).doing(moving())?;
            let upper = format!("{path}/upper");
            std::fs::remove_dir(new.path(&upper)).doing(moving())?;
            copy(old, new, &upper)?;
        } else if !kind.is_socket() {
            copy(old, new, &path)?;
        }
    }
    Ok(())
}

/// Every layer and every disk is what it was.
fn compare(old: &Home, new: &Home, moved: &mut Moved) -> Result<(), ProviderError> {
    let digest = |path: &Utf8Path| {
        tree::open_directory(rustix::fs::CWD, path.as_std_path())
            .and_then(|top| tree::digest(top, &tree::Contents::new()))
            .doing(format!("reading {path}"))
    };
    let mut pairs = Vec::new();
    for name in entries(&old.path("layers"))? {
        let id = LayerId::existing(name);
        if layer::exists(old, &id) {
            pairs.push((layer::files(old, &id), layer::files(new, &id)));
        }
    }
    for name in entries(&old.path("sandboxes"))? {
        let upper = format!("sandboxes/{name}/disk/upper");
        if old.path(&upper).exists() {
            pairs.push((old.path(&upper), new.path(&upper)));
        }
    }
    for (before, after) in pairs {
        let (before_digest, after_digest) = (digest(&before)?, digest(&after)?);
        if before_digest.value != after_digest.value {
            return Err(ProviderError::unavailable(
                format!("comparing {before} with its copy"),
                "they differ; the store is where and as it was",
            ));
        }
        moved.bytes += after_digest.bytes;
    }
    Ok(())
}
