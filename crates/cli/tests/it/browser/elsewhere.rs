//! Pages of somebody else.

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A server with one empty page, under the gateway's name at another port: to a browser the same
/// site and another origin, so that cookies come along.
pub(super) struct Elsewhere {
    port: u16,
    _tasks: JoinSet<()>,
}

impl Elsewhere {
    pub(super) async fn serve() -> Self {
        const PAGE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\
            content-length: 21\r\nconnection: close\r\n\r\n<title>theirs</title>";
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(PAGE).await;
            }
        });
        Self {
            port,
            _tasks: tasks,
        }
    }

    pub(super) fn origin(&self) -> String {
        format!("http://nacre.localhost:{}", self.port)
    }
}
