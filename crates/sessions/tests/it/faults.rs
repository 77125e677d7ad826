//! Every call to a provider goes wrong once, in every way, in the middle of everything that a
//! session does; or the session's process is killed there. Nothing is lost, doubled or left over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use model::session::{ClientStatus, PauseReason, StopReason, SuspendReason};
use model::{Id, Session};
use nacre_sessions::{Handle, HubError};
use provider::fake::Fake;
use provider::faulty::{Fault, Faulty};
use provider::{
    Capability, FileEntry, FileEvent, FileKind, Provider as _, SandboxId, SandboxState, files_from,
};

use crate::world::{Process, World, within};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Create,
    Pause,
    Resume,
    Suspend,
    Migrate,
    Snapshot,
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blow {
    Fault(Fault),
    /// The process ends in the middle of the call: before it is done, or after.
    Kill(Fault),
}

const BLOWS: [Blow; 6] = [
    Blow::Fault(Fault::Fail),
    Blow::Fault(Fault::Lose),
    Blow::Fault(Fault::Hang),
    Blow::Fault(Fault::HangAfter),
    Blow::Kill(Fault::Hang),
    Blow::Kill(Fault::HangAfter),
];

/// More than any deed takes.
const CALLS: usize = 20;

impl Deed {
    async fn is_prepared(self, world: &World, handle: &Handle) {
        if self != Self::Create {
            let place = handle.ensure_ready().await.unwrap();
            write(world, place.sandbox).await;
        }
        if self == Self::Resume {
            handle.pause(PauseReason::Manual).await.unwrap();
        }
    }

    async fn is_done(self, handle: &Handle) -> Result<(), HubError> {
        match self {
            Self::Create | Self::Resume => handle.ensure_ready().await.map(drop),
            Self::Pause => handle.pause(PauseReason::Manual).await.map(drop),
            Self::Suspend => handle.suspend(SuspendReason::Administrator).await.map(drop),
            Self::Migrate => handle.migrate().await.map(drop),
            Self::Snapshot => handle.snapshot().await.map(drop),
            Self::Stop => handle.stop(StopReason::Manual).await,
        }
    }

    /// Also what is done after the answer.
    async fn is_settled(self, world: &World, handle: &Handle) {
        within("it settles", || async {
            match self {
                Self::Suspend | Self::Stop => handle.seen().borrow().snapshot.is_some(),
                Self::Migrate => alive(world).await.len() == 1,
                _ => true,
            }
        })
        .await;
    }
}

/// What the provider can.
#[derive(Debug, Clone, Copy)]
enum Can {
    Everything,
    /// Sandboxes rest by being stopped, and move so too.
    NotPause,
}

impl Can {
    fn fake(self) -> Fake {
        match self {
            Self::Everything => Fake::default(),
            Self::NotPause => Fake::builder().without(Capability::Pause).build(),
        }
    }
}

async fn everything_goes_wrong_during(deed: Deed, can: Can) {
    let all = BLOWS.map(|blow| async move {
        for call in 1..=CALLS {
            if !goes_wrong(deed, can, blow, call).await {
                assert!(call > 1, "{deed:?} makes no call");
                return;
            }
        }
        panic!("{deed:?} makes calls without end");
    });
    futures::future::join_all(all).await;
}

/// Whether it got as far as that call.
async fn goes_wrong(deed: Deed, can: Can, blow: Blow, call: usize) -> bool {
    let world = World::with(can.fake()).await;
    let provider = Arc::new(Faulty::new(Arc::new(world.fake.clone())));
    let mut process = world.process("first", provider.clone());
    let session = world.record().await;
    let mut handle = process.open(session).await.unwrap();
    deed.is_prepared(&world, &handle).await;

    let struck = Arc::new(AtomicBool::new(false));
    let (count, seen) = (AtomicUsize::new(0), Arc::clone(&struck));
    provider.spoil(move |_| {
        let is_it = count.fetch_add(1, Ordering::Relaxed) + 1 == call;
        seen.fetch_or(is_it, Ordering::Relaxed);
        let (Blow::Fault(fault) | Blow::Kill(fault)) = blow;
        is_it.then_some(fault)
    });
    let doing = async {
        let done = deed.is_done(&handle).await;
        if done.is_ok() {
            deed.is_settled(&world, &handle).await;
        }
    };
    match blow {
        Blow::Fault(_) => doing.await,
        Blow::Kill(_) => tokio::select! {
            () = doing => {}
            () = provider.spoiled() => {}
        },
    }
    provider.spoil_nothing();
    let was_struck = struck.load(Ordering::Relaxed);
    if was_struck && matches!(blow, Blow::Kill(_)) {
        drop(process);
        process = world.process("second", provider.clone());
        handle = opened(&process, session).await;
    }
    let what = format!("{deed:?} with {can:?}, {blow:?} at call {call}");
    if deed == Deed::Stop {
        is_over(&world, &handle, &what).await;
    } else {
        goes_on(&world, &process, &handle, deed != Deed::Create, &what).await;
    }
    was_struck
}

