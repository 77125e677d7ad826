//! What one request comes to, told exactly once, however it ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wire::link::Usage;

use super::price::Known;
use super::tap::Tap;
use super::{Asker, Meter, Used};
use crate::visitor::Visitor;

pub(super) struct Account {
    meter: Arc<dyn Meter>,
    visitor: Visitor,
    asked: Asked,
    opened: Instant,
    status: Option<u16>,
    /// The upstream said no, and charges nothing for that.
    is_refused: bool,
    tap: Option<Tap>,
}

/// What was asked for.
pub(super) struct Asked {
    pub(super) asker: Asker,
    pub(super) provider: String,
    pub(super) model: String,
    pub(super) price: Known,
}

impl Account {
    pub(super) fn open(meter: Arc<dyn Meter>, visitor: Visitor, asked: Asked) -> Self {
        Self {
            meter,
            visitor,
            asked,
            opened: Instant::now(),
            status: None,
            is_refused: false,
            tap: None,
        }
    }

    pub(super) fn answered(&mut self, status: u16) {
        self.status = Some(status);
    }

    pub(super) fn refused(&mut self) {
        self.is_refused = true;
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

    fn is_complete(&self) -> bool {
        let has_said = self.tap.as_ref().is_some_and(Tap::is_complete);
        has_said || self.is_refused || self.asked.price == Known::Free
    }

    fn cost(&self, usage: &Usage) -> Option<u64> {
        match &self.asked.price {
            Known::Free => Some(0),
            _ if self.is_refused => Some(0),
            // It took something, and nobody knows what: that is not nothing.
            _ if *usage == Usage::default() && !self.is_complete() => None,
            Known::Price(price) => Some(price.of(usage)),
            Known::Nothing => None,
        }
    }
}

/// Whoever held it is done: the answer's end was sent, or the client, the upstream or the whole
/// request went away.
impl Drop for Account {
    fn drop(&mut self) {
        let usage = self.tap.as_ref().map_or_else(Usage::default, Tap::usage);
        let used = Used {
            cost_micros: self.cost(&usage),
            is_complete: self.is_complete(),
            asker: std::mem::take(&mut self.asked.asker),
            provider: std::mem::take(&mut self.asked.provider),
            model: std::mem::take(&mut self.asked.model),
            usage,
            status: self.status,
            took_ms: milliseconds(self.opened.elapsed()),
        };
        self.meter.used(&self.visitor, used);
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
