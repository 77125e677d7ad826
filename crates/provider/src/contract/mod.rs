//! The contract suite: what every provider must do, clause by clause.
//!
//! A clause is a function whose name is the sentence it proves. Each makes its own sandboxes under
//! names of its own, so that clauses run side by side, and what it made is removed when it ends,
//! whether it held or not. A provider's tests are one line:
//!
//! ```ignore
//! provider::contract_suite!(MyHarness::new().await);
//! ```

pub mod capabilities;
pub mod doors;
pub mod exec;
pub mod files;
pub mod fork;
mod host;
pub mod labels;
pub mod lifecycle;
pub mod limits;
mod output;
pub mod pause;
mod plant;
mod secrets;
pub mod snapshots;
mod suite;
mod wait;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Capability, Origin, Provider, Runtime};

pub use plant::plant;
pub use world::World;

/// What the suite needs to know of a provider's surroundings.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The provider, or another instance of it each time: adapters keep nothing between calls.
    async fn provider(&self) -> Arc<dyn Provider>;

    /// What sandboxes start from. The probe is in it, at [`Harness::probe`]; see [`plant`].
    async fn origin(&self) -> Origin;

    /// What the suite's sandboxes run under.
    fn runtime(&self) -> Runtime {
        Runtime::Native
    }

    fn probe(&self) -> &[u8] {
        crate::probe::PATH.as_bytes()
    }

    /// Whether this machine has the cores and the quiet for the cpu limit to be measured.
    fn measures_cpu(&self) -> bool {
        true
    }

    /// What a disk holds, where a sandbox's kernel leaves some of it out.
    fn disk(&self) -> Disk {
        Disk::default()
    }

    /// After the clause's own sandboxes and snapshots are gone.
    async fn finish(&self) {}
}

/// Kinds of things that not every sandbox's disk holds.
#[derive(Debug, Clone, Copy)]
pub struct Disk {
    /// Extended attributes, capabilities among them. Without, to set one is refused.
    pub attributes: bool,
    /// Named pipes. Without, they work and no snapshot has them.
    pub pipes: bool,
    /// Whether a file's size on disk, seen from inside, tells of its holes.
    pub holes: bool,
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            attributes: true,
            pipes: true,
            holes: true,
        }
    }
}

/// A clause that takes longer than this hangs.
const LONGEST: Duration = Duration::from_mins(4);

/// Runs one clause, then removes what it made, and only then lets a failure through.
pub async fn run(harness: impl Harness, clause: impl AsyncFnOnce(&World)) {
    let world = World::new(&harness).await;
    // Nearly everything here is seen by what the probe says.
    if !world.can(Capability::Exec).await {
        return harness.finish().await;
    }
    let outcome = {
        let mut clause = pin!(tokio::time::timeout(LONGEST, clause(&world)));
        std::future::poll_fn(|context| {
            let polled = catch_unwind(AssertUnwindSafe(|| clause.as_mut().poll(context)));
            polled.map_or_else(|panic| Poll::Ready(Err(panic)), |poll| poll.map(Ok))
        })
        .await
    };
    world.clean().await;
    harness.finish().await;
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(_)) => panic!("the clause did not end within {LONGEST:?}"),
        Err(panic) => resume_unwind(panic),
    }
}
