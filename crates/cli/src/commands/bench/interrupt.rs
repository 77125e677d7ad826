use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::error::CommandError;

/// Hears Ctrl-C and its like, so that what was made is taken away first. Asked between steps:
/// one that is under way runs to its end, else there would be no telling what it left.
#[derive(Debug)]
pub(super) struct Interrupt {
    asked: watch::Receiver<bool>,
    _listeners: JoinSet<()>,
}

impl Interrupt {
    pub(super) fn listen() -> io::Result<Self> {
        let (ask, asked) = watch::channel(false);
        let mut listeners = JoinSet::new();
        for kind in [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ] {
            let mut signals = signal(kind)?;
            let ask = ask.clone();
            listeners.spawn(async move {
                if signals.recv().await.is_some() {
                    let _ = ask.send(true);
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
        *self.asked.borrow()
    }

    /// Waits for something that leaves nothing behind when it is given up.
    pub(super) async fn or<T>(
        &self,
        work: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        let mut asked = self.asked.clone();
        tokio::select! {
            _ = asked.wait_for(|asked| *asked) => Err(CommandError::failed("interrupted")),
            done = work => done,
        }
    }
}
