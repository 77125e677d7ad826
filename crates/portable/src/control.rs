use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far a long piece of work is, and whether somebody wants it to end.
#[derive(Debug, Default)]
pub struct Control {
    done: AtomicU64,
    total: AtomicU64,
    cancelled: AtomicBool,
}

impl Control {
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Asked between steps that are short.
    pub fn check(&self) -> io::Result<()> {
        if self.is_cancelled() {
            // Not `Interrupted`: that is what readers and writers try again after.
            return Err(io::Error::other("interrupted"));
        }
        Ok(())
    }

    pub fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes done, and bytes there are as far as that is known.
    pub fn progress(&self) -> (u64, u64) {
        (
            self.done.load(Ordering::Relaxed),
            self.total.load(Ordering::Relaxed),
        )
    }
}
