//! A layer as a tar in OCI form: what it adds and changes, and whiteouts for what it hides.
//!
//! Most layers are written from their own tree. One in which a directory of a lower layer was
//! renamed says so by a redirect, which that form has no word for: it is written as the difference
//! between the stack with it and the stack without it.

mod compared;
mod entry;
mod hash;
mod own;

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use portable::tar::Writer;
use portable::{Frames, Packing, Target};
use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

use crate::home::Home;
use crate::layer::LayerId;
use crate::tree::Visitor;
use crate::{merged, tree};

pub(crate) use hash::Hashing;

/// How a layer is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    /// Nothing is below, so nothing is hidden.
    Lowest,
    Own,
    /// Against these, the topmost first.
    Compared {
        below: Vec<LayerId>,
    },
}

impl Form {
    /// The form that a layer needs over those below it.
    pub(crate) fn choose(home: &Home, id: &LayerId, below: &[LayerId]) -> io::Result<Self> {
        if below.is_empty() {
            Ok(Self::Lowest)
        } else if has_redirects(home, id)? {
            Ok(Self::Compared {
                below: below.to_vec(),
            })
        } else {
            Ok(Self::Own)
        }
    }
}

/// Sends one layer to the target.
pub(crate) fn layer(
    home: &Home,
    id: &LayerId,
    form: &Form,
    target: &mut dyn Target,
    packing: Packing,
    control: &portable::Control,
) -> io::Result<portable::Layer> {
    portable::pack(
        target,
        packing,
        control,
        |writer: &mut Writer<Frames<'_>>| match form {
            Form::Lowest | Form::Own => {
                let top = merged::open(home, std::slice::from_ref(id))?;
                own::write(top, writer, *form == Form::Lowest)
            }
            Form::Compared { below } => {
                let with: Vec<LayerId> = std::iter::once(id).chain(below).cloned().collect();
                compared::write(
                    merged::open(home, &with)?,
                    merged::open(home, below)?,
                    writer,
                )
            }
        },
    )
}

/// Whether the overlay noted something in this layer that only it can read: a renamed directory of
/// a lower layer, or whiteouts of the second kind.
fn has_redirects(home: &Home, id: &LayerId) -> io::Result<bool> {
    struct Look(bool);
    impl Visitor for Look {
        fn entry(
            &mut self,
            parent: &OwnedFd,
            name: &CStr,
            _: &[u8],
            stat: &Stat,
        ) -> io::Result<bool> {
            if self.0 || FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                return Ok(false);
            }
            let directory = tree::open_directory(parent, name)?;
            self.0 = tree::mark(&directory, c"trusted.overlay.redirect")?.is_some()
                || tree::mark(&directory, c"trusted.overlay.opaque")?
                    .is_some_and(|value| value == b"x");
            Ok(!self.0)
        }
    }
    let mut look = Look(false);
    tree::walk(merged::open(home, std::slice::from_ref(id))?, &mut look)?;
    Ok(look.0)
}
