//! The task that writes for sessions: what several of them hand in goes into one commit.
//!
//! It takes what is there, at most a group, and commits it; meanwhile the next group gathers. So
//! nobody waits for others to come, and under load the time of one commit is what groups them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{Notify, mpsc, oneshot};

use crate::faults::{Fault, Faults};
use crate::open::Database;
use crate::{Committed, Error, Result, Tx, Write};

/// At most so many events are committed together.
const GROUP: usize = 64;
/// At most so many writes wait; whoever comes then waits to hand theirs in.
pub(crate) const WAITING: usize = 1024;

/// A write that was handed in. Its place in the order is taken; dropping this does not undo it.
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<Result<Committed>>);

impl Future for Pending {
    type Output = Result<Committed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|answer| answer.unwrap_or(Err(Error::Closed)))
    }
}

pub(crate) struct Request {
    write: Write,
    answer: oneshot::Sender<Result<Committed>>,
}

impl Request {
    pub(crate) fn new(write: Write) -> (Self, Pending) {
        let (answer, pending) = oneshot::channel();
        (Self { write, answer }, Pending(pending))
    }

    /// A write without events is work too.
    fn weight(&self) -> usize {
        self.write.events.len().max(1)
    }
}

/// Until nobody can hand in any more, and all that was handed in is answered.
pub(crate) async fn run(
    database: Arc<Database>,
    jobs: Arc<Notify>,
    faults: Faults,
    mut requests: mpsc::Receiver<Request>,
) {
    while let Some(first) = requests.recv().await {
        let mut weight = first.weight();
        let mut group = vec![first];
        while weight < GROUP
            && let Ok(next) = requests.try_recv()
        {
            weight += next.weight();
            group.push(next);
        }
        // In one order everywhere, so that two who lock several rows do not lock each other out.
        // Of one session they stay in the order in which they came.
        group.sort_by_key(|request| request.write.fence.session);
        let answers = match faults.next() {
            None => commit(&database, &jobs, &group).await,
            Some(fault) => spoil(fault, commit(&database, &jobs, &group), group.len()).await,
        };
        for (request, answer) in group.into_iter().zip(answers) {
            // Who asked may have gone; what was written is written.
            let _ = request.answer.send(answer);
        }
    }
}

async fn spoil(
    fault: Fault,
    commit: impl Future<Output = Vec<Result<Committed>>>,
    writers: usize,
) -> Vec<Result<Committed>> {
    let source = Arc::new(sqlx::Error::Io(std::io::Error::other("a fault")));
    let error = match fault {
        Fault::Delay(time) => {
            tokio::time::sleep(time).await;
            return commit.await;
        }
        Fault::Fail => Error::Busy { source },
        Fault::Lose => {
            let _ = commit.await;
            Error::Unavailable { source }
        }
    };
    (0..writers).map(|_| Err(error.clone())).collect()
}

async fn commit(
    database: &Database,
    jobs: &Arc<Notify>,
    group: &[Request],
) -> Vec<Result<Committed>> {
    match try_commit(database, jobs, group).await {
        Ok(answers) => answers,
        Err(error) => group.iter().map(|_| Err(error.clone())).collect(),
    }
}

/// An error is that of the whole group; one of a single writer is among the answers.
async fn try_commit(
    database: &Database,
    jobs: &Arc<Notify>,
    group: &[Request],
) -> Result<Vec<Result<Committed>>> {
    let mut tx = Tx::begin(database, jobs).await?;
    if let [alone] = group {
        return match alone.write.apply(&mut tx).await {
            Ok(committed) => {
                tx.commit().await?;
                Ok(vec![Ok(committed)])
            }
            Err(error) if error.is_of_the_writer() => {
                tx.rollback().await?;
                Ok(vec![Err(error)])
            }
            Err(error) => Err(error),
        };
    }
    let mut answers = Vec::with_capacity(group.len());
    for request in group {
        tx.save().await?;
        match request.write.apply(&mut tx).await {
            Ok(committed) => {
                tx.keep().await?;
                answers.push(Ok(committed));
            }
            Err(error) if error.is_of_the_writer() => {
                tx.undo().await?;
                answers.push(Err(error));
            }
            Err(error) => return Err(error),
        }
    }
    tx.commit().await?;
    Ok(answers)
}
