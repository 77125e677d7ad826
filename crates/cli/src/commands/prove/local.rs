//! The local provider, with a real agent whose model does as its prompts say.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use camino::Utf8PathBuf;
use model::SnapshotId;
use prove::{Ground, Pace, Server, Victim, Work};
use provider::fake::Run;
use provider::{ExecSpec, Forward, Network, Provider, SandboxId};
use provider_local::Local;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sessions::{Machine, Spec};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use wire::link::{AgentConfig, Boot, CustomProvider, Model};

/// Where the agent finds its model.
const MODEL_PORT: u16 = 8900;
/// A command inside that does not answer is given up.
const COMMAND: Duration = Duration::from_secs(20);

pub(super) struct LocalGround {
    pub(super) program: PathBuf,
    pub(super) home: Utf8PathBuf,
    pub(super) local: Local,
    /// A model that speaks the Chat API and follows scripts, as `nacre-scripted-model` does.
    pub(super) model: SocketAddr,
    pub(super) base: SnapshotId,
}

impl LocalGround {
    fn spec(&self) -> Spec {
        let model = |id: &str| Model {
            id: id.to_owned(),
            name: None,
            context_limit: None,
            output_limit: None,
        };
        Spec {
            base: Some(self.base.clone()),
            boot: Boot {
                agent: AgentConfig {
                    model: Some("scripted/main".to_owned()),
                    small_model: Some("scripted/main".to_owned()),
                    custom_providers: vec![CustomProvider {
                        id: "scripted".to_owned(),
                        name: "Scripted".to_owned(),
                        base_url: format!("http://127.0.0.1:{MODEL_PORT}/v1"),
                        models: vec![model("main")],
                    }],
                    ..AgentConfig::default()
                },
                ..Boot::default()
            },
            machine: Machine {
                network: Network::None,
                forwards: vec![Forward {
                    port: MODEL_PORT,
                    to: self.model,
                }],
                ..Machine::default()
            },
            ..Spec::default()
        }
    }

    async fn inside(&self, sandbox: SandboxId, script: &str) -> Result<()> {
        let spec = ExecSpec {
            timeout: Some(COMMAND),
            ..ExecSpec::new(["sh", "-c", script])
        };
        let exec = self.local.exec(sandbox, spec).await?;
        exec.finish().await?;
        Ok(())
    }

    /// By what is written down about the sandbox.
    fn kill_keeper(&self, sandbox: SandboxId) -> Result<()> {
        let path = self.home.join(format!("sandboxes/{sandbox}/keeper.json"));
        let running: Value = serde_json::from_str(&fs_err::read_to_string(path)?)?;
        let pid = running["keeper"]
            .as_i64()
            .and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).context("it has no keeper")?;
        kill_process(pid, Signal::KILL)?;
        Ok(())
    }
}

#[async_trait]
impl Ground for LocalGround {
    fn pace(&self) -> Pace {
        Pace::Machine
    }

    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.local.clone())
    }

    fn script(&self, id: &str, work: &[Work]) -> String {
        let steps: Vec<Value> = work
            .iter()
            .map(|work| match work {
                Work::Say(words) => json!({ "text": words, "delay_ms": 10, "tool": "bash",
                    "input": { "command": "true", "description": "nothing" } }),
                Work::Write { path, words } => json!({ "tool": "write", "input": {
                    "filePath": format!("{}/{path}", wire::workplace::WORKSPACE),
                    "content": words,
                } }),
                Work::Wait { millis } => json!({ "tool": "bash", "input": {
                    "command": format!("sleep {}", Duration::from_millis(millis * 20).as_secs_f64()),
                    "description": "waits",
                } }),
            })
            .chain([json!({ "text": "that is all" })])
            .collect();
        // One line: told again as history, it is no script.
        format!("!!{}", json!({ "id": id, "steps": steps }))
    }

    async fn kill(&self, sandbox: SandboxId, victim: Victim) -> Result<()> {
        match victim {
            Victim::Runner => self.inside(sandbox, "pkill -9 -f '^nacre-workplace'").await,
            Victim::Agent => self.inside(sandbox, "pkill -9 -f 'opencode serve'").await,
            Victim::Sandbox => Ok(self.local.terminate(sandbox).await?),
            Victim::Keeper => self.kill_keeper(sandbox),
        }
    }

    /// As the model counts them.
    async fn runs(&self) -> Result<Vec<Run>> {
        let mut stream = TcpStream::connect(self.model).await?;
        let request = "GET /__runs HTTP/1.1\r\nHost: model\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        ensure!(head.starts_with("HTTP/1.1 200"), "the model answers {head}");
        let counts: std::collections::BTreeMap<String, u64> = serde_json::from_str(body)?;
        let runs = counts.into_iter().flat_map(|(prompt, times)| {
            // The model does not know whose a prompt is; its name is used once in a storm.
            let run = Run {
                session: String::new(),
                prompt,
            };
            (0..times).map(move |_| run.clone())
        });
        Ok(runs.collect())
    }

    async fn mend(&self) -> Result<()> {
        Ok(())
    }

    fn server(&self, server: &Server) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("NACRE_HOME", &self.home)
            .args(["internal", "prove-server"])
            .args(["--database", server.database.as_str()])
            .args(["--socket", server.socket.as_str()])
            .args(["--owner", &server.owner])
            .args(["--organisation", &server.organisation.to_string()])
            .args(["--spec", &json!(self.spec()).to_string()]);
        if let Some(seed) = server.faults {
            command.args(["--faults", &seed.to_string()]);
        }
        command
    }
}
