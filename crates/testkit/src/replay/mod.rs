//! A double of OpenCode's server: it plays a recording of the real one.
//!
//! Events come out as they were recorded. Where somebody did something in the recording (sent a
//! prompt, aborted, answered), it waits until the client does the same, and answers as the real
//! server did. What can be asked for (messages, status, history, permissions, questions) is
//! answered as of the place that was reached. The stream can be cut at any event, with any number
//! of events lost.
//!
//! It is not OpenCode: it cannot do anything that was not recorded, except to end when aborted.

mod recording;
mod server;
mod store;

pub use self::recording::{Deed, Recording};
pub use self::server::{Cut, CutBy, Lost, Replay, ReplayControl};
