//! `STATE/metadata.json`: what a restored sandbox knows of itself. Fields that others put there are
//! kept; what cannot be read counts as not there.

use std::io;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::place::Place;
use crate::state;

const MAX_FILE: u64 = 1 << 20;
const LAST_GIT_FETCH_AT: &str = "last_git_fetch_at";

#[derive(Debug, Default)]
pub(super) struct Metadata(Map<String, Value>);

impl Metadata {
    pub(super) fn load(place: &Place) -> Self {
        let content = state::read(&place.state.join("metadata.json"), MAX_FILE);
        let parsed = content
            .ok()
            .flatten()
            .and_then(|content| serde_json::from_slice(&content).ok());
        Self(parsed.unwrap_or_default())
    }

    pub(super) fn store(&self, place: &Place) -> io::Result<()> {
        let content = serde_json::to_vec_pretty(&self.0)?;
        state::replace(&place.state.join("metadata.json"), &content)
    }

    pub(super) fn last_git_fetch_at(&self) -> Option<Timestamp> {
        self.0.get(LAST_GIT_FETCH_AT)?.as_str()?.parse().ok()
    }

    pub(super) fn set_last_git_fetch_at(&mut self, at: Timestamp) {
        self.0
            .insert(LAST_GIT_FETCH_AT.to_owned(), at.to_string().into());
    }
}
