//! The runner's life: get ready, serve, reap, end.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, getpid, getrlimit, set_child_subreaper,
    set_dumpable_behavior, setrlimit,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinSet, LocalSet};
use wire::guest::Config;

use crate::group::Groups;
use crate::inherited::{Inherited, StartError};
use crate::reaper::Reaper;
use crate::terminate::Terminate;
use crate::{code, operation, stdio, workplace};

const MAX_OPERATIONS: usize = 256;
/// From the request to end until the end.
const GRACE: Duration = Duration::from_secs(2);

/// What a start needs was used by then.
const STARTED: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) config: Config,
    pub(crate) groups: Rc<Groups>,
    pub(crate) reaper: Reaper,
    pub(crate) null: OwnedFd,
    /// How many operations may be under way.
    permits: Arc<Semaphore>,
    /// What commands get; ours is raised.
    pub(crate) descriptors: Rlimit,
}

pub(crate) fn start() -> Result<(), StartError> {
    let inherited = Inherited::take()?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(io::Error::from)?;
    if !getpid().is_init() {
        // Only in tests; so that reaping is the same there.
        set_child_subreaper(Some(getpid())).map_err(io::Error::from)?;
    }
    return_memory_promptly();
    let runner = Rc::new(Runner {
        groups: Rc::new(Groups::new(inherited.cgroup, &inherited.config.boot)),
        config: inherited.config,
        reaper: Reaper::default(),
        null: stdio::null().map_err(StartError::Null)?,
        permits: Arc::new(Semaphore::new(MAX_OPERATIONS)),
        descriptors: raise_descriptors(),
    });
    inherited.listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = UnixListener::from_std(inherited.listener)?;
        let children = signal(SignalKind::child())?;
        let terminate = Terminate::listen()?;
        if let Some(ready) = inherited.ready {
            let _ = rustix::io::write(ready, &[1]);
        }
        serve(&runner, &listener, inherited.workplace, children, terminate).await;
        Ok(())
    })
}

async fn serve(
    runner: &Rc<Runner>,
    listener: &UnixListener,
    workplace: Option<OwnedFd>,
    mut children: Signal,
    terminate: Terminate,
) {
    let mut operations = JoinSet::new();
    let (connections, mut connected) = mpsc::channel(1);
    if let (Some(order), Some(program)) = (runner.config.workplace.clone(), workplace) {
        operations.spawn_local(workplace::keep(
            Rc::clone(runner),
            order,
            program,
            connections,
        ));
    }
    operations.spawn_local(async {
        tokio::time::sleep(STARTED).await;
        code::let_go();
    });
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((host, _)) => runner.operate(&mut operations, host),
                // Out of descriptors: those in use come back.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(workplace) = connected.recv() => runner.operate(&mut operations, workplace),
            Some(()) = children.recv() => {
                runner.reaper.reap();
                runner.groups.tidy();
            }
            Some(_) = operations.join_next(), if !operations.is_empty() => {}
            () = terminate.asked() => break,
        }
    }
    if getpid().is_init() {
        terminate_everyone();
    } else {
        operations.abort_all();
    }
    let ended = async {
        while runner.reaper.reap() {
            tokio::select! {
                _ = children.recv() => {}
                Some(_) = operations.join_next(), if !operations.is_empty() => {}
            }
        }
        while operations.join_next().await.is_some() {}
    };
    let _ = tokio::time::timeout(GRACE, ended).await;
}

impl Runner {
    fn operate(self: &Rc<Self>, operations: &mut JoinSet<()>, connection: UnixStream) {
        match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => {
                operations.spawn_local(operation::serve(Rc::clone(self), connection, permit));
            }
            Err(_) => operation::turn_away(&connection),
        }
    }
}

/// To the process group of a command that is known not to be reaped.
#[expect(unsafe_code, reason = "rustix does not take a signal by its number")]
pub(crate) fn send_signal(leader: Pid, number: i32) {
    if (1..=64).contains(&number) {
        // SAFETY: kill touches no memory of ours. The leader's number is its group's, and above 1.
        unsafe { libc::kill(-leader.as_raw_pid(), number) };
    }
}

#[expect(unsafe_code, reason = "rustix cannot signal all")]
fn terminate_everyone() {
    // SAFETY: kill touches no memory of ours. As PID 1 of a namespace it reaches that namespace.
    unsafe { libc::kill(-1, libc::SIGTERM) };
}

/// Each operation takes a handful of descriptors, and the usual limit is for one program.
fn raise_descriptors() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: before.maximum,
            maximum: before.maximum,
        },
    );
    before
}

/// By default glibc keeps what a busy moment took, and more and more after each large frame.
#[expect(unsafe_code, reason = "the allocator is set up through libc")]
fn return_memory_promptly() {
    const LARGE: i32 = 32 << 10;
    // SAFETY: called before anything else could allocate at the same time; there is one thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE);
    }
}
