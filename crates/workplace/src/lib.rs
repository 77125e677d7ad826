//! `nacre-workplace`: what makes a sandbox a place to work in. PID 1 starts it, keeps it running and
//! runs commands for it ([`hands`]); it talks to everybody else.
//!
//! ```text
//! order ── from PID 1, over standard input
//! hands ── commands and files, asked of PID 1
//! serve ── everything put together; office ── what the hub talks to, reports ── what it is told
//! boot · agent_process · turns · tools ── the agent, from a bare disk to an answer
//! services · terminal · git · files · env_files · ports ── what can be done here
//! devtools (TCP 4000, bearer) · inside (unix socket, by uid) ── by whom
//! link ── the hub, through the door, by WebSocket, or at our port
//! gateway ── the one way in from outside, and the tunnels it leads to
//! ```
//!
//! One thread. Whatever comes over a port, the link or the disk is hostile.

#![forbid(unsafe_code)]

pub mod agent_process;
pub mod boot;
pub mod command;
pub mod devtools;
pub mod display;
pub mod doors;
pub mod env_files;
pub mod files;
pub mod gateway;
pub mod git;
pub mod hands;
pub mod idle;
pub mod inside;
pub mod link;
pub mod office;
pub mod own_log;
mod pictures;
pub mod place;
pub mod ports;
pub mod program;
mod reports;
pub mod serve;
pub mod services;
pub mod speech;
mod squatters;
mod state;
pub mod terminal;
pub mod tools;
pub mod tunnels;
pub mod turns;
mod uploads;
mod wiring;
