use std::io;
use std::sync::Arc;
use std::time::Duration;

use relay::Stream;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::proxy::Proxy;

/// After a write, how long records may wait to be written together.
const WRITE_INTERVAL: Duration = Duration::from_millis(50);
/// Told to go away at once; beyond these a connection is closed without a word.
const TURNED_AWAY: usize = 32;
/// After running out of descriptors or memory.
const BREATHER: Duration = Duration::from_millis(100);

/// Serves connections at the door and at the port until dropped.
pub async fn serve(proxy: Arc<Proxy>, door: Option<UnixListener>, port: Option<TcpListener>) {
    let tracker = TaskTracker::new();
    let places = Arc::new(Semaphore::new(proxy.limits.connections));
    let refusals = Arc::new(Semaphore::new(TURNED_AWAY));
    let take = |stream: Stream| {
        let proxy = Arc::clone(&proxy);
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            tracker.spawn(async move {
                proxy.serve(stream).await;
                drop(place);
            });
        } else if let Ok(place) = Arc::clone(&refusals).try_acquire_owned() {
            tracker.spawn(async move {
                proxy.turn_away(stream).await;
                drop(place);
            });
        }
    };
    let at_door = accept(|| accept_unix(door.as_ref()), &take);
    let at_port = accept(|| accept_tcp(port.as_ref()), &take);
    tokio::join!(at_door, at_port, write_log(&proxy));
}

async fn accept<F: Future<Output = io::Result<Stream>>>(
    next: impl Fn() -> F,
    take: impl Fn(Stream),
) {
    loop {
        match next().await {
            Ok(stream) => take(stream),
            Err(_) => tokio::time::sleep(BREATHER).await,
        }
    }
}

async fn accept_unix(listener: Option<&UnixListener>) -> io::Result<Stream> {
    match listener {
        Some(listener) => Ok(Stream::Unix(listener.accept().await?.0)),
        None => std::future::pending().await,
    }
}

async fn accept_tcp(listener: Option<&TcpListener>) -> io::Result<Stream> {
    match listener {
        Some(listener) => Ok(Stream::tcp(listener.accept().await?.0)),
        None => std::future::pending().await,
    }
}

async fn write_log(proxy: &Proxy) {
    loop {
        proxy.log.wait().await;
        proxy.log.write();
        tokio::time::sleep(WRITE_INTERVAL).await;
    }
}
