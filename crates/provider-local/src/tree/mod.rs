//! Work on whole trees that a hostile root may have written: by descriptor, never through a link,
//! without recursion, and within bounds.

mod copy;
mod digest;
mod remove;
mod walk;
mod xattr;

pub(crate) use copy::{copy, copy_opened};
pub(crate) use digest::digest;
pub(crate) use remove::remove;
pub(crate) use walk::{Visitor, measure, open_directory, walk};
