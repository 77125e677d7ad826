//! Tar as we write it, and as others might: <https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html>.

mod pax;
mod read;
mod sparse;
mod write;

pub(crate) use read::clean_link;
pub use read::{Entry, Kind, Limits, Reader};
pub use sparse::Extent;
pub(crate) use write::read_at;
pub use write::{Head, Sink, Writer};

pub(crate) const BLOCK: usize = 512;
/// The prefix by which OCI layers say that something is gone.
pub const WHITEOUT: &[u8] = b".wh.";
/// Everything that lower layers have in this directory is gone.
pub const OPAQUE: &[u8] = b".wh..wh..opq";
/// A PAX record of ours: the name begins as a whiteout's would, but is a name.
pub(crate) const LITERAL: &[u8] = b"NACRE.literal";
pub(crate) const XATTR: &[u8] = b"SCHILY.xattr.";

pub(crate) fn padding(size: u64) -> usize {
    const BLOCK: u64 = super::tar::BLOCK as u64;
    usize::try_from((BLOCK - size % BLOCK) % BLOCK).expect("less than a block")
}
