//! A tar, hostile until read to its end: nothing is written outside the layer, no device is made,
//! no limit is passed, and an archive that tries is refused whole.

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt as _;

use camino::Utf8Path;
use portable::tar::Limits;
use portable::{Control, Rules};
use provider::ProviderError;
use rustix::fs::{CWD, Mode, mkdirat};

use crate::error::Doing as _;
use crate::tree;

/// Far above what a root file system has, and far below what would hurt: a bomb ends here, or when
/// the disk is nearly full.
const LIMITS: Limits = Limits {
    entries: 5_000_000,
    path: 4096,
    depth: 256,
    extension: 1 << 20,
    bytes: 1 << 40,
};
/// The kernel's own archives and `zstd --long` ask for no more.
const MAX_WINDOW_LOG: u32 = 27;

pub(super) fn fingerprint(path: &Utf8Path, metadata: &Metadata) -> Result<String, ProviderError> {
    if !metadata.is_file() {
        return Err(ProviderError::refused(format!(
            "{path} is neither a directory nor a tar"
        )));
    }
    let canonical = path.canonicalize_utf8().doing(format!("reading {path}"))?;
    Ok(format!(
        "{canonical} {} {} {}.{}",
        metadata.ino(),
        metadata.len(),
        metadata.ctime(),
        metadata.ctime_nsec()
    ))
}

pub(super) fn fill(path: &Utf8Path, place: &Utf8Path) -> Result<(), ProviderError> {
    let file = File::open(path).doing(format!("reading {path}"))?;
    mkdirat(CWD, place.as_std_path(), Mode::from(0o700)).doing("making the layer")?;
    rustix::fs::chmod(place.as_std_path(), Mode::from(0o755)).doing("making the layer")?;
    let root = tree::open_directory(CWD, place.as_std_path()).doing("making the layer")?;
    let reader =
        decompress(BufReader::with_capacity(256 << 10, file)).doing(format!("reading {path}"))?;
    let rules = Rules::RootFileSystem;
    let control = Control::default();
    portable::unpack(reader, root, rules, LIMITS, &control, &mut ()).map_err(
        |error| match error.kind() {
            io::ErrorKind::InvalidData
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::Other
            | io::ErrorKind::InvalidInput => ProviderError::refused(format!(
                "{path} cannot be used as a root file system: {error}"
            )),
            _ => Err::<(), _>(error)
                .doing(format!("unpacking {path}"))
                .expect_err("made from an error"),
        },
    )?;
    check_root(place, path)
}

/// Something must be there to run, and what every sandbox has must have its place.
pub(super) fn check_root(place: &Utf8Path, from: &Utf8Path) -> Result<(), ProviderError> {
    for name in ["proc", "sys", "dev", "run"] {
        let wrong = std::fs::symlink_metadata(place.join(name)).is_ok_and(|found| !found.is_dir());
        if wrong {
            return Err(ProviderError::refused(format!(
                "{from} cannot be used as a root file system: its /{name} is not a directory"
            )));
        }
    }
    let mut entries = std::fs::read_dir(place).doing(format!("reading {place}"))?;
    if entries.next().is_none() {
        return Err(ProviderError::refused(format!(
            "{from} is empty: it holds no root file system"
        )));
    }
    Ok(())
}

/// By its first bytes, not by its name.
fn decompress(mut reader: BufReader<File>) -> io::Result<Box<dyn BufRead>> {
    let start = io::BufRead::fill_buf(&mut reader)?;
    if start.starts_with(&[0x1f, 0x8b]) {
        let decoder = flate2::bufread::MultiGzDecoder::new(reader);
        return Ok(Box::new(BufReader::with_capacity(256 << 10, decoder)));
    }
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(reader)?;
        decoder.window_log_max(MAX_WINDOW_LOG)?;
        return Ok(Box::new(BufReader::with_capacity(256 << 10, decoder)));
    }
    if start.starts_with(b"\xfd7zXZ") {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "xz is not read: unpack it with `xz -d` first",
        ));
    }
    Ok(Box::new(reader))
}
