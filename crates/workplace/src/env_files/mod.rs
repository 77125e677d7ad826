//! Env files: what the user's programs read their settings from. What is secret lies in a file
//! system in memory, and the workspace has a link to it, so that no snapshot ever holds a value.
//!
//! Applying checks everything before it writes anything.

mod quote;
mod spec;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use serde::Serialize;
use wire::guest::ListedKind;

use crate::files::{FileError, Files};
use crate::place::Place;
use crate::state;

pub use spec::{Entry, Key, Mode, Spec, SpecError};

/// Of all that is secret together: the file system has one MiB.
const MAX_SECRET: usize = 768 << 10;
const MAX_VALUE: usize = 64 << 10;
const MAX_FILE: u64 = 1 << 20;
const VALUES: &str = "values.json";
const EXCLUDE: &str = "info/exclude";

#[derive(Debug, thiserror::Error)]
pub enum EnvError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("nothing was written: there is no value for {}", .0.join(", "))]
    Missing(Vec<String>),
    #[error("the value of {0} is longer than 64 KiB or has a NUL in it")]
    Value(String),
    #[error("the values are longer than {MAX_SECRET} bytes together")]
    TooLong,
    #[error("nothing was written: {0} is there and is not a link of ours")]
    InTheWay(String),
    #[error("{path} cannot be written")]
    Write { path: String, source: FileError },
    #[error("the values cannot be kept")]
    Keep(#[source] io::Error),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applied {
    pub path: String,
    pub key_count: usize,
    pub mode: Mode,
}

#[derive(Debug)]
pub struct EnvFiles {
    files: Files,
    place: Place,
    /// Given for this session; never on a disk.
    values: RefCell<BTreeMap<String, String>>,
    /// What the session is to have, and has no values for yet.
    waiting: RefCell<Spec>,
}

impl EnvFiles {
    pub fn new(files: Files, place: Place) -> Self {
        let content = state::read(&place.secrets.join(VALUES), MAX_FILE);
        let values = content.ok().flatten();
        let values = values.and_then(|content| serde_json::from_slice(&content).ok());
        Self {
            files,
            place,
            values: RefCell::new(values.unwrap_or_default()),
            waiting: RefCell::default(),
        }
    }

    /// Takes values that somebody gave. They are also in a file that only the user can read.
    pub fn give(&self, given: BTreeMap<String, String>) -> Result<(), EnvError> {
        let mut values = self.values.borrow().clone();
        for (key, value) in given {
            check_value(&key, &value)?;
            values.insert(key, value);
        }
        if values
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum::<usize>()
            > MAX_SECRET / 2
        {
            return Err(EnvError::TooLong);
        }
        let content = serde_json::to_vec(&values).map_err(|error| EnvError::Keep(error.into()))?;
        self.keep(VALUES, &content).map_err(EnvError::Keep)?;
        *self.values.borrow_mut() = values;
        Ok(())
    }

    /// As [`EnvFiles::apply`], now or when the values that are missing are given.
    pub async fn apply_or_wait(&self, spec: &Spec) -> Result<Vec<Applied>, EnvError> {
        let applied = self.apply(spec, &BTreeMap::new()).await;
        if let Err(EnvError::Missing(_)) = applied {
            *self.waiting.borrow_mut() = spec.clone();
        }
        applied
    }

    /// After something was given: writes what waited for it, and anew what is made of it alone.
    pub async fn catch_up(&self) -> Result<Vec<Applied>, EnvError> {
        let waiting = self.waiting.borrow().clone();
        let (due, left) = {
            let values = self.values.borrow();
            let has = |key: &Key| values.contains_key(&key.key);
            let (mut due, left): (Vec<Entry>, Vec<Entry>) = waiting
                .0
                .into_iter()
                .partition(|entry| entry.keys.iter().all(|key| !key.required || has(key)));
            let known = self.known().0.into_iter();
            due.extend(known.filter(|entry| entry.keys.iter().all(has)));
            (Spec(due), Spec(left))
        };
        let applied = self.apply(&due, &BTreeMap::new()).await?;
        *self.waiting.borrow_mut() = left;
        Ok(applied)
    }

    /// Writes every file of a specification, or none. `also` has values of whoever asks; those that
    /// were given for the session win.
    pub async fn apply(
        &self,
        spec: &Spec,
        also: &BTreeMap<String, String>,
    ) -> Result<Vec<Applied>, EnvError> {
        let contents = self.contents(spec, also)?;
        for entry in &spec.0 {
            let there = self.look(&entry.below()).await?;
            let is_free = match entry.mode {
                Mode::Secret => matches!(there, None | Some(ListedKind::Symlink)),
                Mode::Public => matches!(there, None | Some(ListedKind::File)),
            };
            if !is_free {
                return Err(EnvError::InTheWay(entry.below()));
            }
        }
        let mut applied = Vec::new();
        for (entry, content) in spec.0.iter().zip(&contents) {
            let path = entry.below();
            self.write(entry, content)
                .await
                .map_err(|source| EnvError::Write {
                    path: path.clone(),
                    source,
                })?;
            // Best effort: a repository without the line shows the file as new, no more.
            let _ = self.exclude(&path).await;
            applied.push(Applied {
                path,
                key_count: entry.keys.len(),
                mode: entry.mode,
            });
        }
        self.remember(spec);
        Ok(applied)
    }

