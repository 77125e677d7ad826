//! A runner that a test plays: at the link door of a session's sandbox, in place of the fake's own.

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use provider::SandboxId;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

use crate::world::World;

pub(crate) struct Runner {
    pub(crate) sandbox: SandboxId,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    seq: u64,
}

impl Runner {
    /// Of a session that runs, as `/v1` shows it. Its agent is up and idle.
    pub(crate) async fn of(world: &World, session: &Value) -> Self {
        let sandbox: SandboxId = session["sandbox_id"].as_str().unwrap().parse().unwrap();
        world.fake.silence(sandbox).await.unwrap();
        let (reader, writer) = tokio::io::split(knock(world, sandbox, "link").await);
        let mut runner = Self {
            sandbox,
            lines: BufReader::new(reader).lines(),
            writer,
            seq: 0,
        };
        let hello = json!({ "type": "hello", "session": session["id"], "boot": "played",
            "generation": session["generation"], "protocol": 1, "term": 0 });
        runner.write(&hello).await;
        runner.hear("init").await;
        runner
            .say(json!({ "type": "agent_status", "status": "idle" }))
            .await;
        runner
    }

    /// Numbered; back when it is committed.
    pub(crate) async fn say(&mut self, mut frame: Value) {
        self.seq += 1;
        frame["seq"] = json!(self.seq);
        self.write(&frame).await;
        while self.hear("ack").await["seq"].as_u64() < Some(self.seq) {}
    }

    pub(crate) async fn hear(&mut self, kind: &str) -> Value {
        let heard = async {
            loop {
                let line = self.lines.next_line().await.unwrap();
                let line = line.unwrap_or_else(|| panic!("cut off before a {kind} came"));
                let frame: Value = serde_json::from_str(&line).unwrap();
                if frame["type"] == kind {
                    return frame;
                }
            }
        };
        let limit = std::time::Duration::from_secs(10);
        let heard = tokio::time::timeout(limit, heard).await;
        heard.unwrap_or_else(|_| panic!("no {kind} came"))
    }

    async fn write(&mut self, frame: &Value) {
        let line = format!("{frame}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }
}

async fn knock(world: &World, sandbox: SandboxId, door: &str) -> DuplexStream {
    loop {
        if let Some(stream) = world.fake.knock(sandbox, door).await {
            return stream;
        }
        tokio::task::yield_now().await;
    }
}

/// One request at the model door of a sandbox, as its agent makes it.
pub(crate) async fn ask_model(
    world: &World,
    sandbox: SandboxId,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> (u16, Value) {
    let stream = knock(world, sandbox, "model").await;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let mut request = Request::post(path)
        .header("host", "127.0.0.1:4002")
        .header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::<Bytes>::from(body.to_string())).unwrap();
    let talk = async {
        let answer = sender.send_request(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    };
    let (mut connection, mut talk) = (std::pin::pin!(connection), std::pin::pin!(talk));
    tokio::select! {
        answer = &mut talk => answer,
        _ = &mut connection => talk.await,
    }
}
