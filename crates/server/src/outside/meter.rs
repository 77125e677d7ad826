//! What models took: written down beside those who use them, for the prompt that it was for.

use std::sync::Arc;
use std::time::Duration;

use ::metrics::{counter, histogram};
use async_trait::async_trait;
use doors::models::{Asker, Budget, Limited, Used};
use model::{Clock, Id, SignedDuration, Timestamp};
use store::Store;
use store::usage::{Sum, Tokens, UsageRecord};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::families::Families;

/// What waits to be written down before no model is asked any more. What was asked before is written
/// all the same.
const WAITING: usize = 4096;
/// Between two tries to write a line; then it is given up.
const TRIES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

#[derive(Debug)]
pub(super) struct Book {
    store: Store,
    clock: Arc<dyn Clock>,
    budget: Budget,
    lines: mpsc::UnboundedSender<Line>,
    /// How many are not written yet.
    waiting: watch::Sender<usize>,
    _writing: AbortOnDropHandle<()>,
}

/// What is to be written, and what tells for which prompt it was.
#[derive(Debug)]
struct Line {
    record: UsageRecord,
    asker: Asker,
    generation: u64,
    began: Timestamp,
}

impl Book {
    #[expect(
        clippy::disallowed_methods,
        reason = "its handle is held, and ends the task with the book"
    )]
    pub(super) fn new(store: Store, clock: Arc<dyn Clock>, budget: Budget) -> Self {
        let (lines, read) = mpsc::unbounded_channel();
        let waiting = watch::Sender::new(0);
        let book_keeper = write(store.clone(), read, waiting.clone());
        Self {
            store,
            clock,
            budget,
            lines,
            waiting,
            _writing: AbortOnDropHandle::new(tokio::spawn(book_keeper)),
        }
    }

    /// Until all that was used so far is written down.
    pub(super) async fn flush(&self) {
        let mut waiting = self.waiting.subscribe();
        // Its sender is ours.
        let _ = waiting.wait_for(|waiting| *waiting == 0).await;
    }
}

async fn write(
    store: Store,
    mut lines: mpsc::UnboundedReceiver<Line>,
    waiting: watch::Sender<usize>,
) {
    let mut families = Families::default();
    while let Some(mut line) = lines.recv().await {
        let session = line.record.session;
        if let Some(family) = families.of(session, &line.asker) {
            let prompt = store.prompt_at(session, line.generation, &family.first, line.began);
            match prompt.await {
                Ok(Some(prompt)) => {
                    line.record.prompt = Some(prompt);
                    line.record.by_subagent = family.is_subagent;
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%session, %error, "what a model was asked for is not known");
                }
            }
        }
        if let Err(error) = write_down(&store, &line.record).await {
            tracing::error!(%session, %error, "what a model took was not written down");
        }
        waiting.send_modify(|waiting| *waiting -= 1);
    }
}

async fn write_down(store: &Store, record: &UsageRecord) -> store::Result<()> {
    let once = async || {
        let mut tx = store.begin().await?;
        tx.record_usage(record).await?;
        tx.commit().await
    };
    for pause in TRIES {
        match once().await {
            Err(store::Error::Busy { .. } | store::Error::Unavailable { .. }) => sleep(pause).await,
            written => return written,
        }
    }
    once().await
}

#[async_trait]
impl doors::Meter for Book {
    async fn may(&self, visitor: &doors::Visitor) -> Result<(), Limited> {
        if *self.waiting.borrow() > WAITING {
            return Err(slow());
        }
        if self.budget == Budget::default() {
            return Ok(());
        }
        let Ok(session) = visitor.session.parse() else {
            return Ok(());
        };
        let used = self.store.session_usage(session).await.map_err(|error| {
            tracing::error!(%session, %error, "what a session used cannot be read");
            slow()
        })?;
        within(&self.budget, &used)
    }

