//! What tokens cost. Integers only: micro-dollars for a million tokens, micro-dollars for a request.

use serde::{Deserialize, Serialize};
use wire::link::Usage;

use super::catalogue;
use crate::demo;

/// Micro-dollars for a million tokens of a provider's model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub provider: String,
    pub model: String,
    pub input: u64,
    /// Reasoning too.
    pub output: u64,
    #[serde(default)]
    pub cache_read: u64,
    #[serde(default)]
    pub cache_write: u64,
}

/// What is known of the price of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// It asks for nothing that costs.
    Free,
    Price(Price),
    Nothing,
}

#[derive(Debug)]
pub(super) struct Prices(Vec<Price>);

impl Prices {
    pub(super) fn new(first: Vec<Price>) -> Self {
        let mut all = first;
        all.extend(catalogue::prices());
        all.push(Price {
            provider: demo::PROVIDER.to_owned(),
            model: demo::MODEL.to_owned(),
            input: 0,
            output: 0,
            cache_read: 0,
            cache_write: 0,
        });
        Self(all)
    }

    pub(super) fn find(&self, provider: &str, model: &str) -> Option<&Price> {
        let of = |name: &str| {
            let mut entries = self.0.iter();
            entries.find(|entry| entry.provider == provider && entry.model == name)
        };
        of(model).or_else(|| of(without_date(model)))
    }
}

impl Price {
    /// Rounded up, so that nothing that costs is free.
    pub fn of(&self, usage: &Usage) -> u64 {
        let parts = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.reasoning_tokens, self.output),
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
        ];
        let sum = parts.iter().fold(0_u128, |sum, &(tokens, price)| {
            sum.saturating_add(u128::from(tokens) * u128::from(price))
        });
        u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// `gpt-5-2025-08-07`, `claude-sonnet-4-5-20250929` and `…-latest` are versions of one model.
fn without_date(model: &str) -> &str {
    if let Some(name) = model.strip_suffix("-latest") {
        return name;
    }
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((name, date)) = model.rsplit_once('-')
        && date.len() == 8
        && digits(date)
    {
        return name;
    }
    let Some((name, date)) = model
        .len()
        .checked_sub(11)
        .and_then(|at| model.split_at_checked(at))
    else {
        return model;
    };
    let parts: Vec<&str> = date.split('-').collect();
    let is_date = matches!(parts[..], ["", year, month, day]
        if year.len() == 4 && month.len() == 2 && day.len() == 2
            && digits(year) && digits(month) && digits(day));
    if is_date { name } else { model }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Price {
        Price {
            provider: "openai".to_owned(),
            model: "gpt-5".to_owned(),
            input,
            output,
            cache_read,
            cache_write,
        }
    }

    #[test]
    fn the_published_prices_can_be_read() {
        let prices = Prices::new(Vec::new());
        assert!(prices.0.len() > 10);
        for entry in prices
            .0
            .iter()
            .filter(|entry| entry.provider != demo::PROVIDER)
        {
            assert!(entry.input > 0 && entry.output > entry.input);
            assert!(entry.cache_read < entry.input, "{}", entry.model);
        }
    }

    #[test]
    fn a_version_costs_what_its_model_costs() {
        let prices = Prices::new(Vec::new());
        let sonnet = prices.find("anthropic", "claude-sonnet-4-5").unwrap();
        for model in ["claude-sonnet-4-5-20250929", "claude-sonnet-4-5-latest"] {
            assert_eq!(prices.find("anthropic", model), Some(sonnet));
        }
        assert!(prices.find("openai", "gpt-5-2025-08-07").is_some());
        for unknown in ["", "gpt", "gpt-5-turbo", "é-2025-08-0é", "gpt-5-2025-8-007"] {
            assert_eq!(prices.find("openai", unknown), None, "{unknown}");
        }
        assert_eq!(prices.find("elsewhere", "gpt-5"), None);
    }

    #[test]
    fn the_configuration_goes_first() {
        let mine = price(1, 2, 0, 0);
        let prices = Prices::new(vec![mine]);
        assert_eq!(prices.find("openai", "gpt-5").unwrap().input, 1);
    }

    #[test]
    fn every_kind_of_token_has_its_price_and_huge_counts_do_no_harm() {
        let price = price(3_000_000, 15_000_000, 300_000, 3_750_000);
        let usage = Usage {
            input_tokens: 1000,
            output_tokens: 100,
            reasoning_tokens: 10,
            cache_read_tokens: 10_000,
            cache_write_tokens: 2,
        };
        // 3000 + 1500 + 150 + 3000 + 7.5
        assert_eq!(price.of(&usage), 7658);
        let huge = Usage {
            input_tokens: u64::MAX,
            output_tokens: u64::MAX,
            ..usage
        };
        assert_eq!(price.of(&huge), u64::MAX);
    }
}
