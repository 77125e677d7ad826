//! Keys, in memory and as they are written down.

use std::fmt;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::Timestamp;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

/// More than anybody rotates before the old ones are dropped.
pub(super) const KEYS: usize = 64;

pub(super) struct SealingKey {
    pub(super) id: String,
    pub(super) bytes: Zeroizing<[u8; 32]>,
    pub(super) made_at: Timestamp,
}

/// What other keys are derived from, and the keys that seal, the newest last; at least one.
pub(super) struct Ring {
    root: Zeroizing<[u8; 32]>,
    keys: Vec<SealingKey>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ring({} keys)", self.keys.len())
    }
}

impl Ring {
    pub(super) fn new(now: Timestamp) -> io::Result<Self> {
        Ok(Self {
            root: random()?,
            keys: vec![SealingKey::new(now)?],
        })
    }

    pub(super) fn root(&self) -> &[u8; 32] {
        &self.root
    }

    pub(super) fn newest(&self) -> &SealingKey {
        self.keys.last().expect("a ring has a key")
    }

    pub(super) fn find(&self, id: &str) -> Option<&SealingKey> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// Those that seal nothing more, each with the time at which it was followed.
    pub(super) fn followed(&self) -> Vec<(String, Timestamp)> {
        let pairs = self.keys.iter().zip(self.keys.iter().skip(1));
        pairs
            .map(|(old, next)| (old.id.clone(), next.made_at))
            .collect()
    }

    pub(super) fn is_full(&self) -> bool {
        self.keys.len() >= KEYS
    }

    pub(super) fn add(&mut self, key: SealingKey) {
        self.keys.push(key);
    }

    /// Never the newest.
    pub(super) fn remove(&mut self, ids: &[String]) {
        let newest = self.newest().id.clone();
        self.keys
            .retain(|key| key.id == newest || !ids.contains(&key.id));
    }

    pub(super) fn to_json(&self) -> Zeroizing<String> {
        let mut written = Written {
            version: VERSION,
            root: STANDARD.encode(*self.root),
            keys: self
                .keys
                .iter()
                .map(|key| WrittenKey {
                    id: key.id.clone(),
                    key: STANDARD.encode(*key.bytes),
                    made_at: key.made_at,
                })
                .collect(),
        };
        let json = serde_json::to_string_pretty(&written).expect("our own types serialise");
        written.clear();
        Zeroizing::new(json)
    }

    /// None if this is no ring of ours. Why is not said: it would be said of keys.
    pub(super) fn from_json(json: &str) -> Option<Self> {
        let mut written: Written = serde_json::from_str(json).ok()?;
        let ring = Self::from_written(&written);
        written.clear();
        ring
    }

    fn from_written(written: &Written) -> Option<Self> {
        if written.version != VERSION || written.keys.is_empty() || written.keys.len() > KEYS {
            return None;
        }
        let keys = written.keys.iter().map(|key| {
            Some(SealingKey {
                id: key.id.clone(),
                bytes: bytes(&key.key)?,
                made_at: key.made_at,
            })
        });
        Some(Self {
            root: bytes(&written.root)?,
            keys: keys.collect::<Option<_>>()?,
        })
    }
}

impl SealingKey {
    pub(super) fn new(now: Timestamp) -> io::Result<Self> {
        let name = random::<6>()?;
        let id = name.iter().map(|byte| format!("{byte:02x}"));
        Ok(Self {
            id: format!("k{}", id.collect::<String>()),
            bytes: random()?,
            made_at: now,
        })
    }
}

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    root: String,
    keys: Vec<WrittenKey>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenKey {
    id: String,
    key: String,
    made_at: Timestamp,
}

impl Written {
    fn clear(&mut self) {
        self.root.zeroize();
        for key in &mut self.keys {
            key.key.zeroize();
        }
    }
}

fn bytes(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let decoded = Zeroizing::new(STANDARD.decode(text).ok()?);
    let bytes = <[u8; 32]>::try_from(decoded.as_slice()).ok()?;
    Some(Zeroizing::new(bytes))
}

/// From the kernel, or not at all.
pub(super) fn random<const N: usize>() -> io::Result<Zeroizing<[u8; N]>> {
    let mut bytes = Zeroizing::new([0; N]);
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}
