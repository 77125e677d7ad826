use std::fmt;

use serde::{Deserialize, Serialize};

pub const MAX_NAME: usize = 100;

/// What people call a service. Trimmed, one line, and nothing that could be taken for a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a service's name has 1 to {MAX_NAME} characters, none of them a slash or a control \
     character, and does not begin with a dot or a hyphen"
)]
pub struct BadName;

impl Name {
    pub fn new(text: &str) -> Result<Self, BadName> {
        let text = text.trim();
        let fits = !text.is_empty() && text.chars().count() <= MAX_NAME;
        let is_plain = !text.starts_with(['.', '-'])
            && !text
                .chars()
                .any(|c| c.is_control() || matches!(c, '/' | '\\'));
        if fits && is_plain {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Names its files. Two names never share one.
    pub(super) fn stem(&self) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if self.0.chars().all(is_plain) {
            return self.0.clone();
        }
        let slug: String = self
            .0
            .chars()
            .map(|c| if is_plain(c) { c } else { '_' })
            .collect();
        format!("{slug}~{:016x}", fnv(self.0.as_bytes()))
    }
}

/// FNV-1a: names that differ only in what a file name cannot hold are told apart.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Name {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        Self::new(&text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_could_be_paths_are_refused() {
        for bad in [
            "",
            "  ",
            ".",
            "..",
            "../x",
            "a/b",
            "/etc/passwd",
            "a\0b",
            "a\nb",
            ".hidden",
            "-rf",
            "a\\b",
        ] {
            assert_eq!(Name::new(bad), Err(BadName), "{bad:?}");
        }
        assert!(Name::new(&"a".repeat(MAX_NAME + 1)).is_err());
        for good in [
            "web",
            " web ",
            "web server",
            "api.v2",
            "größe",
            "a".repeat(100).as_str(),
        ] {
            assert!(Name::new(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_plain_name_is_its_files_name() {
        assert_eq!(Name::new("web-1.dev").unwrap().stem(), "web-1.dev");
        let (a, b) = (Name::new("a b").unwrap(), Name::new("a:b").unwrap());
        assert_ne!(a.stem(), b.stem());
    }

    proptest! {
        #[test]
        fn no_stem_leads_anywhere(text: String) {
            if let Ok(name) = Name::new(&text) {
                let stem = name.stem();
                prop_assert!(!stem.contains('/') && !stem.starts_with('.') && !stem.is_empty());
                prop_assert!(stem.len() <= 4 * MAX_NAME + 17);
            }
        }
    }
}
