use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use camino::Utf8Path;
use tokio::net::{TcpListener, TcpStream};

/// How long it may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// nginx as a forward proxy for plain requests; ends when dropped.
pub(super) struct Nginx {
    child: Child,
    pub(super) forward: SocketAddr,
    pub(super) kept: SocketAddr,
}

impl Nginx {
    /// `None` where there is none.
    pub(super) async fn start(
        directory: &Utf8Path,
        server: SocketAddr,
    ) -> anyhow::Result<Option<Self>> {
        fs_err::create_dir_all(directory)?;
        let (forward, kept) = (free_port().await?, free_port().await?);
        let file = directory.join("nginx.conf");
        fs_err::write(&file, configuration(forward, kept, server))?;
        let started = Command::new("nginx")
            .args(["-p", directory.as_str(), "-c", file.as_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = match started {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("starting nginx"),
        };
        let mut nginx = Self {
            child,
            forward,
            kept,
        };
        let begun = Instant::now();
        while TcpStream::connect(forward).await.is_err() {
            if begun.elapsed() > PATIENCE || nginx.child.try_wait()?.is_some() {
                bail!("nginx does not listen");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Some(nginx))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn free_port() -> std::io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0").await?.local_addr()
}

/// One process, as ours is one; no logs, which ours does write.
fn configuration(forward: SocketAddr, kept: SocketAddr, server: SocketAddr) -> String {
    format!(
        "daemon off;
master_process off;
worker_processes 1;
pid nginx.pid;
error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    proxy_http_version 1.1;
    proxy_set_header Connection \"\";
    upstream kept {{ server {server}; keepalive 256; keepalive_requests 100000000; }}
    server {{ listen {forward}; location / {{ proxy_pass http://$http_host$uri; }} }}
    server {{ listen {kept}; location / {{ proxy_pass http://kept; }} }}
}}
"
    )
}
