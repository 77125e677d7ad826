//! Between columns and our types. Times are Unix milliseconds, counts are `i64`, ids are text.

use model::{Id, Kind, Timestamp};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, Result};

pub(crate) fn millis(time: Timestamp) -> i64 {
    time.as_millisecond()
}

pub(crate) fn maybe_millis(time: Option<Timestamp>) -> Option<i64> {
    time.map(millis)
}

pub(crate) fn time(millis: i64) -> Result<Timestamp> {
    Timestamp::from_millisecond(millis).map_err(|error| Error::unreadable("time", &error))
}

pub(crate) fn maybe_time(millis: Option<i64>) -> Result<Option<Timestamp>> {
    millis.map(time).transpose()
}

/// A number that no column can hold is larger than any that is there.
pub(crate) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn count(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|error| Error::unreadable("count", &error))
}

pub(crate) fn maybe_count(number: Option<i64>) -> Result<Option<u64>> {
    number.map(count).transpose()
}

pub(crate) fn id<K: Kind>(text: &str) -> Result<Id<K>> {
    text.parse()
        .map_err(|error: model::IdError| Error::unreadable("id", &error))
}

pub(crate) fn maybe_id<K: Kind>(text: Option<&str>) -> Result<Option<Id<K>>> {
    text.map(id).transpose()
}

pub(crate) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("our types have string keys and do not fail")
}

pub(crate) fn from_json<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::unreadable(what, &error))
}

/// An enumeration whose column holds its word.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident ($what:literal) { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            pub(crate) fn read(text: &str) -> $crate::Result<Self> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err($crate::Error::unreadable($what, text)),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;
