use std::sync::Arc;
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
    /// What one call to a provider may take; it is made again then.
    pub call: Duration,
    /// Between two tries of what a provider may do when asked again; the last goes on.
    pub retries: Arc<[Duration]>,
    /// A sandbox that its provider will end is left so long before, or a tenth of its time.
    pub grace: Duration,
    /// How much longer a sandbox is asked for at a time, where it can be.
    pub extension: Duration,
    /// A turn may take so long to end by itself before its session is moved.
    pub turn: Duration,
    /// How long it is waited for turns that were told to end.
    pub drain: Duration,
    /// A sandbox that nobody and nothing uses for so long is let go.
    pub idle: Duration,
    /// The same where people talk by messages, and take their time.
    pub idle_in_chats: Duration,
    /// Memory is held for a session that is paused for so long; then its disk alone is.
    pub paused: Duration,
    /// Snapshots that nobody asked for, kept of each session: the last ones.
    pub snapshots: u32,
    /// A hub that nobody needs goes after so long; whoever comes then makes another.
    pub linger: Duration,
    /// Between two looks at what a sandbox was refused.
    pub look_out: Duration,
    /// Sessions are taken up here.
    pub takes_up: bool,
    /// Sandboxes that no session has are looked for here, and providers tended.
    pub tends: bool,
    /// Commands that wait for one hub.
    pub inbox: usize,
    /// Events that a subscriber may be behind before it has to read the log again.
    pub behind: usize,
}

impl Settings {
    /// By where the last prompt came from, as in `slack:C1`.
    pub(crate) fn idle_on(&self, channel: Option<&str>) -> Duration {
        let kind = channel.and_then(|channel| channel.split(':').next());
        match kind {
            Some("slack" | "discord" | "telegram") => self.idle_in_chats,
            _ => self.idle,
        }
    }

    pub fn usual() -> Self {
        Self {
            boot: Duration::from_mins(5),
            rest: Duration::from_mins(2),
            migrate: Duration::from_mins(5),
            lease: Duration::from_secs(30),
            sweep: Duration::from_secs(10),
            call: Duration::from_mins(2),
            retries: [1, 2, 5, 10, 30].map(Duration::from_secs).into(),
            grace: Duration::from_mins(5),
            extension: Duration::from_hours(1),
            turn: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            idle: Duration::from_mins(15),
            idle_in_chats: Duration::from_mins(30),
            paused: Duration::from_hours(3),
            snapshots: 5,
            linger: Duration::from_mins(1),
            look_out: Duration::from_secs(1),
            takes_up: true,
            tends: true,
            inbox: 64,
            behind: 256,
        }
    }
}
