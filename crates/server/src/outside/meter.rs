use std::sync::Arc;

use async_trait::async_trait;
use doors::models::{Limited, Used};
use model::{Clock, Id};
use store::Store;
use store::usage::{Tokens, UsageRecord};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// What waits to be written down.
const WAITING: usize = 4096;

/// Writes down what models took, beside those who use them.
#[derive(Debug)]
pub(super) struct Book {
    clock: Arc<dyn Clock>,
    lines: mpsc::Sender<UsageRecord>,
    _writing: AbortOnDropHandle<()>,
}

impl Book {
    #[expect(
        clippy::disallowed_methods,
        reason = "its handle is held, and ends the task with the book"
    )]
    pub(super) fn new(store: Store, clock: Arc<dyn Clock>) -> Self {
        let (lines, read) = mpsc::channel(WAITING);
        Self {
            clock,
            lines,
            _writing: AbortOnDropHandle::new(tokio::spawn(write(store, read))),
        }
    }
}

async fn write(store: Store, mut lines: mpsc::Receiver<UsageRecord>) {
    while let Some(line) = lines.recv().await {
        let written = async {
            let mut tx = store.begin().await?;
            tx.record_usage(&line).await?;
            tx.commit().await
        };
        if let Err(error) = written.await {
            tracing::error!(session = %line.session, %error, "what a model took was not written down");
        }
    }
}

#[async_trait]
impl doors::Meter for Book {
    async fn may(&self, _visitor: &doors::Visitor) -> Result<(), Limited> {
        Ok(())
    }

    fn used(&self, visitor: &doors::Visitor, used: Used) {
        let (Ok(organisation), Ok(session)) =
            (visitor.organisation.parse(), visitor.session.parse())
        else {
            return;
        };
        let usage = used.usage;
        let line = UsageRecord {
            id: Id::new(&*self.clock),
            organisation,
            session,
            prompt: None,
            provider: used.provider,
            model: used.model,
            tokens: Tokens {
                input: usage.input_tokens,
                output: usage.output_tokens,
                cache_read: usage.cache_read_tokens,
                cache_write: usage.cache_write_tokens,
                reasoning: usage.reasoning_tokens,
            },
            cost_micros: used.cost_micros,
            status: used.status.unwrap_or(0),
            took_ms: used.took_ms,
            at: self.clock.now(),
        };
        if self.lines.try_send(line).is_err() {
            tracing::error!(%session, "what a model took was not written down: too much waits");
        }
    }
}