/// Once the lease of whoever had it ran out.
pub(crate) async fn opened(process: &Process, session: Id<Session>) -> Handle {
    within("the lease runs out", || async {
        process.open(session).await.is_ok()
    })
    .await;
    process.open(session).await.unwrap()
}

async fn goes_on(world: &World, process: &Process, handle: &Handle, has_file: bool, what: &str) {
    within(what, || async {
        // Whatever it was suspended for is over.
        let _ = handle.clear().await;
        handle.ensure_ready().await.is_ok()
    })
    .await;
    assert_eq!(
        handle.seen().borrow().status,
        ClientStatus::Running,
        "{what}"
    );
    let place = handle.seen().borrow().place.unwrap();
    within(&format!("{what}: one sandbox is left"), || async {
        process.seal_orphans().await;
        alive(world).await == [place.sandbox]
    })
    .await;
    if has_file {
        assert!(is_written(world, place.sandbox).await, "{what}: the file");
    }
    let record = world.store.load_session(handle.session()).await.unwrap();
    let lifecycle = record.state.lifecycle().unwrap();
    assert_eq!(lifecycle.place(), Some(place), "{what}");
    assert_eq!(lifecycle.deadline(), None, "{what}");
}

async fn is_over(world: &World, handle: &Handle, what: &str) {
    handle.stop(StopReason::Manual).await.unwrap();
    within(what, || async {
        alive(world).await.is_empty() && handle.seen().borrow().snapshot.is_some()
    })
    .await;
}

/// Those that run or could.
async fn alive(world: &World) -> Vec<SandboxId> {
    let all = world.sandboxes().await.into_iter();
    all.filter(|sandbox| !matches!(sandbox.state, SandboxState::Stopped { .. }))
        .map(|sandbox| sandbox.id)
        .collect()
}

async fn write(world: &World, sandbox: SandboxId) {
    let entry = FileEntry {
        path: b"pearl".to_vec(),
        kind: FileKind::File,
        mode: 0o644,
        uid: None,
        gid: None,
    };
    let files = files_from(vec![(entry, "nacre".into())]);
    let written = world.fake.write_files(sandbox, b"/root", None, files).await;
    written.unwrap();
}

async fn is_written(world: &World, sandbox: SandboxId) -> bool {
    let read = world.fake.read_files(sandbox, b"/root/pearl", None).await;
    let mut read = read.unwrap();
    let mut data = Vec::new();
    while let Some(event) = read.recv().await {
        if let FileEvent::Data(bytes) = event.unwrap() {
            data.extend_from_slice(&bytes);
        }
    }
    data == b"nacre"
}

macro_rules! deeds {
    ($($name:ident: $deed:ident, $can:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            everything_goes_wrong_during(Deed::$deed, Can::$can).await;
        }
    )*};
}

deeds! {
    a_creation_survives_every_fault: Create, Everything;
    a_pause_survives_every_fault: Pause, Everything;
    a_resumption_survives_every_fault: Resume, Everything;
    a_suspension_survives_every_fault: Suspend, Everything;
    a_migration_survives_every_fault: Migrate, Everything;
    a_snapshot_survives_every_fault: Snapshot, Everything;
    a_stop_survives_every_fault: Stop, Everything;
    a_pause_by_stopping_survives_every_fault: Pause, NotPause;
    a_resumption_from_disk_survives_every_fault: Resume, NotPause;
    a_suspension_by_stopping_survives_every_fault: Suspend, NotPause;
    a_migration_by_stopping_survives_every_fault: Migrate, NotPause;
}
