//! `nacre-workplace`: what makes a sandbox a place to work in. PID 1 starts it, keeps it running and
//! runs commands for it ([`hands`]); it talks to everybody else.
//!
//! ```text
//! order ── from PID 1, over standard input
//! hands ── commands and files, asked of PID 1
//! services · terminal · git · files · env_files · ports ── what can be done here
//! devtools (TCP 4000, bearer) · inside (unix socket, by uid) ── by whom
//! ```
//!
//! One thread. Whatever comes over a port, the link or the disk is hostile.

#![forbid(unsafe_code)]

pub mod command;
pub mod devtools;
pub mod env_files;
pub mod files;
pub mod git;
pub mod hands;
pub mod idle;
pub mod inside;
pub mod place;
pub mod ports;
pub mod services;
mod state;
pub mod terminal;
