use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use wire::frame::{FrameError, read_frame};

use super::protocol::{Failure, FileMessage, Hello, Knock, Request, exec_from_wire, receive, send};
use super::store::Store;
use super::streams::{receive_files, receive_input, send_files, send_output};
use crate::fake::Fake;
use crate::{Door, EXEC_QUEUE, Exec, ExecSpec, Provider, ProviderError, SandboxId, Stream};

/// Serves a fake on a socket, with what an earlier process left in `state`. Sandboxes that ran then
/// have ended; their disks are as they were.
pub async fn serve(state: &Path, socket: &Path) -> io::Result<()> {
    let fake = Store::open(state)?;
    // A socket that an earlier process left answers nobody.
    match fs_err::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    let served = Arc::new(Served {
        fake,
        knocks: Mutex::default(),
        next: AtomicU64::new(0),
    });
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        while connections.try_join_next().is_some() {}
        let served = served.clone();
        // A client that goes away in the middle is the client's business.
        connections.spawn(async move { served.connection(stream).await.unwrap_or_default() });
    }
}

struct Served {
    fake: Fake,
    /// Connections that a sandbox made and nobody has fetched yet.
    knocks: Mutex<HashMap<Knock, Box<dyn Stream>>>,
    next: AtomicU64,
}

impl Served {
    async fn connection(&self, mut stream: UnixStream) -> Result<(), FrameError> {
        let fake = &self.fake;
        match receive(&mut stream).await? {
            Request::Hello => {
                let (name, capabilities) = (fake.name().to_owned(), fake.capabilities().clone());
                answer(&mut stream, Ok(Hello { name, capabilities })).await
            }
            Request::Ensure(spec) => answer(&mut stream, fake.ensure(&spec).await).await,
            Request::Create(spec) => answer(&mut stream, fake.create(&spec).await).await,
            Request::Terminate(id) => answer(&mut stream, fake.terminate(id).await).await,
            Request::Stop(id) => answer(&mut stream, fake.stop(id).await).await,
            Request::Remove(id) => answer(&mut stream, fake.remove(id).await).await,
            Request::Snapshot { id, name } => {
                answer(&mut stream, fake.snapshot(id, name.as_deref()).await).await
            }
            Request::Pause(id) => answer(&mut stream, fake.pause(id).await).await,
            Request::Resume(id) => answer(&mut stream, fake.resume(id).await).await,
            Request::Fork { id, count } => answer(&mut stream, fake.fork(id, count).await).await,
            Request::Extend { id, until } => {
                answer(&mut stream, fake.extend(id, until).await).await
            }
            Request::Exec { id, spec } => self.exec(stream, id, exec_from_wire(spec)).await,
            Request::ReadFiles { id, path, user } => {
                let files = fake.read_files(id, &path.0, user.as_deref()).await;
                let Some(files) = answered(&mut stream, files).await? else {
                    return Ok(());
                };
                let end = send_files(&mut stream, files).await?;
                match end {
                    Ok(()) => Ok(()),
                    Err(error) => send(&mut stream, &FileMessage::Failed(error.into())).await,
                }
            }
            Request::WriteFiles { id, path, user } => {
                self.write_files(stream, id, &path.0, user.as_deref()).await
            }
            Request::Dial { id, port } => {
                let inside = fake.dial(id, port).await;
                let Some(inside) = answered(&mut stream, inside).await? else {
                    return Ok(());
                };
                join(stream, inside).await
            }
            Request::Serve { id, name } => {
                let door = fake.serve(id, &name).await;
                let Some(door) = answered(&mut stream, door).await? else {
                    return Ok(());
                };
                self.tell_of_knocks(stream, door).await
            }
            Request::Accept(knock) => {
                let inside = self.knocks.lock().expect("no holder panics").remove(&knock);
                let inside = inside.ok_or_else(|| ProviderError::not_found("that connection"));
                let Some(inside) = answered(&mut stream, inside).await? else {
                    return Ok(());
                };
                join(stream, inside).await
            }
            Request::LetOut { id, passes } => {
                answer(&mut stream, fake.let_out(id, &passes).await).await
            }
            Request::Refusals { id, since } => {
                answer(&mut stream, fake.refusals(id, since.as_deref()).await).await
            }
            Request::Endpoints(id) => answer(&mut stream, fake.endpoints(id).await).await,
            Request::Alive(ids) => answer(&mut stream, fake.alive(&ids).await).await,
            Request::Health => answer(&mut stream, Ok(fake.health().await)).await,
            Request::List(labels) => answer(&mut stream, fake.list(&labels).await).await,
            Request::SnapshotMemory(id) => {
                answer(&mut stream, fake.snapshot_memory(id).await).await
            }
            Request::RestoreMemory { snapshot, spec } => {
                answer(&mut stream, fake.restore_memory(&snapshot, &spec).await).await
            }
            Request::DeleteSnapshot(id) => {
                answer(&mut stream, fake.delete_snapshot(&id).await).await
            }
            Request::Kill { id, victim } => answer(&mut stream, fake.kill(id, victim).await).await,
            Request::Runs => {
                for some in fake.runs().chunks(100) {
                    send(&mut stream, &some).await?;
                }
                Ok(())
            }
        }
    }

