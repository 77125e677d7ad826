//! Sandboxes on this machine: namespaces, id-mapped overlay layers, cgroups, one keeper each.
//!
//! [`Local`] implements [`provider::Provider`]; what the command line asks beyond that is on it
//! too. It keeps nothing in memory but caches: any number of nacre processes may share one home,
//! and killing all of them leaves the sandboxes running.
//!
//! ```text
//! Local ── operation::* ──► home (records, claims, intents, layers)
//!   │            └────────► keeper ──► sandbox
//!   └── guest ───────────────────────► runner (commands, files)
//! ```

mod api;
mod cgroup;
mod claim;
pub mod doctor;
mod embedded;
mod error;
mod guest;
mod home;
mod inspect;
mod intent;
mod keeper;
mod layer;
mod local;
mod merged;
mod netns;
mod operation;
mod pack;
mod record;
mod rootfs;
mod snapshot;
mod sys;
mod timing;
mod trash;
mod tree;
mod usage;
mod verify;

pub use api::{
    Collected, Damaged, Details, Duplicate, Duplicates, Exported, LayerUsage, SnapshotInfo,
    SnapshotUsage, Usage, UsagePart, Verified,
};
pub use cgroup::{Controller, Layout};
pub use doctor::{Finding, FindingStatus, Fix};
pub use local::{Config, Local};
