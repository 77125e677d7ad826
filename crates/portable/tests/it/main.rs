//! Layers through the reader and back. As root: layers hold files of other owners and whiteouts.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod forge;
mod hostile;
mod places;
mod round_trip;
