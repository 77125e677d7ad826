use std::collections::{BTreeMap, VecDeque};

use model::session::{Effect, Generation};
use tokio_util::sync::CancellationToken;

/// What is to be done to each sandbox: one thing at a time, in order. What ends a sandbox gives up
/// what is being done to it.
#[derive(Debug, Default)]
pub(super) struct Line {
    of: BTreeMap<Generation, Work>,
}

#[derive(Debug, Default)]
struct Work {
    waiting: VecDeque<Effect>,
    current: Option<CancellationToken>,
}

impl Line {
    pub(super) fn put(&mut self, effect: Effect) -> Generation {
        let generation = generation_of(&effect);
        let work = self.of.entry(generation).or_default();
        if matches!(effect, Effect::End { .. } | Effect::Discard { .. }) {
            work.waiting.clear();
            if let Some(current) = &work.current {
                current.cancel();
            }
        }
        work.waiting.push_back(effect);
        generation
    }

    /// The next, unless something is being done; then this is asked again when that is done.
    pub(super) fn next(&mut self, generation: Generation) -> Option<(Effect, CancellationToken)> {
        let work = self.of.get_mut(&generation)?;
        if work.current.is_some() {
            return None;
        }
        let Some(effect) = work.waiting.pop_front() else {
            self.of.remove(&generation);
            return None;
        };
        let given_up = CancellationToken::new();
        work.current = Some(given_up.clone());
        Some((effect, given_up))
    }

    pub(super) fn is_done(&mut self, generation: Generation) {
        if let Some(work) = self.of.get_mut(&generation) {
            work.current = None;
        }
    }
}

fn generation_of(effect: &Effect) -> Generation {
    match effect {
        Effect::Boot { generation, .. }
        | Effect::Rest { generation, .. }
        | Effect::Thaw { generation }
        | Effect::Capture { generation, .. }
        | Effect::End { generation }
        | Effect::Discard { generation } => *generation,
    }
}
