use std::time::Duration;

use sessions::Settings;

/// How quick a provider is, and so how long things may take before somebody gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// A provider in memory.
    Memory,
    /// Real sandboxes with a real agent.
    Machine,
}

impl Pace {
    pub(crate) fn settings(self) -> Settings {
        let millis = Duration::from_millis;
        match self {
            Self::Memory => Settings {
                boot: millis(4000),
                rest: millis(2000),
                migrate: millis(4000),
                lease: millis(500),
                sweep: millis(100),
                call: millis(250),
                retries: [5, 20, 50].map(millis).into(),
                turn: millis(150),
                drain: millis(300),
                extension: millis(3000),
                snapshots: 2,
                ..Settings::usual()
            },
            Self::Machine => Settings {
                boot: millis(90_000),
                rest: millis(30_000),
                migrate: millis(90_000),
                lease: millis(3000),
                sweep: millis(500),
                call: millis(20_000),
                retries: [50, 200, 1000].map(millis).into(),
                turn: millis(3000),
                drain: millis(5000),
                ..Settings::usual()
            },
        }
    }

    /// Everything has settled by then, or something is stuck.
    pub(crate) fn patience(self) -> Duration {
        match self {
            Self::Memory => Duration::from_secs(30),
            Self::Machine => Duration::from_mins(4),
        }
    }

    /// Between the beginning of some work and a blow: at most.
    pub(crate) fn before_a_blow(self) -> Duration {
        match self {
            Self::Memory => Duration::from_millis(60),
            Self::Machine => Duration::from_secs(8),
        }
    }
}
