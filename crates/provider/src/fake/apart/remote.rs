use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model::{SnapshotId, Timestamp};
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use wire::Raw;
use wire::frame::{FrameError, read_frame};

use super::protocol::{Failure, Hello, Knock, Request, exec_to_wire, receive, send};
use super::streams::{receive_files, receive_output, send_files, send_input};
use crate::fake::{Run, Victim};
use crate::{
    Alive, Capabilities, Door, EXEC_QUEUE, Endpoints, Ensured, Exec, ExecSpec, FileStream, Health,
    Pass, Provider, ProviderError, Receipt, Refusals, Resumed, Sandbox, SandboxId, SandboxSpec,
    Stream,
};

/// The fake in another process. Keeps no connection between calls, so that the process may be
/// replaced at any time.
#[derive(Debug, Clone)]
pub struct Remote {
    socket: PathBuf,
    name: String,
    capabilities: Capabilities,
}

impl Remote {
    pub async fn connect(socket: impl Into<PathBuf>) -> Result<Self, ProviderError> {
        let socket = socket.into();
        let (_, hello) = open::<Hello>(&socket, "connect", &Request::Hello).await?;
        Ok(Self {
            socket,
            name: hello.name,
            capabilities: hello.capabilities,
        })
    }

    /// See [`Fake::kill`](crate::fake::Fake::kill).
    pub async fn kill(&self, id: SandboxId, victim: Victim) -> Result<(), ProviderError> {
        self.call("kill", Request::Kill { id, victim }).await
    }

    /// See [`Fake::runs`](crate::fake::Fake::runs).
    pub async fn runs(&self) -> Result<Vec<Run>, ProviderError> {
        let lost = |error| ProviderError::unavailable("runs", error);
        let talk = async {
            let mut stream = UnixStream::connect(&self.socket).await?;
            send(&mut stream, &Request::Runs).await?;
            let mut runs = Vec::new();
            while let Some(frame) = read_frame(&mut stream).await? {
                runs.extend(frame.message::<Vec<Run>>()?);
            }
            Ok(runs)
        };
        talk.await.map_err(|error: FrameError| lost(error))
    }

    async fn call<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        request: Request,
    ) -> Result<T, ProviderError> {
        let (_, answer) = open(&self.socket, operation, &request).await?;
        Ok(answer)
    }
}

/// A connection on which the request was answered.
async fn open<T: DeserializeOwned>(
    socket: &Path,
    operation: &'static str,
    request: &Request,
) -> Result<(UnixStream, T), ProviderError> {
    let talk = async {
        let mut stream = UnixStream::connect(socket).await?;
        send(&mut stream, request).await?;
        let answer: Result<T, Failure> = receive(&mut stream).await?;
        Ok((stream, answer))
    };
    let (stream, answer) = talk
        .await
        .map_err(|error: FrameError| ProviderError::unavailable(operation, error))?;
    Ok((stream, answer?))
}

