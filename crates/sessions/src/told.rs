use std::sync::Arc;

use store::Event;
use tokio::sync::broadcast;

/// What a session tells those who watch it.
#[derive(Debug, Clone)]
pub enum Told {
    /// In the log, with its number.
    Numbered(Event),
    /// Said from memory: a piece of a part, or an open part whole. As JSON.
    Passing(Arc<str>),
}

/// A look at a session from one moment on.
#[derive(Debug)]
pub struct Watch {
    /// The number of the last event before it.
    pub seq: u64,
    /// Parts that are open at that moment, each whole, as JSON.
    pub open: Vec<Arc<str>>,
    /// All that is told after it. One who falls behind looks again.
    pub told: broadcast::Receiver<Told>,
}
