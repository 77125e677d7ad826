//! A workplace has what it is to have before it is asked anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use model::session::Place;
use nacre_sessions::{Handle, Outside};
use store::Replay;
use store::prompts::Status;
use tokio::sync::Semaphore;

use crate::prompts::{is, prompt};
use crate::world::{World, within};

/// Brings what it has to bring when it is let, after it failed so often.
#[derive(Debug)]
struct Bringer {
    failures: AtomicUsize,
    may: Semaphore,
    tries: AtomicUsize,
}

impl Bringer {
    fn new(failures: usize, may: usize) -> Arc<Self> {
        Arc::new(Self {
            failures: failures.into(),
            may: Semaphore::new(may),
            tries: AtomicUsize::new(0),
        })
    }
}

#[async_trait]
impl Outside for Bringer {
    async fn is_up(&self, _: Handle, _: Place) -> Result<(), String> {
        self.tries.fetch_add(1, Ordering::SeqCst);
        if self.failures.load(Ordering::SeqCst) > 0 {
            self.failures.fetch_sub(1, Ordering::SeqCst);
            return Err("the pearls are not there".to_owned());
        }
        let _may = self.may.acquire().await;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_waits_until_the_workplace_has_what_it_is_to_have() {
    let world = World::new().await;
    let bringer = Bringer::new(0, 0);
    let sessions = world.with_outside("bringer", Arc::clone(&bringer) as _);
    let session = sessions.open(world.record().await).await.unwrap();
    session.prompt(prompt("p", "say one")).await.unwrap();
    session.ensure_ready().await.unwrap();
    within("it is asked for", || async {
        bringer.tries.load(Ordering::SeqCst) > 0
    })
    .await;
    is(&world, &session, "p", Status::Queued).await;
    bringer.may.add_permits(1);
    is(&world, &session, "p", Status::Finished).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_brought_is_told_once_and_tried_again() {
    let world = World::new().await;
    let bringer = Bringer::new(3, 1);
    let sessions = world.with_outside("bringer", Arc::clone(&bringer) as _);
    let session = sessions.open(world.record().await).await.unwrap();
    session.prompt(prompt("p", "say one")).await.unwrap();
    is(&world, &session, "p", Status::Finished).await;
    assert!(bringer.tries.load(Ordering::SeqCst) > 3);
    let replay = world.store.events_after(session.session(), 0, 1000).await;
    let Replay::Events { events, .. } = replay.unwrap() else {
        panic!("the log is short");
    };
    let told = events.iter().filter(|event| event.kind == "error");
    let told: Vec<&str> = told.map(|event| &*event.body).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("the pearls are not there"), "{told:?}");
}
