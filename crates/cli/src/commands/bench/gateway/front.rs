//! A whole server in a process of its own, as `nacre serve` is, on a throw-away home.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use camino::Utf8Path;
use client::{Bearer, Client};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::sleep;
use wire::v1::NewSession;

use super::super::machine::{kibibytes, text};
use super::super::say;
use super::super::stats::Samples;
use super::clients::enter;
use super::{Ground, count};
use crate::error::CommandError;

/// It ends when dropped; its sandboxes do not.
pub(super) struct Server {
    process: Child,
    pub(super) address: SocketAddr,
    pub(super) token: String,
    pub(super) client: Client,
}

impl Server {
    pub(super) async fn start(home: &Utf8Path) -> anyhow::Result<Self> {
        fs_err::create_dir_all(home)?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = free.local_addr()?;
        drop(free);
        let mut process = nacre(home)?
            .args(["serve", "--listen", &address.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = format!("http://{address}");
        let listens = Instant::now() + Duration::from_secs(30);
        while tokio::net::TcpStream::connect(address).await.is_err() {
            if let Some(status) = process.try_wait()? {
                bail!("the server ended, {status}: {}", said(process).await);
            }
            if Instant::now() > listens {
                bail!("the server does not listen");
            }
            sleep(Duration::from_millis(20)).await;
        }
        // Nobody reads what it says from here on, and it must not wait for that.
        drop(process.stderr.take());
        let token = fs_err::read_to_string(home.join("token"))?;
        let token = token.trim().to_owned();
        Ok(Self {
            process,
            address,
            client: Client::new(&url, Bearer::new(&token))?,
            token,
        })
    }

    fn resident(&self) -> anyhow::Result<f64> {
        let pid = self.process.id().context("the server has ended")?;
        let status = text(&format!("/proc/{pid}/status"));
        Ok(count(kibibytes(&status, "VmRSS").unwrap_or(0) / 1024))
    }
}

/// This program, on that home and by its own settings alone.
pub(super) fn nacre(home: &Utf8Path) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .env("NACRE_HOME", home)
        .env_remove("NACRE_CONFIG")
        .env_remove("NACRE_URL")
        .env_remove("NACRE_TOKEN");
    Ok(command)
}

async fn said(process: Child) -> String {
    let output = process.wait_with_output().await;
    output.map_or_else(
        |error| error.to_string(),
        |output| String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    )
}

/// Sockets on which nothing happens, on one session, by one person.
pub(super) async fn idle(ground: &mut Ground) -> Result<(), CommandError> {
    let server = Server::start(&ground.directory.join("idle")).await?;
    let session = server.client.create_session(&NewSession::default()).await?;
    let head = format!(
        "/v1/sessions/{}/connect?resume=false HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n",
        session.id, server.address, server.token
    );
    // The first bring up what is there once.
    let mut sockets = Vec::new();
    for _ in 0..10 {
        sockets.push(enter(server.address, &head, None).await?);
    }
    sleep(Duration::from_secs(1)).await;
    let before = server.resident()?;
    // One caller is let in so often in a second, and no more often.
    let mut pace = tokio::time::interval(Duration::from_millis(11));
    for index in 0..ground.runs.idle {
        if index > 200 {
            pace.tick().await;
        }
        if index % 1000 == 999 {
            say(&format!("{} sockets", index + 1));
        }
        ground.interrupt.check().await?;
        sockets.push(enter(server.address, &head, None).await?);
    }
    sleep(Duration::from_secs(2)).await;
    let each = (server.resident()? - before) / count(ground.runs.idle as u64);
    let report = &mut ground.report;
    report.value("idle: sockets", count(sockets.len() as u64), "open");
    report.value("idle: memory of a socket", each, "KiB resident");
    Ok(())
}

/// A record, from the request to the answer, over a connection that is kept.
pub(super) async fn create(ground: &mut Ground) -> Result<(), CommandError> {
    let server = Server::start(&ground.directory.join("create")).await?;
    let mut times = Samples::default();
    for _ in 0..ground.runs.creates {
        ground.interrupt.check().await?;
        let begun = Instant::now();
        server.client.create_session(&NewSession::default()).await?;
        times.add(begun.elapsed());
    }
    if let Some(summary) = ground.report.times("POST /v1/sessions", &times) {
        let report = &mut ground.report;
        report.goal("POST /v1/sessions", "p50_ms", summary.p50_ms, 3.0, "ms");
    }
    Ok(())
}
