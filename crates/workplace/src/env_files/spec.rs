//! Which files there are to be, and which keys in them.

use std::collections::BTreeSet;

use camino::{Utf8Component, Utf8Path};
use serde::{Deserialize, Serialize};

const MAX_ENTRIES: usize = 50;
const MAX_KEYS: usize = 500;
const MAX_PATH: usize = 500;
const MAX_KEY: usize = 200;

/// However it is read, everything about it has been checked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Entry>", into = "Vec<Entry>")]
pub struct Spec(pub(super) Vec<Entry>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The folder of the repository in the workspace.
    #[serde(default = "workspace", alias = "workspacePath")]
    pub workspace_path: String,
    pub path: String,
    #[serde(default)]
    pub format: Format,
    #[serde(default)]
    pub mode: Mode,
    pub keys: Vec<Key>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    #[default]
    Dotenv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// In memory, with a link in the workspace.
    #[default]
    Secret,
    /// In the workspace itself, where snapshots keep it.
    Public,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    pub key: String,
    #[serde(default = "yes")]
    pub required: bool,
}

fn workspace() -> String {
    ".".to_owned()
}

fn yes() -> bool {
    true
}

#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error("the specification is not a JSON list of env files")]
    Malformed(#[source] serde_json::Error),
    #[error("{0:?} is not a path below the workspace")]
    Path(String),
    #[error("{0:?} cannot be the name of a variable: letters, digits and `_`, not first a digit")]
    Key(String),
    #[error("{0:?} is in the specification twice")]
    Twice(String),
    #[error("at most {MAX_ENTRIES} files, and {MAX_KEYS} keys in each")]
    TooMany,
}

impl Spec {
    pub fn parse(text: &[u8]) -> Result<Self, SpecError> {
        let entries: Vec<Entry> = serde_json::from_slice(text).map_err(SpecError::Malformed)?;
        entries.try_into()
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .flat_map(|entry| &entry.keys)
            .map(|key| key.key.as_str())
    }
}

impl TryFrom<Vec<Entry>> for Spec {
    type Error = SpecError;

    fn try_from(entries: Vec<Entry>) -> Result<Self, SpecError> {
        if entries.len() > MAX_ENTRIES {
            return Err(SpecError::TooMany);
        }
        let mut paths = BTreeSet::new();
        for entry in &entries {
            entry.check()?;
            if !paths.insert(entry.below()) {
                return Err(SpecError::Twice(entry.below()));
            }
        }
        Ok(Self(entries))
    }
}

impl From<Spec> for Vec<Entry> {
    fn from(spec: Spec) -> Self {
        spec.0
    }
}

impl Entry {
    fn check(&self) -> Result<(), SpecError> {
        if self.keys.len() > MAX_KEYS {
            return Err(SpecError::TooMany);
        }
        for path in [&self.workspace_path, &self.path] {
            let leads_down = Utf8Path::new(path)
                .components()
                .all(|part| matches!(part, Utf8Component::Normal(_) | Utf8Component::CurDir));
            if !leads_down || path.len() > MAX_PATH || path.contains(['\0', '\n', '\r']) {
                return Err(SpecError::Path(path.clone()));
            }
        }
        if Utf8Path::new(&self.below()).file_name().is_none()
            || self.path.is_empty()
            || self.path.ends_with('/')
            || self.below().split('/').any(|part| part == ".git")
        {
            return Err(SpecError::Path(self.path.clone()));
        }
        match self.keys.iter().find(|key| !is_variable(&key.key)) {
            Some(key) => Err(SpecError::Key(key.key.clone())),
            None => Ok(()),
        }
    }

    /// Below the workspace, plainly.
    pub(super) fn below(&self) -> String {
        let joined = Utf8Path::new(&self.workspace_path).join(&self.path);
        let parts: Vec<&str> = joined
            .components()
            .filter_map(|part| match part {
                Utf8Component::Normal(name) => Some(name),
                _ => None,
            })
            .collect();
        parts.join("/")
    }
}

fn is_variable(key: &str) -> bool {
    key.len() <= MAX_KEY
        && key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Spec, SpecError> {
        Spec::parse(text.as_bytes())
    }

    #[test]
    fn a_specification_is_read_in_either_spelling() {
        let spec = parse(
            r#"[{"workspacePath": "app", "path": "./web/.env.local", "format": "dotenv",
                 "mode": "secret", "keys": [{"key": "A", "required": false}, {"key": "B"}]}]"#,
        )
        .unwrap();
        assert_eq!(spec.0[0].below(), "app/web/.env.local");
        assert!(spec.0[0].keys[1].required);
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        for path in [
            "../x",
            "/etc/x",
            "a/../../x",
            "",
            ".",
            "a/",
            ".git/config",
            "a\\nb",
        ] {
            let text = format!(r#"[{{"path": "{path}", "keys": []}}]"#);
            assert!(parse(&text).is_err(), "{path}");
        }
        assert!(parse(r#"[{"workspace_path": "..", "path": "x", "keys": []}]"#).is_err());
        assert!(parse(r#"[{"path": "x", "keys": [{"key": "A-B"}]}]"#).is_err());
        assert!(parse(r#"[{"path": "x", "keys": []}, {"path": "./x", "keys": []}]"#).is_err());
        assert!(parse(r#"[{"path": "x", "format": "yaml", "keys": []}]"#).is_err());
        assert!(parse("{}").is_err());
        let read_otherwise = serde_json::from_str::<Spec>(r#"[{"path": "../x", "keys": []}]"#);
        assert!(read_otherwise.is_err());
    }
}
