use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A place in a trace, as the W3C writes it: `00-{trace}-{span}-{flags}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Trace {
    pub(crate) whole: u128,
    pub(crate) span: u64,
    /// Whoever began it wants to see it.
    pub(crate) is_sampled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no `traceparent`")]
pub struct NotATrace;

impl Trace {
    /// The first step of a new one.
    pub(crate) fn begin() -> Self {
        Self {
            whole: fastrand::u128(1..),
            span: fastrand::u64(1..),
            is_sampled: true,
        }
    }

    /// Another step of the same.
    pub(crate) fn step(self) -> Self {
        Self {
            span: fastrand::u64(1..),
            ..self
        }
    }

    /// What all of its steps have in common.
    pub fn id(self) -> String {
        format!("{:032x}", self.whole)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(f, "00-{:032x}-{:016x}-{flags:02x}", self.whole, self.span)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Trace {
    type Err = NotATrace;

    fn from_str(text: &str) -> Result<Self, NotATrace> {
        let is_hex = |part: &&str| {
            let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            part.bytes().all(digit)
        };
        let mut parts = text.split('-');
        let mut next = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits);
            part.filter(is_hex).ok_or(NotATrace)
        };
        let (version, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        // A later version may say more behind it; this one may not.
        let has_more = parts.next().is_some();
        if version == "ff" || (version == "00" && has_more) {
            return Err(NotATrace);
        }
        let trace = u128::from_str_radix(trace, 16).map_err(|_| NotATrace)?;
        let span = u64::from_str_radix(span, 16).map_err(|_| NotATrace)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| NotATrace)?;
        if trace == 0 || span == 0 {
            return Err(NotATrace);
        }
        Ok(Self {
            whole: trace,
            span,
            is_sampled: flags & 1 == 1,
        })
    }
}

impl TryFrom<String> for Trace {
    type Error = NotATrace;

    fn try_from(text: String) -> Result<Self, NotATrace> {
        text.parse()
    }
}

impl From<Trace> for String {
    fn from(trace: Trace) -> Self {
        trace.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_place_in_a_trace_is_read_and_written_as_the_standard_says() {
        let trace: Trace = GOOD.parse().unwrap();
        assert_eq!(trace.to_string(), GOOD);
        assert_eq!(trace.id(), "0af7651916cd43dd8448eb211c80319c");
        let later = GOOD.replacen("00-", "01-", 1) + "-more";
        assert_eq!(later.parse(), Ok(trace));
    }

    #[test]
    fn what_is_no_place_in_a_trace_is_not_taken_for_one() {
        for bad in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        ] {
            assert_eq!(bad.parse::<Trace>(), Err(NotATrace), "{bad}");
        }
    }

    #[test]
    fn a_step_is_of_the_same_trace_and_another_place() {
        let (first, second) = (Trace::begin(), Trace::begin().step());
        assert_ne!(first.whole, second.whole);
        let step = first.step();
        assert_eq!(step.whole, first.whole);
        assert_ne!(step.span, first.span);
    }
}
