use std::time::Instant;

/// Milliseconds since then, as receipts show them.
pub(crate) fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}
