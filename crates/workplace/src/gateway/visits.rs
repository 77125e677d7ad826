//! Connections under way, and who must go when there are too many: whoever has waited longest
//! without being let in. So nobody who holds connections open keeps out those who may come in.

use std::collections::VecDeque;
use std::rc::Rc;

use tokio::task::{AbortHandle, JoinSet};

use super::visit::Visit;

#[derive(Debug)]
pub(super) struct Visits {
    limit: usize,
    tasks: JoinSet<()>,
    /// The oldest first.
    strangers: VecDeque<Stranger>,
}

#[derive(Debug)]
struct Stranger {
    visit: Rc<Visit>,
    task: AbortHandle,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Room {
    ForOne,
    None,
}

impl Visits {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            tasks: JoinSet::new(),
            strangers: VecDeque::new(),
        }
    }

    pub(super) fn make_room(&mut self) -> Room {
        self.strangers
            .retain(|stranger| !stranger.task.is_finished() && !stranger.visit.is_admitted());
        if self.tasks.len() < self.limit {
            return Room::ForOne;
        }
        let Some(oldest) = self.strangers.pop_front() else {
            return Room::None;
        };
        oldest.task.abort();
        Room::ForOne
    }

    pub(super) fn begin(&mut self, visit: Rc<Visit>, work: impl Future<Output = ()> + 'static) {
        let task = self.tasks.spawn_local(work);
        self.strangers.push_back(Stranger { visit, task });
    }

    /// Waits until one ends, for ever if there is none.
    pub(super) async fn reap(&mut self) {
        if self.tasks.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
