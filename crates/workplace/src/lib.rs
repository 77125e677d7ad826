//! `nacre-workplace`: what makes a sandbox a place to work in. PID 1 starts it, keeps it running and
//! runs commands for it ([`hands`]); it talks to everybody else.
//!
//! ```text
//! order ── from PID 1, over standard input
//! hands ── commands and files, asked of PID 1
//! link  ── the hub
//! ```
//!
//! One thread. Whatever comes over a port, the link or the disk is hostile.

#![forbid(unsafe_code)]

pub mod hands;
pub mod link;
