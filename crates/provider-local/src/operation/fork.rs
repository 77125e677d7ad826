use provider::{ProviderError, SandboxId, SandboxSpec, Workplace};

use super::Engine;
use super::create::{MAX_STACK, Stack};
use crate::home::entries;
use crate::intent::Intent;
use crate::layer::{self, LayerId};
use crate::record::Record;

/// One call makes at most this many; a larger herd comes from a snapshot.
const MAX_FORKS: usize = 1000;

impl Engine {
    /// New sandboxes on a copy of what one has on disk now; all of them or none.
    pub(crate) fn fork(&self, id: SandboxId, count: usize) -> Result<Vec<Record>, ProviderError> {
        if !(1..=MAX_FORKS).contains(&count) {
            return Err(ProviderError::refused(format!(
                "a fork makes 1 to {MAX_FORKS} sandboxes"
            )));
        }
        let top = LayerId::new(&*self.clock);
        let capturing = Intent::Capture {
            sandbox: id,
            layer: top.clone(),
            snapshot: None,
        }
        .declare(&self.home)?;
        let captured = match self.capture(id, &top) {
            Ok(captured) => captured,
            Err(error) => {
                layer::discard(&self.home, &top)?;
                capturing.done();
                return Err(error);
            }
        };
        let origin = &captured.record;
        let mut layers: Vec<LayerId> = std::iter::once(top.clone())
            .chain(origin.layers.iter().cloned())
            .collect();
        // Forks of forks would grow without end.
        let layer = if layers.len() > MAX_STACK {
            LayerId::new(&*self.clock)
        } else {
            top.clone()
        };
        let fork = layer.to_string();
        let intent = Intent::Fork {
            layer: layer.clone(),
            fork: fork.clone(),
        }
        .declare(&self.home)?;
        if layer != top {
            let flattened = self.flatten_into(&layers, &layer);
            layer::discard(&self.home, &top)?;
            if let Err(error) = flattened {
                layer::discard(&self.home, &layer)?;
                intent.done();
                capturing.done();
                return Err(error);
            }
            layers = vec![layer.clone()];
        }
        capturing.done();
        model::failpoint::hit("fork.captured");
        let spec = spec_of(origin);
        let stack = Stack {
            layers,
            host: origin.host.clone(),
            egress: origin.egress.clone(),
        };
        let mut made = Vec::with_capacity(count);
        for _ in 0..count {
            match self.create_on(&spec, stack.clone(), Some(fork.clone()), None) {
                Ok(record) => made.push(record),
                Err(error) => {
                    self.undo_fork(&layer, &fork)?;
                    intent.done();
                    return Err(error);
                }
            }
            model::failpoint::hit("fork.cloned");
        }
        intent.done();
        Ok(made)
    }

    pub(crate) fn undo_fork(&self, layer: &LayerId, fork: &str) -> Result<(), ProviderError> {
        // Nobody else has seen them: they are hidden until the fork's intent is gone.
        for name in entries(&self.home.path("sandboxes"))? {
            if let Ok(id) = name.parse()
                && let Some(record) = Record::find_unfinished(&self.home, id)?
                && record.fork.as_deref() == Some(fork)
            {
                self.remove_declared(id, Some(&record))?;
            }
        }
        layer::discard(&self.home, layer)
    }
}

/// A fork has its origin's limits and labels, but not what only one may have.
fn spec_of(record: &Record) -> SandboxSpec {
    SandboxSpec {
        name: None,
        key: None,
        origin: provider::Origin::Bare,
        generation: record.generation,
        memory: record.memory.map(model::ByteCount::new),
        pids: record.pids,
        cpu_millis: record.cpu_millis,
        disk: record.disk.map(model::ByteCount::new),
        env: record.env.clone(),
        labels: record.labels.clone(),
        network: record.network,
        // Its origin's grant holds everything.
        allow: Vec::new(),
        runtime: record.runtime,
        forwards: record.forwards.clone(),
        // The origin's session stays with it.
        workplace: record.workplace.as_ref().map(|origin| Workplace {
            session: None,
            link: origin.link,
        }),
        lifetime: None,
    }
}
