//! A session's sandbox from a base, with its hub, and its gateway at a port of this machine.

use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::Duration;

use model::{Clock as _, Secret, SystemClock};
use provider::{
    ExecSpec, LinkBy, Network, Origin, Provider as _, SandboxId, SandboxSpec, Workplace,
};
use provider_local::{Config, Local};
use serde_json::Value;
use testkit::hub::{Carrier, Hub, Way};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use wire::keys::{Key, Purpose, code};
use wire::link::{Boot, FromRunner, PhaseState};
use wire::workplace::GATEWAY_PORT;

use crate::based::Based;
use crate::world::{Running, text};

const SESSION: &str = "ses_workbench";
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) struct Workbench<'a> {
    based: &'a Based,
    local: Local,
    id: SandboxId,
    hub: Hub,
    port: u16,
    tasks: JoinSet<()>,
}

impl<'a> Workbench<'a> {
    /// With a policed way out.
    pub(crate) async fn new(based: &'a Based, boot: Boot) -> Self {
        let local = Local::open(&Config::at(based.nacre.home.path())).unwrap();
        let spec = SandboxSpec {
            network: Network::Proxy,
            generation: 1,
            workplace: Some(Workplace {
                session: Some(SESSION.to_owned()),
                link: LinkBy::Door,
            }),
            ..SandboxSpec::from(Origin::Snapshot(based.base.clone()))
        };
        let id = local.create(&spec).await.unwrap().id;
        based.goes_with_us(&id.to_string());
        let hub = Hub::new(SESSION, 1);
        hub.boot_with(boot);
        let mut tasks = JoinSet::new();
        let (mut door, serving) = (local.serve(id, "link").await.unwrap(), hub.clone());
        tasks.spawn(async move {
            while let Ok(stream) = door.accept().await {
                serving.serve(Carrier::new(stream, Way::Lines).await).await;
            }
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tasks.spawn(lead(listener, local.clone(), id));
        Self {
            based,
            local,
            id,
            hub,
            port,
            tasks,
        }
    }

    /// Waits until boot has done with a phase, and done it well.
    pub(crate) async fn has(&self, phase: &str) {
        let ended = self.hub.wait_for(|frame| {
            matches!(frame, FromRunner::Phase(told) if told.name == phase && told.state != PhaseState::Started)
        });
        let Ok(ended) = tokio::time::timeout(PATIENCE, ended).await else {
            panic!("{phase} does not end; heard: {:#?}", self.hub.heard());
        };
        let is_done =
            matches!(&ended.body, FromRunner::Phase(told) if told.state == PhaseState::Done);
        assert!(is_done, "{ended:?}");
    }

    /// Where a browser finds the gateway.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("http://nacre.localhost:{}{path}", self.port)
    }

    /// The same with what lets a browser in, once.
    pub(crate) fn let_in(&self, path: &str) -> String {
        let secret = self.secret();
        let key = Key::derive(secret.expose(), Purpose::Code).unwrap();
        let now = SystemClock.now();
        let nonce = u128::try_from(now.as_nanosecond()).unwrap().to_be_bytes();
        let now = u64::try_from(now.as_second()).unwrap();
        let code = code::Claims::new("somebody", SESSION, "/", nonce, now).sign(&key);
        let joint = if path.contains('?') { '&' } else { '?' };
        self.at(&format!("{path}{joint}{}={code}", code::PARAMETER))
    }

    /// What `nacre sandbox open` says, which goes on until it is dropped.
    pub(crate) fn opened(&self, path: &str) -> (Running, String) {
        let mut command =
            self.based
                .nacre
                .command(["--json", "sandbox", "open", &self.id.to_string(), path]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut said).unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        (Running(child), text(&said["url"]))
    }

    /// What opens the dev tools' port.
    pub(crate) fn devtools_bearer(&self) -> String {
        let secret = self.secret();
        wire::keys::devtools_bearer(secret.expose()).unwrap()
    }

    fn secret(&self) -> Secret {
        let edge = self.local.edge(self.id).unwrap();
        edge.expect("it has a workplace").secret
    }

    /// What a script of `user` prints.
    pub(crate) async fn sh(&self, script: &str) -> String {
        let spec = ExecSpec {
            user: Some("user".to_owned()),
            ..ExecSpec::new(["bash", "-lc", script])
        };
        let exec = self.local.exec(self.id, spec).await.unwrap();
        let finished = exec.finish().await.unwrap();
        let stdout = String::from_utf8_lossy(&finished.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&finished.stderr);
        assert_eq!(finished.exit.code, 0, "{script}: {stdout}{stderr}");
        stdout
    }

    /// Waits until a script succeeds.
    pub(crate) async fn until(&self, script: &str) {
        self.sh(&format!(
            "for i in $(seq 600); do if {script}; then exit 0; fi; sleep 0.1; done; \
             tail -n 50 ~/.nacre/logs/*.log ~/.nacre/programs/logs/*.log >&2; exit 1"
        ))
        .await;
    }

    pub(crate) async fn end(mut self) {
        self.tasks.shutdown().await;
        self.local.remove(self.id).await.unwrap();
    }
}

/// Each connection to the gateway's port.
async fn lead(listener: TcpListener, local: Local, id: SandboxId) {
    let mut connections = JoinSet::new();
    while let Ok((mut ours, _)) = listener.accept().await {
        let local = local.clone();
        connections.spawn(async move {
            // Until the workplace listens there is nobody to lead to.
            if let Ok(mut theirs) = local.dial(id, GATEWAY_PORT).await {
                let _ = tokio::io::copy_bidirectional(&mut ours, &mut theirs).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}
