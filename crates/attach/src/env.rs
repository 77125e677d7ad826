//! Values that the agent asks a person for. They are typed one after the other, are never shown, and
//! go into the sandbox, not into the conversation.

use std::collections::BTreeMap;

use model::Secret;
use serde::Deserialize;
use serde_json::Value;
use wire::link::{EnvVariable, Suggestion};
use wire::v1::EnvValues;

use crate::ask::Decided;
use crate::editor::Editor;
use crate::screen::Deed;

/// Values that were typed, by name.
pub(crate) type Given = BTreeMap<String, Secret>;

const KEEP: usize = 1;
const NOT_NOW: usize = 2;

/// One request, at one of its steps: a value each, and then whether they are given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Env {
    pub(crate) id: String,
    keys: Vec<EnvVariable>,
    pub(crate) step: usize,
    /// Names of values that were typed already.
    names: Vec<String>,
}

#[derive(Deserialize)]
struct Request {
    id: String,
    keys: Vec<EnvVariable>,
}

impl Env {
    /// None when all its steps were gone through.
    pub(crate) fn read(
        asked: &Value,
        is_open: impl Fn(usize) -> bool,
        given: Option<&Given>,
    ) -> Option<Self> {
        let Request { id, keys } = Request::deserialize(asked).ok()?;
        let step = (0..=keys.len()).find(|step| is_open(*step))?;
        let names = given.into_iter().flatten().map(|(name, _)| name.clone());
        Some(Self {
            id,
            keys,
            step,
            names: names.collect(),
        })
    }

    pub(crate) fn steps(&self) -> usize {
        self.keys.len() + 1
    }

    /// The value that is asked for; none at the last step.
    pub(crate) fn wants(&self) -> Option<&EnvVariable> {
        self.keys.get(self.step)
    }

    pub(crate) fn text(&self) -> String {
        let Some(wanted) = self.wants() else {
            return match self.names.as_slice() {
                [] => "Go on without any value?".to_owned(),
                names => format!("Give {} to the sandbox?", names.join(", ")),
            };
        };
        let count = match self.keys.len() {
            1 => String::new(),
            all => format!("({} of {all}) ", self.step + 1),
        };
        let about = wanted.description.as_deref().unwrap_or_default();
        let about = match about {
            "" => String::new(),
            about => format!("\n{about}"),
        };
        format!(
            "{count}The agent asks for the value of {}{about}",
            wanted.key
        )
    }

    pub(crate) fn options(&self) -> Vec<(String, String)> {
        let option = |label: &str, means: &str| (label.to_owned(), means.to_owned());
        let Some(wanted) = self.wants() else {
            return vec![
                option("give", "into the sandbox as it is now"),
                option("give and keep", "as secrets of this session"),
                option("not now", ""),
            ];
        };
        let suggested = suggested(wanted).map(|(suggestion, _)| {
            let means = suggestion.instructions.as_deref().unwrap_or_default();
            option(&suggestion.label, means)
        });
        let leave_out = (!wanted.required).then(|| option("leave it out", ""));
        suggested.chain(leave_out).collect()
    }

    pub(crate) fn first_choice(&self) -> usize {
        let is_last = self.wants().is_none();
        let is_secret = |key: &EnvVariable| key.secret && self.names.contains(&key.key);
        if is_last && self.keys.iter().any(is_secret) {
            KEEP
        } else {
            0
        }
    }

    /// What Enter does with what was typed, or is chosen.
    pub(crate) fn decide(&self, given: &mut Given, typed: &mut Editor, chosen: usize) -> Decided {
        let Some(wanted) = self.wants() else {
            return match chosen {
                NOT_NOW => Decided::PutOff,
                chosen => Decided::Deed(self.give(given, chosen == KEEP)),
            };
        };
        let value = match typed.take() {
            typed if !typed.is_empty() => Some(typed.trim_end_matches('\n').to_owned()),
            _ => suggested(wanted)
                .nth(chosen)
                .map(|(_, value)| value.to_owned()),
        };
        match value {
            Some(value) => drop(given.insert(wanted.key.clone(), Secret::new(value))),
            None if wanted.required => return Decided::Missing("type the value, then Enter"),
            None => drop(given.remove(&wanted.key)),
        }
        Decided::Step
    }

    fn give(&self, given: &Given, is_kept: bool) -> Deed {
        let values: BTreeMap<String, String> = given
            .iter()
            .map(|(name, value)| (name.clone(), value.expose().to_owned()))
            .collect();
        let kept = values.keys().filter(|_| is_kept);
        let persist = kept.cloned().collect();
        Deed::Env(EnvValues {
            id: Some(self.id.clone()),
            values,
            persist,
        })
    }
}

fn suggested(wanted: &EnvVariable) -> impl Iterator<Item = (&Suggestion, &str)> {
    let all = wanted.suggestions.iter();
    all.filter_map(|suggestion| Some((suggestion, suggestion.value.as_deref()?)))
}
