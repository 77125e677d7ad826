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
mod base;
mod cgroup;
mod claim;
mod disk;
pub mod doctor;
mod door;
mod egress;
mod embedded;
mod error;
mod guest;
mod home;
mod image;
mod inspect;
mod intent;
mod keeper;
mod layer;
mod local;
mod master;
mod merged;
mod netns;
mod operation;
mod pack;
mod record;
mod rootfs;
mod runtime;
mod snapshot;
mod subvolume;
mod sys;
mod timing;
mod trash;
mod tree;
mod usage;
mod verify;
mod way_out;

pub use crate::egress::EgressSettings;
pub use ::egress::log::{Record as EgressRecord, Verdict as EgressVerdict};
pub use ::egress::policy::{Rule as EgressRule, RuleError as EgressRuleError};
pub use api::{
    Collected, Damaged, Details, Duplicate, Duplicates, Exported, LayerUsage, SnapshotInfo,
    SnapshotUsage, Usage, UsagePart, Verified,
};
pub use base::{Built, Flavour, Part};
pub use cgroup::{Controller, Layout};
pub use doctor::{Finding, FindingStatus, Fix};
pub use image::Moved;
pub use local::{Config, Local};
pub use provider::Edge;
pub use wire::keeper::EGRESS_PORT;
