use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::{Clock as _, SignedDuration, SystemClock, Timestamp};
use tokio::sync::mpsc;

use crate::{Context, Trace};

/// What one span may hold; what comes then is not kept.
const MOMENTS: usize = 64;
const ATTRIBUTES: usize = 32;
/// The whole of it is in the log.
const LONGEST: usize = 300;

/// One for the whole process, as with counters: what is timed does not know for whom.
static SINK: OnceLock<Sink> = OnceLock::new();

/// Where spans go when they are over.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) queue: mpsc::Sender<Record>,
    /// For which there was no room.
    pub(crate) lost: AtomicU64,
}

/// False where there is one already.
pub(crate) fn install(sink: Sink) -> bool {
    SINK.set(sink).is_ok()
}

pub(crate) fn lost() -> u64 {
    SINK.get()
        .map_or(0, |sink| sink.lost.swap(0, Ordering::Relaxed))
}

/// Whether spans go anywhere.
pub fn is_on() -> bool {
    SINK.get().is_some()
}

/// Who waits for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Internal = 1,
    /// Somebody outside asked for it.
    Server = 2,
    /// Somebody outside is asked.
    Client = 3,
}

/// What is said of a span. Never what a person or an agent said, and no secrets.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(Cow<'static, str>),
    Number(i64),
    Flag(bool),
}

/// A span that is over, as it goes out.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) at: Trace,
    pub(crate) parent: Option<u64>,
    pub(crate) kind: Kind,
    pub(crate) name: Cow<'static, str>,
    pub(crate) begun: Timestamp,
    pub(crate) ended: Timestamp,
    pub(crate) attributes: Vec<(&'static str, Value)>,
    pub(crate) moments: Vec<Moment>,
    pub(crate) fault: Option<String>,
}

/// Something that happened in a span.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) name: &'static str,
    pub(crate) at: Timestamp,
    pub(crate) attributes: Vec<(&'static str, Value)>,
}

/// A step that is being done. It is over when it is dropped.
#[derive(Debug)]
pub struct Span(Inner);

#[derive(Debug)]
enum Inner {
    /// Nobody looks; the trace is handed on all the same.
    Off(Option<Trace>),
    On(Box<Record>),
}

/// A step of what `parent` belongs to, or of a new trace.
pub fn span(name: impl Into<Cow<'static, str>>, parent: Option<Trace>) -> Span {
    let is_wanted = parent.is_none_or(|parent| parent.is_sampled);
    if !is_on() || !is_wanted {
        return Span(Inner::Off(parent));
    }
    Span(Inner::On(Box::new(Record {
        at: parent.map_or_else(Trace::begin, Trace::step),
        parent: parent.map(|parent| parent.span),
        kind: Kind::Internal,
        name: name.into(),
        begun: SystemClock.now(),
        ended: Timestamp::UNIX_EPOCH,
        attributes: Vec::new(),
        moments: Vec::new(),
        fault: None,
    })))
}

impl Span {
    /// Of nothing.
    pub fn none() -> Self {
        Self(Inner::Off(None))
    }

    fn open(&mut self) -> Option<&mut Record> {
        match &mut self.0 {
            Inner::On(record) => Some(record),
            Inner::Off(_) => None,
        }
    }

    /// It is not worth a look.
    pub fn discard(mut self) {
        self.0 = Inner::Off(None);
    }

    /// What is done inside it belongs to this.
    pub fn trace(&self) -> Option<Trace> {
        match &self.0 {
            Inner::On(record) => Some(record.at),
            Inner::Off(trace) => *trace,
        }
    }

    /// The same, with who asked.
    pub fn context(&self, of: &Context) -> Context {
        Context {
            request: of.request.clone(),
            trace: self.trace(),
        }
    }

    #[must_use]
    pub fn of_kind(mut self, kind: Kind) -> Self {
        if let Some(open) = self.open() {
            open.kind = kind;
        }
        self
    }

    /// It began so long ago.
    #[must_use]
    pub fn for_the_last(mut self, time: Duration) -> Self {
        if let Some(open) = self.open() {
            let time = SignedDuration::try_from(time).unwrap_or_default();
            open.begun = open.begun.checked_sub(time).unwrap_or(open.begun);
        }
        self
    }

    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.note(key, value);
        self
    }

    pub fn note(&mut self, key: &'static str, value: impl Into<Value>) {
        if let Some(open) = self.open()
            && open.attributes.len() < ATTRIBUTES
        {
            open.attributes.retain(|(known, _)| *known != key);
            open.attributes.push((key, value.into().shortened()));
        }
    }

    /// A better name for it is known now.
    pub fn rename(&mut self, name: impl Into<Cow<'static, str>>) {
        if let Some(open) = self.open() {
            open.name = name.into();
        }
    }

    pub fn moment(&mut self, name: &'static str, attributes: Vec<(&'static str, Value)>) {
        if let Some(open) = self.open()
            && open.moments.len() < MOMENTS
        {
            let shortened = attributes
                .into_iter()
                .map(|(key, value)| (key, value.shortened()));
            open.moments.push(Moment {
                name,
                at: SystemClock.now(),
                attributes: shortened.collect(),
            });
        }
    }

    pub fn fail(&mut self, why: impl Into<String>) {
        if let Some(open) = self.open() {
            open.fault = Some(cut(&why.into()));
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Inner::On(record) = std::mem::replace(&mut self.0, Inner::Off(None)) else {
            return;
        };
        let mut record = *record;
        record.ended = SystemClock.now();
        let Some(sink) = SINK.get() else { return };
        // Nobody waits for whoever looks.
        if sink.queue.try_send(record).is_err() {
            sink.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Value {
    fn shortened(self) -> Self {
        match self {
            Self::Text(text) if text.len() > LONGEST => Self::Text(cut(&text).into()),
            other => other,
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nobody_looks_the_callers_trace_is_handed_on_and_nothing_is_kept() {
        let caller = Trace::begin();
        let mut span = span("a step", Some(caller)).with("key", "value");
        span.moment("now", Vec::new());
        assert_eq!(span.trace(), Some(caller));
        assert!(span.open().is_none());
        assert_eq!(super::span("another", None).trace(), None);
    }
}
