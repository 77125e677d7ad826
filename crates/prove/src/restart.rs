//! How long a server that was killed takes to serve again.

use std::time::Duration;

use anyhow::{Context as _, Result};
use camino::Utf8PathBuf;
use futures::StreamExt as _;
use model::{Clock as _, Id, Session, SystemClock};
use store::{Config, Store};
use tokio::time::Instant;

use crate::processes::{Running, ask};
use crate::protocol::{Answer, Deed, Request};
use crate::{Ground, Server};

/// Asked at once, as people do who come back after an outage.
const AT_ONCE: usize = 16;

/// Makes so many sessions run, kills their server, and starts another: how long after that start
/// every one of them answers.
pub async fn restart(
    ground: &dyn Ground,
    directory: Utf8PathBuf,
    sessions: usize,
) -> Result<Duration> {
    let database = directory.join("restart.db");
    let store = Store::open(&Config::new(format!("sqlite:{database}").parse()?)).await?;
    let organisation = Id::new(&SystemClock);
    let mut tx = store.begin().await?;
    tx.create_organisation(organisation, "a bench", SystemClock.now())
        .await?;
    tx.commit().await?;
    let server = |number: u32| Server {
        database: database.clone(),
        socket: directory.join(format!("restart-{number}.sock")),
        owner: "server".to_owned(),
        faults: None,
        organisation,
    };
    let first = server(1);
    let running = Running::start(ground.server(&first), &first.socket).await?;
    let mut made = Vec::new();
    for _ in 0..sessions {
        match ask(&first.socket, &Request::Create { lifetime_ms: None }).await {
            Some(Answer::Session(id)) => made.push(id),
            other => anyhow::bail!("a session cannot be made: {other:?}"),
        }
    }
    served(&first, &made).await?;
    running.kill().await?;
    let second = server(2);
    let begun = Instant::now();
    let running = Running::start(ground.server(&second), &second.socket).await?;
    served(&second, &made).await?;
    let took = begun.elapsed();
    running.kill().await?;
    store.close().await?;
    Ok(took)
}

async fn served(server: &Server, sessions: &[Id<Session>]) -> Result<()> {
    let all = futures::stream::iter(sessions).map(|session| async move {
        for _ in 0..1000 {
            let request = Request::Do(*session, Deed::Ensure);
            if let Some(Answer::Done) = ask(&server.socket, &request).await {
                return Some(());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        None
    });
    let answers: Vec<Option<()>> = all.buffer_unordered(AT_ONCE).collect().await;
    let all: Option<Vec<()>> = answers.into_iter().collect();
    all.context("a session is not served").map(drop)
}
