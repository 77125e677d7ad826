use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::error::CommandError;

/// Hears Ctrl-C and its like, so that what was made is taken away first. Asked between steps:
/// one that is under way runs to its end, else there would be no telling what it left.
#[derive(Debug)]
pub(super) struct Interrupt {
    asked: Arc<AtomicBool>,
    _listeners: JoinSet<()>,
}

impl Interrupt {
    pub(super) fn listen() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let mut listeners = JoinSet::new();
        for kind in [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ] {
            let mut signals = signal(kind)?;
            let asked = Arc::clone(&asked);
            listeners.spawn(async move {
                if signals.recv().await.is_some() {
                    asked.store(true, Ordering::Relaxed);
                }
            });
        }
        Ok(Self {
            asked,
            _listeners: listeners,
        })
    }

    /// An error once somebody wants us to end.
    pub(super) async fn check(&self) -> Result<(), CommandError> {
        // The listeners share our only thread.
        tokio::task::yield_now().await;
        if self.is_asked() {
            return Err(CommandError::failed("interrupted"));
        }
        Ok(())
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}
