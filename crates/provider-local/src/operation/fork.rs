use provider::{ProviderError, Runtime, SandboxId, SandboxSpec};

use super::Engine;
use super::create::Stack;
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
        let layer = LayerId::new(&*self.clock);
        let fork = layer.to_string();
        let capturing = Intent::Capture {
            sandbox: id,
            layer: layer.clone(),
            snapshot: None,
        }
        .declare(&self.home)?;
        let captured = self.capture(id, &layer);
        let captured = match captured {
            Ok(captured) => captured,
            Err(error) => {
                layer::discard(&self.home, &layer)?;
                capturing.done();
                return Err(error);
            }
        };
        let intent = Intent::Fork {
            layer: layer.clone(),
            fork: fork.clone(),
        }
        .declare(&self.home)?;
        capturing.done();
        model::failpoint::hit("fork.captured");
        let origin = &captured.record;
        let spec = spec_of(origin);
        let stack = Stack {
            layers: std::iter::once(layer.clone())
                .chain(origin.layers.iter().cloned())
                .collect(),
            host: origin.host.clone(),
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
        runtime: Runtime::Native,
        forwards: record.forwards.clone(),
        lifetime: None,
    }
}
