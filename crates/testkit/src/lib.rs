//! What tests share.
//!
//! [`probe_path`] finds `nacre-probe`, the program that the provider contract suite runs inside
//! sandboxes. Its vocabulary is `provider::probe`. [`PidOne`] is a runner for tests of what runs
//! beside it, [`hub`] a double of the hub, for the link, and [`apart`] a machine of its own for a test.
//!
//! With the feature `agent` there are two more doubles: `replay` is an OpenCode server that plays a
//! recording, `model` is a model that does as its prompt says (also the program
//! `nacre-scripted-model`). Neither is the real thing; the real OpenCode is tested elsewhere.

pub mod apart;
#[cfg(feature = "agent")]
mod http;
pub mod hub;
#[cfg(feature = "agent")]
pub mod memory;
#[cfg(feature = "agent")]
pub mod model;
mod pid_one;
#[cfg(feature = "agent")]
pub mod replay;

pub use pid_one::PidOne;

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum ProbeMissing {
    #[error("there is no {0}; make it with `cargo build -p nacre-testkit --bins`")]
    NotBuilt(PathBuf),
    #[error("cannot tell where the running test is")]
    Nowhere(#[source] io::Error),
}

/// The probe that was built beside the running test.
pub fn probe_path() -> Result<PathBuf, ProbeMissing> {
    program_path("nacre-probe")
}

/// A program of this crate that was built beside the running test.
pub fn program_path(name: &str) -> Result<PathBuf, ProbeMissing> {
    let test = std::env::current_exe().map_err(ProbeMissing::Nowhere)?;
    // A test is in target/PROFILE/deps, a binary or an example's parent in target/PROFILE.
    let beside = test
        .ancestors()
        .skip(1)
        .take(2)
        .map(|directory| directory.join(name));
    let mut missing = PathBuf::from(name);
    for path in beside {
        if path.is_file() {
            return Ok(path);
        }
        missing = path;
    }
    Err(ProbeMissing::NotBuilt(missing))
}
