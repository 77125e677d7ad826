use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize as _;

/// A value that cannot be printed. Reading it takes a call that says so. Its memory is cleared when
/// it is dropped.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Takes known secret values out of text that is about to leave us.
#[derive(Clone, Default)]
pub struct Redactor {
    values: Vec<String>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} values)", self.values.len())
    }
}

/// Shorter values would take innocent words out of messages.
const SHORTEST: usize = 6;

impl Redactor {
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut values: Vec<String> = secrets
            .into_iter()
            .filter(|s| s.len() >= SHORTEST)
            .map(str::to_owned)
            .collect();
        // A secret that contains another must go first, or its rest would stay.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self { values }
    }

    pub fn apply(&self, text: &str) -> String {
        self.values.iter().fold(text.to_owned(), |text, value| {
            text.replace(value, "[redacted]")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print() {
        assert_eq!(format!("{:?}", Secret::new("hunter22")), "[secret]");
    }

    #[test]
    fn a_redactor_takes_the_longest_value_first() {
        let redactor = Redactor::new(["abcdef", "abcdefghij"]);
        assert_eq!(
            redactor.apply("x abcdefghij y abcdef"),
            "x [redacted] y [redacted]"
        );
    }
}