#[async_trait]
impl Provider for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn ensure(&self, spec: &SandboxSpec) -> Result<Ensured, ProviderError> {
        self.call("ensure", Request::Ensure(spec.clone())).await
    }

    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        self.call("create", Request::Create(spec.clone())).await
    }

    async fn terminate(&self, id: SandboxId) -> Result<(), ProviderError> {
        self.call("terminate", Request::Terminate(id)).await
    }

    async fn stop(&self, id: SandboxId) -> Result<Receipt, ProviderError> {
        self.call("stop", Request::Stop(id)).await
    }

    async fn remove(&self, id: SandboxId) -> Result<(), ProviderError> {
        self.call("remove", Request::Remove(id)).await
    }

    async fn snapshot(&self, id: SandboxId, name: Option<&str>) -> Result<Receipt, ProviderError> {
        self.call(
            "snapshot",
            Request::Snapshot {
                id,
                name: name.map(str::to_owned),
            },
        )
        .await
    }

    async fn pause(&self, id: SandboxId) -> Result<Receipt, ProviderError> {
        self.call("pause", Request::Pause(id)).await
    }

    async fn resume(&self, id: SandboxId) -> Result<Resumed, ProviderError> {
        self.call("resume", Request::Resume(id)).await
    }

    async fn fork(&self, id: SandboxId, count: usize) -> Result<Vec<Sandbox>, ProviderError> {
        self.call("fork", Request::Fork { id, count }).await
    }

    async fn extend(&self, id: SandboxId, until: Timestamp) -> Result<Timestamp, ProviderError> {
        self.call("extend", Request::Extend { id, until }).await
    }

    async fn exec(&self, id: SandboxId, spec: ExecSpec) -> Result<Exec, ProviderError> {
        let request = Request::Exec {
            id,
            spec: exec_to_wire(spec),
        };
        let (stream, pid) = open(&self.socket, "exec", &request).await?;
        let (input, inputs) = mpsc::channel(EXEC_QUEUE);
        let (outputs, output) = mpsc::channel(EXEC_QUEUE);
        bridge(async move {
            let (mut reader, mut writer) = stream.into_split();
            let sending = async {
                // Whether all is said or nobody listens any more: the end is what is read.
                let _ = send_input(&mut writer, inputs).await;
                std::future::pending::<()>().await;
            };
            // The end of the connection tells the other side that the handle is gone.
            tokio::select! {
                _ = receive_output(&mut reader, &outputs) => {}
                () = outputs.closed() => {}
                () = sending => {}
            }
        });
        Ok(Exec { pid, input, output })
    }

    async fn read_files(
        &self,
        id: SandboxId,
        path: &[u8],
        user: Option<&str>,
    ) -> Result<FileStream, ProviderError> {
        let request = Request::ReadFiles {
            id,
            path: Raw(path.to_vec()),
            user: user.map(str::to_owned),
        };
        let (mut stream, ()) = open(&self.socket, "read_files", &request).await?;
        let (events, files) = mpsc::channel(EXEC_QUEUE);
        bridge(async move {
            tokio::select! {
                () = receive_files(&mut stream, &events) => {}
                () = events.closed() => {}
            }
        });
        Ok(files)
    }

    async fn write_files(
        &self,
        id: SandboxId,
        path: &[u8],
        user: Option<&str>,
        files: FileStream,
    ) -> Result<(), ProviderError> {
        let request = Request::WriteFiles {
            id,
            path: Raw(path.to_vec()),
            user: user.map(str::to_owned),
        };
        let (mut stream, ()) = open(&self.socket, "write_files", &request).await?;
        let lost = |error| ProviderError::unavailable("write_files", error);
        send_files(&mut stream, files).await.map_err(lost)??;
        let written: Result<(), Failure> = receive(&mut stream).await.map_err(lost)?;
        Ok(written?)
    }

    async fn dial(&self, id: SandboxId, port: u16) -> Result<Box<dyn Stream>, ProviderError> {
        let (stream, ()) = open(&self.socket, "dial", &Request::Dial { id, port }).await?;
        Ok(Box::new(stream))
    }

    async fn serve(&self, id: SandboxId, name: &str) -> Result<Box<dyn Door>, ProviderError> {
        let request = Request::Serve {
            id,
            name: name.to_owned(),
        };
        let (mut stream, ()) = open(&self.socket, "serve", &request).await?;
        let (sender, knocks) = mpsc::channel(EXEC_QUEUE);
        bridge(async move {
            let listening = async {
                while let Ok(knock) = receive::<Knock>(&mut stream).await {
                    if sender.send(knock).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = listening => {}
                () = sender.closed() => {}
            }
        });
        Ok(Box::new(RemoteDoor {
            socket: self.socket.clone(),
            knocks,
        }))
    }

    async fn let_out(&self, id: SandboxId, passes: &[Pass]) -> Result<(), ProviderError> {
        let passes = passes.to_vec();
        self.call("let_out", Request::LetOut { id, passes }).await
    }

    async fn refusals(
        &self,
        id: SandboxId,
        since: Option<&str>,
    ) -> Result<Refusals, ProviderError> {
        let since = since.map(str::to_owned);
        self.call("refusals", Request::Refusals { id, since }).await
    }

    async fn endpoints(&self, id: SandboxId) -> Result<Endpoints, ProviderError> {
        self.call("endpoints", Request::Endpoints(id)).await
    }

    async fn alive(&self, ids: &[SandboxId]) -> Result<Vec<(SandboxId, Alive)>, ProviderError> {
        if ids.is_empty() {
            return Ok(vec![]);
        }
        self.call("alive", Request::Alive(ids.to_vec())).await
    }

    async fn health(&self) -> Health {
        let answer = self.call("health", Request::Health).await;
        answer.unwrap_or_else(|error| Health {
            ok: false,
            detail: error.to_string(),
        })
    }

    async fn list(&self, labels: &[(String, String)]) -> Result<Vec<Sandbox>, ProviderError> {
        self.call("list", Request::List(labels.to_vec())).await
    }

    async fn snapshot_memory(&self, id: SandboxId) -> Result<Receipt, ProviderError> {
        self.call("snapshot_memory", Request::SnapshotMemory(id))
            .await
    }

    async fn restore_memory(
        &self,
        snapshot: &SnapshotId,
        spec: &SandboxSpec,
    ) -> Result<Sandbox, ProviderError> {
        let request = Request::RestoreMemory {
            snapshot: snapshot.clone(),
            spec: spec.clone(),
        };
        self.call("restore_memory", request).await
    }

    async fn delete_snapshot(&self, snapshot: &SnapshotId) -> Result<(), ProviderError> {
        self.call("delete_snapshot", Request::DeleteSnapshot(snapshot.clone()))
            .await
    }
}

/// Carries a connection for a handle, which may outlive the provider it came from.
#[expect(
    clippy::disallowed_methods,
    reason = "owned by the handle: it ends when that is dropped"
)]
fn bridge(work: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(work);
}

#[derive(Debug)]
struct RemoteDoor {
    socket: PathBuf,
    knocks: mpsc::Receiver<Knock>,
}

#[async_trait]
impl Door for RemoteDoor {
    async fn accept(&mut self) -> Result<Box<dyn Stream>, ProviderError> {
        let Some(knock) = self.knocks.recv().await else {
            return Err(ProviderError::not_found("the sandbox behind this door"));
        };
        let (stream, ()) = open(&self.socket, "accept", &Request::Accept(knock)).await?;
        Ok(Box::new(stream))
    }
}
