//! Between an agent and whoever speaks the link for it: what the agent did as the hub hears it, and
//! what the hub sends as the agent takes it. Pure.

mod take;
mod tell;

pub use take::{file_diff, prompt, review};
pub use tell::{agent_status, change, frames, part_content};
