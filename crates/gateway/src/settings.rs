use std::time::Duration;

/// How much a client may be and do, and how long things may take.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Between two pings to a client.
    pub ping: Duration,
    /// One that was not heard for so long, or takes nothing for so long, is gone.
    pub dead: Duration,
    /// Between two comments on an event stream that has nothing to say.
    pub heartbeat: Duration,
    /// The largest frame of a client.
    pub frame: usize,
    /// Frames of a client: so many at once, and so many each second.
    pub burst: u32,
    pub each_second: u32,
    /// Frames that cannot be used before the socket is closed.
    pub bad_frames: u32,
    /// Events that are replayed from the log; one who missed more begins anew.
    pub replayed: u64,
    /// The newest messages that a client begins with.
    pub messages: u32,
    /// A request to a sandbox that sleeps waits so long for it to wake.
    pub wake: Duration,
    /// What a program in a sandbox may take to answer.
    pub answer: Duration,
    /// An open connection through us on which neither side says anything for so long is closed.
    pub silence: Duration,
    /// Requests and sockets that are on their way into one session's sandbox.
    pub visits: usize,
    /// Sockets, terminals and event streams at a time.
    pub sockets: usize,
    /// Where previews are, for browsers; see [`crate::preview::Site`].
    pub preview: Option<crate::preview::Site>,
}

impl Settings {
    pub fn usual() -> Self {
        Self {
            ping: Duration::from_secs(15),
            dead: Duration::from_secs(45),
            heartbeat: Duration::from_secs(15),
            frame: 1 << 20,
            burst: 100,
            each_second: 50,
            bad_frames: 50,
            replayed: 5000,
            messages: 100,
            wake: Duration::from_secs(10),
            answer: Duration::from_mins(2),
            silence: Duration::from_hours(2),
            visits: 256,
            sockets: 20_000,
            preview: None,
        }
    }
}
