//! `nacre internal bench-gateway`: our gateway, told what it is told by its input.

use std::convert::Infallible;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use camino::Utf8PathBuf;
use gateway::{Caller, Gateway, Makings, Watched};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use model::{Id, Session, Timestamp};
use provider::Provider;
use provider::fake::Fake;
use sessions::{Spec, Told};
use store::Event;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use wire::v1::Role;

use super::super::hub::World;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where its database is made
    directory: Utf8PathBuf,
}

pub(crate) async fn serve(arguments: Arguments) -> Result<(), CommandError> {
    let fake: Arc<dyn Provider> = Arc::new(Fake::default());
    let world = World::over(&arguments.directory.join("gateway.db"), Arc::clone(&fake)).await?;
    let session = world.create(Spec::default()).await?;
    let gateway = Gateway::new(Makings {
        store: world.store.clone(),
        sessions: world.sessions.clone(),
        providers: vec![fake],
        clock: Arc::new(model::SystemClock),
        pulls: None,
        settings: gateway::Settings::usual(),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    writeln!(std::io::stdout(), "{{\"port\":{port}}}")?;
    // Held, so that there is somebody to tell before the first client and after the last.
    let seat = gateway.take_seat(session, &caller()).await;
    let seat = seat.context("the session cannot be watched")?;
    let mut clients = JoinSet::new();
    let taking = async {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            clients.spawn(let_in(gateway.clone(), session, stream));
        }
    };
    tokio::select! {
        () = taking => {}
        told = tell(seat.feed()) => told?,
    }
    Ok(())
}

fn caller() -> Caller {
    Caller {
        id: "usr_bench".to_owned(),
        name: "a bench".to_owned(),
        email: None,
        role: Role::Viewer,
        audited: None,
    }
}

async fn let_in(gateway: Gateway, session: Id<Session>, stream: TcpStream) {
    let answer = service_fn(|mut request| {
        let gateway = gateway.clone();
        async move {
            let watched = Watched {
                session,
                caller: caller(),
                since: None,
                resume: false,
                leave: gateway::Leave::default(),
            };
            Ok::<_, Infallible>(gateway.socket(&mut request, watched).await)
        }
    });
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .with_upgrades()
        .await;
}

/// A line of the input is an event; those that came together are told together, as a hub's are.
async fn tell(feed: &gateway::Feed) -> anyhow::Result<()> {
    const TOGETHER: usize = 64;
    let stdin = rustix::io::dup(rustix::stdio::stdin())?;
    let mut input = pipe::Receiver::from_owned_fd(stdin)?;
    let mut buffer = Vec::with_capacity(256 << 10);
    let mut seq = feed.seq();
    loop {
        if input.read_buf(&mut buffer).await? == 0 {
            // Whoever has not got everything yet gets it now.
            tokio::time::sleep(Duration::from_millis(100)).await;
            return Ok(());
        }
        let whole = buffer.iter().rposition(|byte| *byte == b'\n');
        let Some(whole) = whole else { continue };
        let text = std::str::from_utf8(&buffer[..whole])?;
        let told: Vec<Told> = text
            .lines()
            .map(|line| {
                seq += 1;
                Told::Numbered(Event {
                    seq,
                    at: Timestamp::UNIX_EPOCH,
                    kind: "part".into(),
                    body: line.into(),
                })
            })
            .collect();
        for together in told.chunks(TOGETHER) {
            feed.tell(together);
        }
        buffer.drain(..=whole);
    }
}
