//! `index.json`: what a snapshot is and what it is made of.

use std::fmt;
use std::io;
use std::str::FromStr;

use model::{SnapshotId, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

use crate::{invalid, shown};

pub const FORMAT: &str = "nacre.snapshot";
pub const VERSION: u32 = 1;
/// Blobs one after the other are such a layer.
pub const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+zstd";

/// Of a blob, unpacked: large enough to pack well and to be sent in one piece, small enough to be
/// held in memory several times over.
pub const BLOB_SIZE: usize = 8 << 20;
/// Of a blob, packed: what cannot be packed grows a little.
pub const MAX_PACKED: u64 = (BLOB_SIZE + (1 << 20)) as u64;
/// Of an index: blobs of a tebibyte fit.
pub const MAX_INDEX: u64 = 32 << 20;
/// Far above the deepest stack that a sandbox starts from.
const MAX_LAYERS: usize = 500;
/// Of all layers, unpacked.
const MAX_BYTES: u64 = 1 << 40;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    pub format: String,
    pub version: u32,
    /// What it was called where it was made; it gets another id where it goes.
    pub snapshot: SnapshotId,
    pub name: Option<String>,
    pub created_at: Timestamp,
    pub recovered: bool,
    /// Set when it rests on its host's own `/usr`: then it is of use on that host alone.
    pub host: Option<String>,
    /// Of the whole tree, as `nacre snapshot show` says it.
    pub digest: String,
    pub bytes: u64,
    pub files: u64,
    /// The lowest first.
    pub layers: Vec<Layer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    pub media_type: String,
    /// Of the tar.
    pub bytes: u64,
    pub entries: u64,
    pub blobs: Vec<Blob>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    pub sha256: Sha,
    pub size: u64,
    pub unpacked: u64,
}

/// The SHA-256 of a blob, which is its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha([u8; 32]);

impl Sha {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sha {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 64 || !text.bytes().all(is_hex) {
            return Err("a SHA-256 is 64 lower-case hexadecimal digits");
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte =
                u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| "not hexadecimal")?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Sha {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl Layer {
    /// The same blobs are the same layer, wherever they are found.
    pub fn fingerprint(&self) -> String {
        let names: Vec<String> = self.blobs.iter().map(|p| p.sha256.to_string()).collect();
        names.join(" ")
    }

    pub fn packed(&self) -> u64 {
        self.blobs.iter().map(|blob| blob.size).sum()
    }
}

impl Index {
    /// Reads an index that anybody may have written.
    pub fn parse(text: &[u8]) -> io::Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            format: String,
            version: u32,
        }
        if text.len() as u64 > MAX_INDEX {
            return Err(invalid("its index is absurdly large"));
        }
        let head: Version = serde_json::from_slice(text)
            .map_err(|_| invalid("its index is not that of a snapshot"))?;
        if head.format != FORMAT {
            return Err(invalid(format!(
                "its index says `{}`, not `{FORMAT}`",
                shown(head.format.as_bytes())
            )));
        }
        if head.version != VERSION {
            return Err(invalid(format!(
                "it is of version {}, and this nacre reads version {VERSION}",
                head.version
            )));
        }
        let index: Self = serde_json::from_slice(text)
            .map_err(|error| invalid(format!("its index is damaged: {error}")))?;
        index.check()?;
        Ok(index)
    }

    pub fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("strings and numbers");
        text.push(b'\n');
        text
    }

    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.layers.iter().flat_map(|layer| &layer.blobs)
    }

    fn check(&self) -> io::Result<()> {
        if self.layers.is_empty() || self.layers.len() > MAX_LAYERS {
            return Err(invalid("its index names no layers, or far too many"));
        }
        let mut total = 0u64;
        for layer in &self.layers {
            if layer.media_type != LAYER_TYPE {
                return Err(invalid(format!(
                    "a layer in it is `{}`, which is not read",
                    shown(layer.media_type.as_bytes())
                )));
            }
            let mut bytes = 0u64;
            for blob in &layer.blobs {
                if blob.size > MAX_PACKED || blob.unpacked > BLOB_SIZE as u64 || blob.unpacked == 0
                {
                    return Err(invalid(format!("blob {} has an absurd size", blob.sha256)));
                }
                bytes += blob.unpacked;
            }
            // A header is 512 bytes: more entries than that cannot be.
            if bytes != layer.bytes || layer.entries > bytes / 512 {
                return Err(invalid("its index contradicts itself"));
            }
            total = total.saturating_add(bytes);
        }
        if total > MAX_BYTES {
            return Err(invalid("it is larger than any snapshot"));
        }
        Ok(())
    }
}
