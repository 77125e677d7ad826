//! The nouns of Nacre: ids, time, sizes, secrets; what a session is at and what it starts from.
//!
//! Everything here is pure: no files, no network, no tasks. Time and randomness come in through
//! [`Clock`] and [`Id::new`], so that a test can be exact. Every other crate rests on this one.
//!
//! ```
//! use nacre_model::{ByteCount, Clock, Id, Sandbox, SystemClock};
//!
//! let id: Id<Sandbox> = Id::new(&SystemClock);
//! assert!(id.to_string().starts_with("sbx_"));
//! assert_eq!("2G".parse::<ByteCount>().unwrap().bytes(), 2 << 30);
//! ```

#![forbid(unsafe_code)]

mod bytes;
mod clock;
pub mod failpoint;
mod id;
mod origin;
mod secret;
pub mod session;
mod snapshot;

pub use bytes::{ByteCount, ByteCountError};
pub use clock::{Clock, ManualClock, SystemClock};
pub use id::{
    Action, Audit, Boot, Evidence, Id, IdError, Job, Kind, Organisation, Prompt, Repository,
    Sandbox, Sealed, Session, Share, Snapshot, Token, Upload, Usage, User,
};
pub use jiff::{SignedDuration, Timestamp};
pub use origin::{Candidates, Origin, Prebuilt};
pub use secret::{Redactor, Secret};
pub use snapshot::{SnapshotId, SnapshotIdError, SnapshotKind};
