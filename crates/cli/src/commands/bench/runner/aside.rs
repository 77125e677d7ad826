//! What serves the sandbox while it is measured, on a thread of its own: so it takes no time from
//! whoever measures.

use std::convert::Infallible;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd as _;
use std::thread::JoinHandle;

use anyhow::Context as _;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::sync::oneshot;

/// Ends when dropped.
pub(in super::super) struct Aside {
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Aside {
    pub(in super::super) fn start<F: Future<Output = ()>>(
        listener: TcpListener,
        serve: impl FnOnce(tokio::net::TcpListener) -> F + Send + 'static,
    ) -> anyhow::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("aside".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                    return;
                };
                tokio::select! {
                    () = serve(listener) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// On the loopback of the sandbox whose first process this is, so that nothing lies between it and
/// those who ask from inside.
pub(in super::super) fn listen_inside(pid: i32) -> anyhow::Result<TcpListener> {
    std::thread::scope(|scope| {
        // The thread leaves our network namespace for good, so it is one of its own.
        let thread = scope.spawn(|| {
            let namespace = fs_err::File::open(format!("/proc/{pid}/ns/net"))?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        });
        let listener = thread
            .join()
            .map_err(|_| anyhow::anyhow!("the thread panicked"))?;
        listener.context("listening in the sandbox")
    })
}
