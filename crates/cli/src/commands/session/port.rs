//! Ports of a session: which there are, and one of them here.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use client::{Client, ClientError, Piece, PipeInput, PipeOutput};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::of_session;
use crate::app::App;
use crate::commands::remote;
use crate::commands::sandbox::terminal::Endings;
use crate::error::CommandError;
use crate::output::table;

/// More wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 128;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session port ID                # which there are
  nacre session port ID 3000           # http://127.0.0.1:3000 here is port 3000 there
  nacre session port ID 5432:0         # at a free port here, which is printed

It listens on this machine's loopback alone, until Ctrl-C. A link for a browser needs no forwarding:
nacre session open ID 3000")]
pub(crate) struct Arguments {
    /// The session's id
    #[arg(value_name = "ID")]
    session: String,
    /// A port there, and the one here if it is another
    #[arg(value_name = "PORT[:LOCAL]", value_parser = pair)]
    port: Option<(u16, u16)>,
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<(), CommandError> {
    let client = remote::connect()?;
    match arguments.port {
        None => list(app, &client, &arguments.session).await,
        Some((there, here)) => forward(app, client, &arguments.session, there, here).await,
    }
}

async fn list(app: &App, client: &Client, id: &str) -> Result<(), CommandError> {
    let progress = app.output.progress("looking for ports");
    let found = client.ports(id).await.map_err(of_session)?;
    drop(progress);
    app.output.result(&found, || {
        if found.ports.is_empty() {
            return "Nothing listens there.".to_owned();
        }
        let rows = found.ports.iter();
        let rows: Vec<_> = rows
            .map(|port| vec![port.port.to_string(), port.reach.clone(), port.url.clone()])
            .collect();
        table(&["PORT", "REACH", "URL"], &rows)
    })
}

async fn forward(
    app: &App,
    client: Client,
    id: &str,
    there: u16,
    here: u16,
) -> Result<(), CommandError> {
    // An id that is none is said at once, and not with the first connection.
    super::find(&client, id).await?;
    let mut endings = Endings::listen()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, here))
        .await
        .with_context(|| format!("cannot listen on 127.0.0.1:{here}"))
        .map_err(|error| {
            CommandError::from(error).hint(format!(
                "take a free one: `nacre session port {id} {there}:0`"
            ))
        })?;
    let listening = listener.local_addr()?;
    app.output.result(
        &json!({ "listening": listening, "session": id, "port": there }),
        || listening.to_string(),
    )?;
    tokio::select! {
        never = accept(app, &client, &listener, id, there) => never,
        _ = endings.next() => Ok(()),
    }
}

async fn accept(
    app: &App,
    client: &Client,
    listener: &TcpListener,
    id: &str,
    port: u16,
) -> Result<(), CommandError> {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            let place = Arc::clone(&places)
                .acquire_owned()
                .await
                .expect("the semaphore is never closed");
            (listener.accept().await, place)
        };
        tokio::select! {
            (accepted, place) = accepted => match accepted {
                Ok((connection, _)) => {
                    let (client, id) = (client.clone(), id.to_owned());
                    connections.spawn(async move {
                        let _place = place;
                        carry(&client, &id, port, connection).await
                    });
                }
                // Out of descriptors, mostly: some will be free in a moment.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(ended) = connections.join_next() => match ended {
                Ok(Ok(())) => {}
                // The session is gone, and with it every port.
                Ok(Err(error)) if error.code() == Some("not-found") => return Err(of_session(error)),
                Ok(Err(error)) => app.output.warning(&error.to_string()),
                Err(error) => tracing::warn!(%error, "a connection died"),
            },
        }
    }
}

async fn carry(
    client: &Client,
    id: &str,
    port: u16,
    connection: TcpStream,
) -> Result<(), ClientError> {
    let (input, output) = client.dial_port(id, port).await?;
    // Small answers must not wait for more; failing to say so costs only time.
    let _ = connection.set_nodelay(true);
    let (from, to) = connection.into_split();
    let there = send(from, input);
    let back = receive(output, to);
    let (mut there, mut back) = (std::pin::pin!(there), std::pin::pin!(back));
    tokio::select! {
        () = &mut there => back.await,
        // Whoever has heard everything may still have something to say.
        () = &mut back => { let _ = tokio::time::timeout(FAREWELL, there).await; }
    }
    Ok(())
}

const FAREWELL: Duration = Duration::from_secs(10);

async fn send(mut from: OwnedReadHalf, mut input: PipeInput) {
    let mut buffer = vec![0; 32 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let piece = Bytes::copy_from_slice(&buffer[..length]);
        if input.send(piece).await.is_err() {
            return;
        }
    }
    // A line that is lost needs no end.
    let _ = input.end().await;
}

async fn receive(mut output: PipeOutput, mut to: OwnedWriteHalf) {
    while let Ok(Some(Piece::Bytes(bytes))) = output.next().await {
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

/// `PORT` or `PORT:LOCAL`.
fn pair(text: &str) -> Result<(u16, u16), String> {
    let wrong = || format!("`{text}` is not of the form PORT or PORT:LOCAL");
    let number = |text: &str| text.parse::<u16>().map_err(|_| wrong());
    let (there, here) = match text.split_once(':') {
        Some((there, here)) => (number(there)?, number(here)?),
        None => (number(text)?, number(text)?),
    };
    if there == 0 {
        return Err("no program listens on port 0".to_owned());
    }
    Ok((there, here))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_the_same_here_unless_it_is_said() {
        assert_eq!(pair("3000"), Ok((3000, 3000)));
        assert_eq!(pair("5432:15432"), Ok((5432, 15432)));
        assert_eq!(pair("5432:0"), Ok((5432, 0)));
        for bad in ["", "0", "a", "1:", ":1", "70000", "1:2:3"] {
            assert!(pair(bad).is_err(), "{bad}");
        }
    }
}