    /// Removes the links and what they led to, and the values given for this session. Public files
    /// stay. Without a specification: of all that were applied.
    pub async fn scrub(&self, spec: Option<&Spec>) -> Result<Vec<String>, EnvError> {
        let known = self.known();
        let spec = spec.unwrap_or(&known);
        let mut scrubbed = Vec::new();
        for entry in spec.0.iter().filter(|entry| entry.mode == Mode::Secret) {
            let path = entry.below();
            if self.look(&path).await? == Some(ListedKind::Symlink) {
                self.files
                    .remove(&path)
                    .await
                    .map_err(|source| EnvError::Write {
                        path: path.clone(),
                        source,
                    })?;
                scrubbed.push(path.clone());
            }
            let _ = fs::remove_file(self.place.secrets.join(secret_name(&path)));
        }
        let _ = fs::remove_file(self.place.secrets.join(VALUES));
        self.values.borrow_mut().clear();
        Ok(scrubbed)
    }

    fn contents(
        &self,
        spec: &Spec,
        also: &BTreeMap<String, String>,
    ) -> Result<Vec<Vec<u8>>, EnvError> {
        let values = self.values.borrow();
        let find = |key: &str| values.get(key).or_else(|| also.get(key));
        let missing: BTreeSet<&str> = spec
            .0
            .iter()
            .flat_map(|entry| &entry.keys)
            .filter(|key| key.required && find(&key.key).is_none())
            .map(|key| key.key.as_str())
            .collect();
        if !missing.is_empty() {
            return Err(EnvError::Missing(
                missing.into_iter().map(str::to_owned).collect(),
            ));
        }
        let mut contents = Vec::new();
        for entry in &spec.0 {
            let mut content = String::new();
            for key in &entry.keys {
                if let Some(value) = find(&key.key) {
                    check_value(&key.key, value)?;
                    content.push_str(&quote::line(&key.key, value));
                }
            }
            contents.push(content.into_bytes());
        }
        if contents.iter().map(Vec::len).sum::<usize>() > MAX_SECRET / 2 {
            return Err(EnvError::TooLong);
        }
        Ok(contents)
    }

    async fn look(&self, path: &str) -> Result<Option<ListedKind>, EnvError> {
        match self.files.look(path).await {
            Ok(kind) => Ok(kind),
            Err(FileError::NotFound(_)) => Ok(None),
            Err(source) => Err(EnvError::Write {
                path: path.to_owned(),
                source,
            }),
        }
    }

    async fn write(&self, entry: &Entry, content: &[u8]) -> Result<(), FileError> {
        let path = entry.below();
        match entry.mode {
            Mode::Public => self.files.write(&path, content, None).await,
            Mode::Secret => {
                let name = secret_name(&path);
                self.keep(&name, content)
                    .map_err(|error| FileError::Exhausted(error.to_string()))?;
                let target = self.place.secrets.join(&name);
                self.files.link(&path, target.as_str()).await
            }
        }
    }

    /// In memory, for the user alone.
    fn keep(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let path = self.place.secrets.join(name);
        state::replace_with_mode(&path, content, 0o600)?;
        let owner = fs::metadata(&self.place.home)?;
        std::os::unix::fs::lchown(&path, Some(owner.uid()), Some(owner.gid()))
    }

    /// So that nobody commits it.
    async fn exclude(&self, path: &str) -> Result<(), FileError> {
        let Some((repo, rest)) = self.repository_of(path).await? else {
            return Ok(());
        };
        let file = repo.join(".git").join(EXCLUDE);
        let line = quote::pattern(&rest);
        let mut content = match self.files.read(file.as_str(), 0, MAX_FILE).await {
            Ok(part) => part.bytes,
            Err(FileError::NotFound(_)) => Vec::new(),
            Err(error) => return Err(error),
        };
        if content
            .split(|byte| *byte == b'\n')
            .any(|known| known == line.as_bytes())
        {
            return Ok(());
        }
        if !content.is_empty() && !content.ends_with(b"\n") {
            content.push(b'\n');
        }
        content.extend_from_slice(line.as_bytes());
        content.push(b'\n');
        self.files.write(file.as_str(), &content, None).await
    }

    /// The nearest directory above that is one, and the rest of the path.
    async fn repository_of(&self, path: &str) -> Result<Option<(Utf8PathBuf, String)>, FileError> {
        let path = Utf8Path::new(path);
        for directory in path.ancestors().skip(1) {
            let git = directory.join(".git");
            if self.files.look(git.as_str()).await? == Some(ListedKind::Directory) {
                let rest = path.strip_prefix(directory).unwrap_or(path);
                return Ok(Some((directory.to_owned(), rest.to_string())));
            }
        }
        Ok(None)
    }

    /// Which files, not what is in them.
    fn remember(&self, spec: &Spec) {
        let mut known = self.known();
        known
            .0
            .retain(|entry| spec.0.iter().all(|new| new.below() != entry.below()));
        known.0.extend(spec.0.iter().cloned());
        if let Ok(content) = serde_json::to_vec_pretty(&known) {
            let _ = state::replace(&self.place.state.join("env_files.json"), &content);
        }
    }

    fn known(&self) -> Spec {
        let content = state::read(&self.place.state.join("env_files.json"), MAX_FILE);
        let content = content.ok().flatten();
        content
            .and_then(|content| Spec::parse(&content).ok())
            .unwrap_or_default()
    }
}

fn check_value(key: &str, value: &str) -> Result<(), EnvError> {
    if value.len() > MAX_VALUE || value.contains('\0') {
        return Err(EnvError::Value(key.to_owned()));
    }
    Ok(())
}

/// One for each path, whatever its letters.
fn secret_name(path: &str) -> String {
    let hash = path.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("file-{hash:016x}")
}
