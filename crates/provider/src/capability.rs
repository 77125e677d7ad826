use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One thing a provider may or may not be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    Pause,
    AutoPause,
    LiveSnapshot,
    MemorySnapshot,
    Fork,
    Extend,
    Exec,
    Dial,
    Serve,
    NestedContainers,
    /// A way out whose list changes while the sandbox runs, and which says what it refused.
    Egress,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pause => "pause",
            Self::AutoPause => "auto-pause",
            Self::LiveSnapshot => "snapshot of a running sandbox",
            Self::MemorySnapshot => "memory snapshot",
            Self::Fork => "fork",
            Self::Extend => "extend",
            Self::Exec => "exec",
            Self::Dial => "dial",
            Self::Serve => "serve",
            Self::NestedContainers => "nested containers",
            Self::Egress => "a list of hosts that changes",
        })
    }
}

/// What a provider can do. Asked, never guessed from its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    pub can: Vec<Capability>,
    #[serde(rename = "max_lifetime_ms", with = "millis", default)]
    pub max_lifetime: Option<Duration>,
    pub survives_resume: Survives,
    pub limits: Limits,
    pub isolation: Isolation,
}

impl Capabilities {
    pub fn has(&self, capability: Capability) -> bool {
        self.can.contains(&capability)
    }
}

/// What is still there after pause and resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Survives {
    DiskOnly,
    DiskAndMemory,
}

/// How each limit is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub memory: Strength,
    pub pids: Strength,
    pub cpu: Strength,
    pub disk: Strength,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// Cannot be exceeded.
    Hard,
    /// Noticed after the fact: the sandbox is frozen and the user told.
    Watched,
    None,
}

/// What stands between a sandbox and the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    SharedKernel,
    UserKernel,
    Microvm,
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SharedKernel => "shared-kernel",
            Self::UserKernel => "user-kernel",
            Self::Microvm => "microvm",
        })
    }
}

mod millis {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[expect(
        clippy::ref_option,
        reason = "serde's `with` passes the field by reference"
    )]
    pub(super) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value
            .map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
            .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}
