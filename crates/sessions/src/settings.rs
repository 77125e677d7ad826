use std::time::Duration;

/// How long things may take, and how many there may be.
#[derive(Debug, Clone)]
pub struct Settings {
    /// From the wish to have a sandbox until it serves.
    pub boot: Duration,
    /// From the wish to pause until the receipt.
    pub rest: Duration,
    /// From the wish to move until the new sandbox serves, each half of it.
    pub migrate: Duration,
    /// An owner that does not renew its lease for so long is taken over.
    pub lease: Duration,
    /// Between two looks for what nobody acted on.
    pub sweep: Duration,
    /// Commands that wait for one hub.
    pub inbox: usize,
    /// Events that a subscriber may be behind before it has to read the log again.
    pub behind: usize,
}

impl Settings {
    pub fn usual() -> Self {
        Self {
            boot: Duration::from_mins(5),
            rest: Duration::from_mins(2),
            migrate: Duration::from_mins(5),
            lease: Duration::from_secs(30),
            sweep: Duration::from_secs(10),
            inbox: 64,
            behind: 256,
        }
    }
}
