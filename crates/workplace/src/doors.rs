//! Loopback ports that lead to doors of the host: what speaks TCP inside need not know of doors.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinSet;
use wire::guest::DOORS;

const MOST: usize = 128;

/// Serves for as long as it is polled. A port that is taken is left to whoever has it.
pub async fn lead(port: u16, door: &str) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let Ok(listener) = TcpListener::bind(address).await else {
        tracing::warn!(port, "the port to the {door} door is taken");
        return;
    };
    let path = format!("{DOORS}/{door}");
    let mut pairs = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if pairs.len() < MOST => {
                    pairs.spawn_local(carry(stream, path.clone()));
                }
                // Closed: too many at once.
                Ok(_) => {}
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = pairs.join_next() => {}
        }
    }
}

/// Until one of them ends. A door that nobody serves is a connection that is closed.
async fn carry(mut inside: TcpStream, door: String) {
    let _ = inside.set_nodelay(true);
    if let Ok(mut outside) = UnixStream::connect(door).await {
        let _ = copy_bidirectional(&mut inside, &mut outside).await;
    }
}