    async fn exec(
        &self,
        mut stream: UnixStream,
        id: SandboxId,
        spec: ExecSpec,
    ) -> Result<(), FrameError> {
        let exec = match self.fake.exec(id, spec).await {
            Ok(exec) => exec,
            Err(error) => return answer::<Option<i32>>(&mut stream, Err(error)).await,
        };
        let Exec { pid, input, output } = exec;
        answer(&mut stream, Ok(pid)).await?;
        let (mut reader, mut writer) = stream.into_split();
        // When the client closes, the queues are dropped, and with them the command.
        tokio::select! {
            closed = receive_input(&mut reader, input) => closed,
            ended = send_output(&mut writer, output) => ended,
        }
    }

    async fn write_files(
        &self,
        mut stream: UnixStream,
        id: SandboxId,
        path: &[u8],
        user: Option<&str>,
    ) -> Result<(), FrameError> {
        answer(&mut stream, Ok(())).await?;
        let (events, files) = mpsc::channel(EXEC_QUEUE);
        let (mut reader, mut writer) = stream.into_split();
        let write = self.fake.write_files(id, path, user, files);
        let receive = async {
            receive_files(&mut reader, &events).await;
            drop(events);
        };
        let (written, ()) = tokio::join!(write, receive);
        answer(&mut writer, written).await?;
        // A write that failed early leaves the rest unread, and the client would lose its answer.
        while read_frame(&mut reader).await?.is_some() {}
        Ok(())
    }

    async fn tell_of_knocks(
        &self,
        stream: UnixStream,
        mut door: Box<dyn Door>,
    ) -> Result<(), FrameError> {
        let (mut reader, mut writer) = stream.into_split();
        let mut told = Vec::new();
        let telling = async {
            while let Ok(inside) = door.accept().await {
                let knock = Knock(self.next.fetch_add(1, Ordering::Relaxed));
                self.knocks
                    .lock()
                    .expect("no holder panics")
                    .insert(knock, inside);
                told.push(knock);
                send(&mut writer, &knock).await?;
            }
            Ok(())
        };
        let ended = tokio::select! {
            ended = telling => ended,
            closed = read_frame(&mut reader) => closed.map(drop),
        };
        self.knocks
            .lock()
            .expect("no holder panics")
            .retain(|knock, _| !told.contains(knock));
        ended
    }
}

async fn answer<T: Serialize>(
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    result: Result<T, ProviderError>,
) -> Result<(), FrameError> {
    send(to, &result.map_err(Failure::from)).await
}

/// Answers whether it worked, and gives back what the connection goes on with.
async fn answered<T>(
    stream: &mut UnixStream,
    result: Result<T, ProviderError>,
) -> Result<Option<T>, FrameError> {
    match result {
        Ok(value) => answer(stream, Ok(())).await.map(|()| Some(value)),
        Err(error) => answer::<()>(stream, Err(error)).await.map(|()| None),
    }
}

async fn join(mut outside: UnixStream, mut inside: Box<dyn Stream>) -> Result<(), FrameError> {
    tokio::io::copy_bidirectional(&mut outside, &mut inside).await?;
    Ok(())
}
