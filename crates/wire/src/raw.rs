use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes that are nearly always text: paths, arguments, environment. In JSON a string when they
/// are UTF-8, else `{"base64": "…"}`, so that every name a file system allows gets across.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Raw(pub Vec<u8>);

impl Raw {
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    pub fn as_path(&self) -> &Path {
        Path::new(self.as_os_str())
    }

    pub fn into_os_string(self) -> OsString {
        OsString::from_vec(self.0)
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_os_str(), f)
    }
}

impl From<&str> for Raw {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}
impl From<String> for Raw {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}
impl From<OsString> for Raw {
    fn from(text: OsString) -> Self {
        Self(text.into_vec())
    }
}
impl From<&OsStr> for Raw {
    fn from(text: &OsStr) -> Self {
        Self(text.as_bytes().to_vec())
    }
}
impl From<PathBuf> for Raw {
    fn from(path: PathBuf) -> Self {
        Self(path.into_os_string().into_vec())
    }
}
impl From<&Path> for Raw {
    fn from(path: &Path) -> Self {
        Self::from(path.as_os_str())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    base64: String,
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Encoded {
                base64: STANDARD.encode(&self.0),
            }
            .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(String),
            Encoded(Encoded),
        }
        match Either::deserialize(deserializer)? {
            Either::Text(text) => Ok(Self(text.into_bytes())),
            Either::Encoded(Encoded { base64 }) => {
                STANDARD.decode(base64).map(Self).map_err(de::Error::custom)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_gets_across(bytes: Vec<u8>) {
            let raw = Raw(bytes);
            let json = serde_json::to_string(&raw).unwrap();
            prop_assert_eq!(serde_json::from_str::<Raw>(&json).unwrap(), raw);
        }
    }
}
