//! Snapshots that move between machines: what they look like on the way, and where they are kept.
//!
//! A snapshot is an [`Index`] and the blobs that it names. Each layer is a tar in OCI layer form,
//! cut into blobs of at most [`index::BLOB_SIZE`] bytes; each blob is a zstd frame of its own, named by
//! its SHA-256. `docs/portable-snapshots.md` says it in full. The local provider writes layers with
//! [`tar::Writer`] through [`pack`], and reads them back through [`stream`] with [`unpack`], which
//! trusts nothing that it reads.
//!
//! ```text
//! tree ─► tar::Writer ─► pack (frames, zstd, SHA-256) ─► Target: a file, a directory, S3
//! tree ◄─ unpack ◄────── stream (SHA-256, zstd) ◄─────── Source: the same
//! ```

mod control;
pub mod index;
mod pack;
pub mod place;
mod stream;
pub mod tar;
mod unpack;

pub use control::Control;
pub use index::{Blob, Index, Layer};
pub use pack::{Frames, Packing, pack};
pub use place::{Place, Source, Target};
pub use stream::{Frame, Stream, stream};
pub use unpack::{Contents, Rules, Unpacked, is_portable, unpack};

use std::io;

/// What was read is not what it should be; reading it again will not help.
pub(crate) fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

/// The beginning of a name from an archive, for a message to a person.
pub(crate) fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(80)]).into_owned()
}
