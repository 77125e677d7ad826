//! Models that we know of: those that agents are offered, and what they cost. A file and no code, so
//! that a new model or another price is a line in it; the configuration goes before it.

use std::sync::LazyLock;

use serde::Deserialize;

use super::config::ModelInfo;
use super::price::Price;

/// Where its numbers are from, how old and how sure, it says itself.
const FILE: &str = include_str!("catalogue.json");

#[derive(Debug, Deserialize)]
struct Catalogue {
    models: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    provider: String,
    id: String,
    /// One without a name is known by its price alone, and offered to nobody.
    name: Option<String>,
    context: Option<u64>,
    output: Option<u64>,
    price: Option<Rates>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rates {
    input: u64,
    output: u64,
    #[serde(default)]
    cache_read: u64,
    #[serde(default)]
    cache_write: u64,
}

static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| serde_json::from_str(FILE).expect("a test reads the checked-in catalogue"));

/// Those of a provider that agents are told of, the usual one first.
pub(super) fn offered(provider: &str) -> Vec<ModelInfo> {
    let entries = CATALOGUE.models.iter();
    let of_it = entries.filter(|entry| entry.provider == provider && entry.name.is_some());
    of_it.map(Entry::info).collect()
}

/// What is known of a model by its name, which may be nothing.
pub(super) fn info(provider: &str, id: &str) -> ModelInfo {
    let mut entries = CATALOGUE.models.iter();
    let found = entries.find(|entry| entry.provider == provider && entry.id == id);
    found.map_or_else(
        || ModelInfo {
            id: id.to_owned(),
            name: None,
            context_limit: None,
            output_limit: None,
        },
        Entry::info,
    )
}

pub(super) fn prices() -> impl Iterator<Item = Price> {
    CATALOGUE.models.iter().filter_map(|entry| {
        let rates = entry.price?;
        Some(Price {
            provider: entry.provider.clone(),
            model: entry.id.clone(),
            input: rates.input,
            output: rates.output,
            cache_read: rates.cache_read,
            cache_write: rates.cache_write,
        })
    })
}

impl Entry {
    fn info(&self) -> ModelInfo {
        ModelInfo {
            id: self.id.clone(),
            name: self.name.clone(),
            context_limit: self.context,
            output_limit: self.output,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_file_says_when_and_where_its_numbers_are_from() {
        let file: serde_json::Value = serde_json::from_str(FILE).unwrap();
        let date = file["collected"].as_str().unwrap();
        assert_eq!(date.len(), "2026-01-01".len(), "{date}");
        for entry in &CATALOGUE.models {
            let source = file["sources"][&entry.provider].as_str();
            assert!(source.is_some_and(|text| !text.is_empty()), "{entry:?}");
        }
    }

    #[test]
    fn no_model_is_there_twice_and_each_that_is_offered_has_its_limits() {
        let mut seen = HashSet::new();
        for entry in &CATALOGUE.models {
            assert!(seen.insert((&entry.provider, &entry.id)), "{entry:?}");
            let has_limits = entry.context.is_some() && entry.output.is_some();
            assert_eq!(entry.name.is_some(), has_limits, "{entry:?}");
        }
        assert!(!offered("anthropic").is_empty() && !offered("openai").is_empty());
    }

    #[test]
    fn what_nobody_wrote_down_is_known_by_its_name_alone() {
        let known = info("anthropic", "claude-sonnet-4-5");
        assert_eq!(known.context_limit, Some(200_000));
        let unknown = info("anthropic", "claude-of-tomorrow");
        assert_eq!((unknown.name, unknown.context_limit), (None, None));
    }
}
