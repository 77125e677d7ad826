//! What one request comes to, told exactly once, however it ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wire::link::Usage;

use super::price::Price;
use super::tap::Tap;
use super::{Meter, Used};
use crate::visitor::Visitor;

pub(super) struct Account {
    meter: Arc<dyn Meter>,
    visitor: Visitor,
    provider: String,
    model: String,
    price: Option<Price>,
    opened: Instant,
    status: Option<u16>,
    tap: Option<Tap>,
}

impl Account {
    pub(super) fn open(
        meter: Arc<dyn Meter>,
        visitor: Visitor,
        provider: String,
        model: String,
        price: Option<Price>,
    ) -> Self {
        Self {
            meter,
            visitor,
            provider,
            model,
            price,
            opened: Instant::now(),
            status: None,
            tap: None,
        }
    }

    pub(super) fn answered(&mut self, status: u16) {
        self.status = Some(status);
    }

    pub(super) fn listen(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    pub(super) fn pass(&mut self, chunk: &[u8]) {
        if let Some(tap) = &mut self.tap {
            tap.pass(chunk);
        }
    }

    /// All of the answer has passed.
    pub(super) fn end(&mut self) {
        if let Some(tap) = &mut self.tap {
            tap.end();
        }
    }
}

/// Whoever held it is done: the answer's end was sent, or the client, the upstream or the whole
/// request went away.
impl Drop for Account {
    fn drop(&mut self) {
        let usage = self.tap.as_ref().map_or_else(Usage::default, Tap::usage);
        let used = Used {
            provider: std::mem::take(&mut self.provider),
            model: std::mem::take(&mut self.model),
            usage,
            cost_micros: self.price.as_ref().map(|price| price.of(&usage)),
            status: self.status,
            took_ms: milliseconds(self.opened.elapsed()),
            is_complete: self.tap.as_ref().is_some_and(Tap::is_complete),
        };
        self.meter.used(&self.visitor, used);
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
