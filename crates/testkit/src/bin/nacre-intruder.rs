//! Run inside a sandbox, it tries to get out. One JSON line per attempt:
//! `{"name": "...", "held": true, "detail": "..."}`. Exits 0 when all were held, 1 when one was
//! not, 2 for wrong usage.

use std::process::ExitCode;

#[path = "../intruder/mod.rs"]
mod intruder;

fn main() -> ExitCode {
    ExitCode::from(intruder::main())
}