    fn used(&self, visitor: &doors::Visitor, used: Used) {
        let (Ok(organisation), Ok(session)) =
            (visitor.organisation.parse(), visitor.session.parse())
        else {
            return;
        };
        count(&used);
        let (now, usage) = (self.clock.now(), used.usage);
        let took = SignedDuration::from_millis(i64::try_from(used.took_ms).unwrap_or(0));
        let record = UsageRecord {
            id: Id::new(&*self.clock),
            organisation,
            session,
            prompt: None,
            by_subagent: false,
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
            is_complete: used.is_complete,
            at: now,
        };
        let line = Line {
            record,
            asker: used.asker,
            generation: visitor.generation,
            began: now.checked_sub(took).unwrap_or(now),
        };
        self.waiting.send_modify(|waiting| *waiting += 1);
        if self.lines.send(line).is_err() {
            tracing::error!(%session, "what a model took was not written down: nobody writes");
        }
    }
}

/// By provider: what a model is called is for whoever asks to say.
fn count(used: &Used) {
    let provider = used.provider.clone();
    let status = used.status.unwrap_or(0).to_string();
    let labels = [("provider", provider.clone()), ("status", status)];
    counter!("nacre_model_requests_total", &labels).increment(1);
    let took = Duration::from_millis(used.took_ms);
    histogram!("nacre_model_seconds", "provider" => provider.clone()).record(took.as_secs_f64());
    let usage = &used.usage;
    for (kind, tokens) in [
        ("input", usage.input_tokens),
        ("output", usage.output_tokens),
        ("cache_read", usage.cache_read_tokens),
        ("cache_write", usage.cache_write_tokens),
        ("reasoning", usage.reasoning_tokens),
    ] {
        let labels = [("provider", provider.clone()), ("kind", kind.to_owned())];
        counter!("nacre_model_tokens_total", &labels).increment(tokens);
    }
    let cost = used.cost_micros.unwrap_or(0);
    counter!("nacre_model_cost_micros_total", "provider" => provider).increment(cost);
}

fn slow() -> Limited {
    Limited::Slow {
        reason: "the server's database does not answer: try again".to_owned(),
        retry_after: None,
    }
}

fn within(budget: &Budget, used: &Sum) -> Result<(), Limited> {
    let spent = |what: String, setting: &str| {
        Err(Limited::Spent {
            reason: format!(
                "this session has used up its {what}: go on in a new one, or ask whoever runs the \
                 server to raise `models.{setting}`"
            ),
        })
    };
    let Tokens {
        input,
        output,
        cache_read,
        cache_write,
        reasoning,
    } = used.tokens;
    let tokens = [input, output, cache_read, cache_write, reasoning];
    let tokens = tokens.into_iter().fold(0, u64::saturating_add);
    if let Some(most) = budget.tokens.filter(|most| tokens >= *most) {
        return spent(format!("{most} tokens"), "tokens_per_session");
    }
    if let Some(most) = budget.cost_micros.filter(|most| used.cost_micros >= *most) {
        let dollars = format!("{}.{:02}", most / 1_000_000, most % 1_000_000 / 10_000);
        return spent(format!("{dollars} dollars"), "micros_per_session");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(tokens: u64, cost_micros: u64) -> Sum {
        Sum {
            tokens: Tokens {
                output: tokens,
                ..Tokens::default()
            },
            cost_micros,
            ..Sum::default()
        }
    }

    #[test]
    fn a_budget_is_used_up_by_tokens_or_by_cost() {
        let budget = Budget {
            tokens: Some(100),
            cost_micros: Some(2_500_000),
        };
        assert_eq!(within(&budget, &used(99, 2_499_999)), Ok(()));
        for (tokens, cost, words) in [
            (100, 0, "100 tokens"),
            (0, 2_500_000, "2.50 dollars"),
            (u64::MAX, 0, "models.tokens_per_session"),
        ] {
            let Err(Limited::Spent { reason }) = within(&budget, &used(tokens, cost)) else {
                panic!("{tokens} and {cost} are too much");
            };
            assert!(reason.contains(words), "{reason}");
        }
        assert_eq!(
            within(&Budget::default(), &used(u64::MAX, u64::MAX)),
            Ok(())
        );
    }
}
