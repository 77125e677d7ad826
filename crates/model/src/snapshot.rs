use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Id, Snapshot};

/// What a snapshot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SnapshotKind {
    /// A stack of layers.
    Disk,
    /// A layer 0 that others start from.
    Base,
    /// A disk and the memory that goes with it.
    Memory,
}

impl SnapshotKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Base => "base",
            Self::Memory => "memory",
        }
    }
}

/// A snapshot's id says which provider made it and what it holds, so that it is never handed to
/// another provider: `local:disk:snp_…`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId {
    pub provider: String,
    pub kind: SnapshotKind,
    pub id: Id<Snapshot>,
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.provider, self.kind.as_str(), self.id)
    }
}

impl fmt::Debug for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a snapshot id of the form provider:kind:snp_…")]
pub struct SnapshotIdError(String);

impl FromStr for SnapshotId {
    type Err = SnapshotIdError;

    fn from_str(text: &str) -> Result<Self, SnapshotIdError> {
        let error = || SnapshotIdError(text.chars().take(96).collect());
        let mut pieces = text.splitn(3, ':');
        let provider = pieces
            .next()
            .filter(|p| is_provider_name(p))
            .ok_or_else(error)?;
        let kind = match pieces.next() {
            Some("disk") => SnapshotKind::Disk,
            Some("base") => SnapshotKind::Base,
            Some("memory") => SnapshotKind::Memory,
            _ => return Err(error()),
        };
        let id = pieces
            .next()
            .and_then(|id| id.parse().ok())
            .ok_or_else(error)?;
        Ok(Self {
            provider: provider.to_owned(),
            kind,
            id,
        })
    }
}

fn is_provider_name(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

impl Serialize for SnapshotId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SnapshotId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_id_carries_its_provider_and_kind() {
        let id = SnapshotId {
            provider: "local".into(),
            kind: SnapshotKind::Disk,
            id: Id::from_uuid(uuid::Uuid::from_u128(5)),
        };
        assert_eq!(id.to_string(), "local:disk:snp_00000000000000000000000005");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "snp_00000000000000000000000005",
            "local:tape:snp_00000000000000000000000005",
            "Local:disk:x",
            "a b:disk:snp_00000000000000000000000005",
        ] {
            assert!(text.parse::<SnapshotId>().is_err(), "{text}");
        }
    }
}
