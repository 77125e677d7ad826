use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use provider::{ProviderError, SandboxId};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::terminal::Endings;
use crate::app::{App, Engine};
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The sandbox's id, name, or the beginning of its id
    #[arg(value_name = "ID")]
    sandbox: String,
    /// The port in the sandbox
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Where to listen on this machine; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Each takes two descriptors here and one in the sandbox; more wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 512;

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<(), CommandError> {
    let engine = Arc::new(app.engine()?);
    let id = engine.sandbox(&arguments.sandbox)?;
    let mut endings = Endings::listen()?;
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let listening = listener.local_addr()?;
    app.output.result(
        &json!({ "listening": listening, "sandbox": id, "port": arguments.port }),
        || listening.to_string(),
    )?;
    tokio::select! {
        error = forward(app, &engine, &listener, id, arguments.port) => Err(error),
        _ = endings.next() => Ok(()),
    }
}

/// Carries connections until there is no point in it.
pub(super) async fn forward(
    app: &App,
    engine: &Arc<Engine>,
    listener: &TcpListener,
    id: SandboxId,
    port: u16,
) -> CommandError {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accept = async {
            let place = Arc::clone(&places)
                .acquire_owned()
                .await
                .expect("the semaphore is never closed");
            (listener.accept().await, place)
        };
        tokio::select! {
            (accepted, place) = accept => match accepted {
                Ok((connection, _)) => {
                    let engine = Arc::clone(engine);
                    connections.spawn(async move {
                        let _place = place;
                        carry(&engine, connection, id, port).await
                    });
                }
                // Out of descriptors, mostly: some will be free in a moment.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(ended) = connections.join_next() => match ended {
                Ok(Err(error @ ProviderError::NotFound { .. })) => return error.into(),
                Ok(Err(error)) => app.output.warning(&CommandError::from(error).chain().join(": ")),
                Ok(Ok(())) => {}
                Err(error) => tracing::warn!(%error, "a connection died"),
            },
        }
    }
}

async fn carry(
    engine: &Engine,
    mut here: TcpStream,
    id: SandboxId,
    port: u16,
) -> Result<(), ProviderError> {
    let mut there = engine.provider().dial(id, port).await?;
    // Small answers must not wait for more; failing to say so costs only time.
    let _ = here.set_nodelay(true);
    if let Err(error) = tokio::io::copy_bidirectional(&mut here, &mut there).await {
        tracing::debug!(%error, "a connection broke");
    }
    Ok(())
}
