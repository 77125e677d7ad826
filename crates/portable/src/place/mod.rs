//! Where snapshots are kept on their way: one file, a directory, or an S3-compatible store.
//!
//! A directory and a store have the same layout, and hold any number of snapshots: `blobs/sha256/…`
//! are blobs, `snapshots/ID.json` are indexes, written last. A blob that is there is never sent
//! again, so an export that was cut off goes on where it was, and snapshots that share layers share
//! blobs.

mod aside;
mod directory;
mod file;
#[cfg(feature = "s3")]
pub mod s3;

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

pub use directory::{ReadDirectory, WriteDirectory};
pub use file::{ReadFile, WriteFile};

use crate::{Blob, Index, invalid};

/// What an export writes to.
pub trait Target: Send {
    /// Whether this blob need not be sent.
    fn has(&mut self, blob: &Blob) -> io::Result<bool>;
    /// Takes a blob, unless it is there already.
    fn put(&mut self, blob: &Blob, bytes: Vec<u8>) -> io::Result<()>;
    /// Makes the snapshot visible, once everything it names is safe.
    fn finish(&mut self, index: &Index) -> io::Result<()>;
    /// Notes blobs that were asked for with [`Self::has`] and need not be sent.
    fn found(&mut self, blobs: u64);
    fn sent(&self) -> Sent;
}

/// What an import reads from.
pub trait Source: Send {
    fn index(&mut self) -> io::Result<Index>;
    /// Calls `each` with every blob in order, until it says that it is enough.
    fn get_all(
        &mut self,
        blobs: &[Blob],
        each: &mut dyn FnMut(&Blob, &[u8]) -> io::Result<bool>,
    ) -> io::Result<()>;
}

/// What an export cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Sent {
    pub blobs: u64,
    pub bytes: u64,
    /// Blobs that were there already.
    pub found: u64,
}

/// A place as a person names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    File(Utf8PathBuf),
    /// Written with a slash at its end, or a directory already.
    Directory(Utf8PathBuf),
    /// `s3://BUCKET/PREFIX`.
    S3 {
        bucket: String,
        prefix: String,
    },
}

impl Place {
    pub fn parse(text: &str) -> io::Result<Self> {
        if let Some(rest) = text.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() {
                return Err(invalid(format!("`{text}` names no bucket")));
            }
            return Ok(Self::S3 {
                bucket: bucket.to_owned(),
                prefix: prefix.trim_matches('/').to_owned(),
            });
        }
        if text.is_empty() {
            return Err(invalid("the name of a place is empty"));
        }
        let path = Utf8Path::new(text);
        if text.ends_with('/') || path.is_dir() {
            return Ok(Self::Directory(path.to_owned()));
        }
        Ok(Self::File(path.to_owned()))
    }
}

fn blob_path(blob: &Blob) -> String {
    format!("blobs/sha256/{}", blob.sha256)
}

/// Among the snapshots of a place, the one that is meant: by id, by name, or the only one.
fn choose(found: Vec<Index>, wanted: Option<&str>) -> io::Result<Index> {
    let fits = |index: &Index| match wanted {
        None => true,
        Some(text) => {
            index.snapshot.to_string() == text
                || index.snapshot.id.to_string() == text
                || index.name.as_deref() == Some(text)
        }
    };
    let mut fitting: Vec<Index> = found.into_iter().filter(fits).collect();
    match (fitting.pop(), fitting.is_empty()) {
        (Some(index), true) => Ok(index),
        (None, _) => Err(io::Error::new(
            io::ErrorKind::NotFound,
            wanted.map_or_else(
                || "there is no snapshot in it".to_owned(),
                |text| format!("there is no snapshot `{text}` in it"),
            ),
        )),
        (Some(last), false) => {
            let names: Vec<String> = fitting
                .iter()
                .chain([&last])
                .map(|index| index.snapshot.id.to_string())
                .collect();
            Err(invalid(format!(
                "there are several snapshots in it: say which with --snapshot: {}",
                names.join(", ")
            )))
        }
    }
}
