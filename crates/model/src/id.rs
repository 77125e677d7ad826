use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::{NoContext, Timestamp as UuidTime, Uuid};

use crate::Clock;

/// What an id names; gives it its prefix.
pub trait Kind: 'static {
    const PREFIX: &'static str;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub enum $name {}
        impl Kind for $name { const PREFIX: &'static str = $prefix; }
    )*};
}

kinds! {
    /// The perishable machine.
    Sandbox = "sbx";
    /// A named stack of layers.
    Snapshot = "snp";
    /// One start of a runner in a sandbox.
    Boot = "boot";
    /// What a user has, whatever happens to sandboxes.
    Session = "ses";
    /// Who sessions belong to.
    Organisation = "org";
    /// A person.
    User = "usr";
    /// What lets a person or a service in.
    Token = "tok";
    /// Something to be done later.
    Job = "job";
    /// A line of the audit log.
    Audit = "aud";
    /// What somebody asks the agent.
    Prompt = "prm";
    /// A secret, as it is kept.
    Sealed = "sec";
    /// A file that somebody sent.
    Upload = "upl";
    /// A link that lets others see one port.
    Share = "shr";
    /// A request to a model, and what it took.
    Usage = "use";
    /// A file that a session showed for its work.
    Evidence = "evd";
    /// Something that an agent asked to have done outside.
    Action = "act";
    /// A repository that an organisation works on.
    Repository = "rep";
}

/// A typed id over a version 7 UUID: sorts by time of creation, printed `prefix_` and 26 characters of
/// Crockford's base 32 in lower case.
pub struct Id<K: Kind>(Uuid, PhantomData<fn() -> K>);

impl<K: Kind> Id<K> {
    pub fn new(clock: &dyn Clock) -> Self {
        let now = clock.now();
        let seconds = u64::try_from(now.as_second()).unwrap_or(0);
        let nanos = u32::try_from(now.subsec_nanosecond()).unwrap_or(0);
        let time = UuidTime::from_unix(NoContext, seconds, nanos);
        Self(Uuid::new_v7(time), PhantomData)
    }

    pub fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid, PhantomData)
    }

    pub fn uuid(&self) -> Uuid {
        self.0
    }
}

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const DIGITS: usize = 26;

impl<K: Kind> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0.as_u128();
        let mut text = [0u8; DIGITS];
        for (place, slot) in text.iter_mut().rev().enumerate() {
            *slot = ALPHABET[usize::try_from((value >> (5 * place)) & 31).expect("below 32")];
        }
        let text = std::str::from_utf8(&text).expect("the alphabet is ASCII");
        write!(f, "{}_{text}", K::PREFIX)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an id of the form {prefix}_…")]
pub struct IdError {
    text: String,
    prefix: &'static str,
}

impl<K: Kind> FromStr for Id<K> {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let error = || IdError {
            text: text.chars().take(64).collect(),
            prefix: K::PREFIX,
        };
        let digits = text
            .strip_prefix(K::PREFIX)
            .and_then(|rest| rest.strip_prefix('_'))
            .filter(|digits| digits.len() == DIGITS)
            .ok_or_else(error)?;
        let mut value: u128 = 0;
        for (place, byte) in digits.bytes().enumerate() {
            let digit = ALPHABET.iter().position(|a| *a == byte).ok_or_else(error)?;
            // 26 digits hold 130 bits: the first may only use three of its five.
            if place == 0 && digit > 7 {
                return Err(error());
            }
            value = (value << 5) | digit as u128;
        }
        Ok(Self(Uuid::from_u128(value), PhantomData))
    }
}

impl<K: Kind> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<K: Kind> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Kind> Copy for Id<K> {}
impl<K: Kind> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<K: Kind> Eq for Id<K> {}
impl<K: Kind> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<K: Kind> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}
impl<K: Kind> Hash for Id<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl<K: Kind> Serialize for Id<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
impl<'de, K: Kind> Deserialize<'de> for Id<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_id_survives_being_printed_and_read(bits: u128) {
            let id: Id<Sandbox> = Id::from_uuid(Uuid::from_u128(bits));
            prop_assert_eq!(id.to_string().parse::<Id<Sandbox>>(), Ok(id));
        }

        #[test]
        fn hostile_text_is_refused_without_panic(text in "\\PC{0,64}") {
            let _ = text.parse::<Id<Sandbox>>();
        }
    }

    #[test]
    fn ids_sort_by_time_of_creation() {
        let clock = ManualClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let first: Id<Sandbox> = Id::new(&clock);
        clock.advance(jiff::SignedDuration::from_millis(2));
        let second: Id<Sandbox> = Id::new(&clock);
        assert!(first < second);
        assert!(first.to_string() < second.to_string());
    }

    #[test]
    fn an_id_of_another_kind_is_refused() {
        let id: Id<Snapshot> = Id::from_uuid(Uuid::from_u128(7));
        assert!(id.to_string().parse::<Id<Sandbox>>().is_err());
    }

    #[test]
    fn a_number_past_128_bits_is_refused() {
        assert!(
            format!("sbx_{}", "z".repeat(26))
                .parse::<Id<Sandbox>>()
                .is_err()
        );
    }
}
