//! Many times, and what is said of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long each run took, in milliseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples(Vec<f64>);

/// Percentiles are by nearest rank: each is a time that was really measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) n: usize,
    pub(super) min_ms: f64,
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) p99_ms: f64,
}

impl Samples {
    pub(super) fn add(&mut self, took: Duration) {
        self.add_ms(took.as_secs_f64() * 1000.0);
    }

    pub(super) fn add_ms(&mut self, ms: f64) {
        self.0.push(ms);
    }

    /// None when nothing was measured.
    pub(super) fn summary(&self) -> Option<Summary> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        Some(Summary {
            n: sorted.len(),
            min_ms: rounded(*sorted.first()?),
            p50_ms: rounded(percentile(&sorted, 50)?),
            p95_ms: rounded(percentile(&sorted, 95)?),
            p99_ms: rounded(percentile(&sorted, 99)?),
        })
    }
}

/// The smallest of the sorted values that at least `percent` of them do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Of several rounds the one that as many were above as below.
pub(super) fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// To a thousandth: what is below is noise.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts and sizes of a machine are far below 2^52"
)]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: impl IntoIterator<Item = f64>) -> Samples {
        Samples(values.into_iter().collect())
    }

    #[test]
    fn nothing_measured_has_no_summary() {
        assert_eq!(Samples::default().summary(), None);
    }

    #[test]
    fn one_time_is_every_percentile() {
        let mut one = Samples::default();
        one.add(Duration::from_micros(1500));
        let summary = one.summary().unwrap();
        assert_eq!(
            (
                summary.n,
                summary.min_ms,
                summary.p50_ms,
                summary.p95_ms,
                summary.p99_ms
            ),
            (1, 1.5, 1.5, 1.5, 1.5)
        );
    }

    #[test]
    fn percentiles_are_by_rank_and_in_any_order_of_arrival() {
        let summary = samples((1..=200).rev().map(f64::from)).summary().unwrap();
        assert_eq!(
            (
                summary.n,
                summary.min_ms,
                summary.p50_ms,
                summary.p95_ms,
                summary.p99_ms
            ),
            (200, 1.0, 100.0, 190.0, 198.0)
        );
    }

    #[test]
    fn of_few_the_high_percentiles_are_the_worst() {
        let summary = samples([3.0, 9.0, 1.0, 2.0, 4.0]).summary().unwrap();
        assert_eq!((summary.p50_ms, summary.p99_ms), (3.0, 9.0));
    }

    #[test]
    fn what_is_shown_is_rounded_to_a_thousandth() {
        let summary = samples([1.234_567]).summary().unwrap();
        assert!((summary.min_ms - 1.235).abs() < 1e-9, "{summary:?}");
    }
}
