use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A size in bytes. Reads `512`, `64K`, `2G`, `1.5G`, `10MiB`; units are powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteCount(u64);

impl ByteCount {
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    pub const fn bytes(self) -> u64 {
        self.0
    }
}

const UNITS: [(&str, u32); 5] = [("", 0), ("K", 10), ("M", 20), ("G", 30), ("T", 40)];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ByteCountError {
    #[error("`{0}` is not a size: write a number and K, M, G or T, such as 512M or 1.5G")]
    Malformed(String),
    #[error("`{0}` is larger than any machine")]
    TooLarge(String),
}

impl FromStr for ByteCount {
    type Err = ByteCountError;

    fn from_str(text: &str) -> Result<Self, ByteCountError> {
        let shown = || text.chars().take(32).collect::<String>();
        let malformed = || ByteCountError::Malformed(shown());
        let split = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let unit = unit.to_ascii_uppercase();
        let unit = unit
            .strip_suffix("IB")
            .or(unit.strip_suffix('B'))
            .unwrap_or(&unit);
        let (_, shift) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(malformed)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || fraction.len() > 9 || fraction.contains('.') {
            return Err(malformed());
        }
        let too_large = |_| ByteCountError::TooLarge(shown());
        let whole: u64 = whole.parse().map_err(too_large)?;
        let whole = whole
            .checked_mul(1 << shift)
            .ok_or_else(|| ByteCountError::TooLarge(shown()))?;
        let part = if fraction.is_empty() {
            0
        } else {
            let digits: u128 = fraction.parse().map_err(|_| malformed())?;
            let scale = 10u128.pow(u32::try_from(fraction.len()).expect("at most nine"));
            u64::try_from((digits << shift) / scale).expect("below one unit")
        };
        // The kernel's own interfaces take signed sizes.
        whole
            .checked_add(part)
            .filter(|bytes| i64::try_from(*bytes).is_ok())
            .map(Self)
            .ok_or_else(|| ByteCountError::TooLarge(shown()))
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, shift) = UNITS
            .iter()
            .rev()
            .find(|(_, shift)| self.0 >= 1 << shift)
            .unwrap_or(&UNITS[0]);
        let whole = self.0 >> shift;
        let tenth = ((self.0 - (whole << shift)) * 10) >> shift;
        if tenth == 0 {
            write!(f, "{whole}{unit}")
        } else {
            write!(f, "{whole}.{tenth}{unit}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("64k", 65536),
            ("2G", 2 << 30),
            ("1.5G", 3 << 29),
            ("10MiB", 10 << 20),
            ("3MB", 3 << 20),
        ] {
            assert_eq!(text.parse(), Ok(ByteCount::new(bytes)), "{text}");
        }
    }

    #[test]
    fn absurd_sizes_are_refused() {
        for text in [
            "",
            "G",
            "-1G",
            "1.2.3G",
            "99999999T",
            "18446744073709551616",
            "9223372036854775808",
            "1X",
            "1e9",
            "1.0000000001G",
        ] {
            assert!(text.parse::<ByteCount>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_print_short() {
        assert_eq!(ByteCount::new(3 << 29).to_string(), "1.5G");
        assert_eq!(ByteCount::new(999).to_string(), "999");
    }

    proptest! {
        #[test]
        fn hostile_text_never_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<ByteCount>();
        }
    }
}
