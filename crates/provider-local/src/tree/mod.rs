//! Work on whole trees that a hostile root may have written: by descriptor, never through a link,
//! without recursion, and within bounds.

mod copy;
mod digest;
mod manifest;
mod remove;
mod walk;
mod xattr;

pub(crate) use copy::{copy, copy_opened};
pub(crate) use digest::{Content, Contents, digest, is_kept};
pub(crate) use manifest::{Manifest, ReadFrom};
pub(crate) use remove::remove;
pub(crate) use walk::{Measure, Visitor, list, measure, open_directory, walk};
pub(crate) use xattr::{mark, portable};
