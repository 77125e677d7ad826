//! The link, against a double of the hub. Time is paused: hours of it pass in milliseconds.

mod away;
mod durable;
mod frames;
mod requests;
mod storm;
mod ways;
mod world;
