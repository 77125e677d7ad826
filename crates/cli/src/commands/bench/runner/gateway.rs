use std::time::Duration;

use anyhow::Context as _;
use provider::{Provider as _, SandboxId, Stream};
use provider_local::Local;
use wire::workplace::{DEVTOOLS_PORT, GATEWAY_PORT};

use super::super::load;
use super::super::stats::middle;
use super::aside::{Aside, listen_inside};
use super::caddy;
use super::entry::{ask, gateway_token, tools_token};
use super::{Ground, PATIENCE};
use crate::error::CommandError;

const SMALL: usize = 1 << 10;
const LARGE: usize = 64 << 10;
static BODIES: [usize; 2] = [SMALL, LARGE];
const CONNECTIONS: usize = 8;
const CADDY_PORT: u16 = 8398;
const TUNNEL: &str = "bench";

/// A way to the same server.
struct Way {
    name: &'static str,
    port: u16,
    prefix: String,
    headers: String,
}

/// What came of it: requests a second, a round each.
#[derive(Default)]
struct Rates {
    direct: Vec<f64>,
    gateway: Vec<f64>,
    caddy: Vec<f64>,
}

impl Rates {
    /// The middle of the rounds' ratios: what disturbed a round disturbed both.
    fn ratio(of: &[f64], to: &[f64]) -> f64 {
        middle(of.iter().zip(to).map(|(of, to)| of / to).collect())
    }
}

/// A server in the sandbox asked without anything between, through a tunnel of the gateway, and
/// through Caddy in the same sandbox.
pub(super) async fn run(ground: &mut Ground) -> Result<(), CommandError> {
    let (id, _hub) = ground.greeted().await?;
    let pid = ground.local.show(id).await?.pid;
    let listener = listen_inside(pid.context("the sandbox has no processes")?)?;
    let port = listener.local_addr()?.port();
    let _server = Aside::start(listener, |listener| load::serve(listener, &BODIES))?;

    let [direct, gateway, caddy] = ground
        .wait("a way to the server", PATIENCE, async {
            Ok(ways(&ground.local, id, port).await?)
        })
        .await?;
    let mut all = Vec::new();
    for bytes in BODIES {
        let mut rates = Rates::default();
        for _ in 0..ground.runs.rounds {
            for (way, rates) in [
                (&direct, &mut rates.direct),
                (&gateway, &mut rates.gateway),
                (&caddy, &mut rates.caddy),
            ] {
                ground.interrupt.check().await?;
                rates.push(way.rate(&ground.local, id, bytes, ground.runs.each).await?);
            }
        }
        all.push((bytes, rates));
    }
    ground.local.remove(id).await?;

    let report = &mut ground.report;
    for (bytes, rates) in &all {
        for (way, rates) in [
            (&direct, &rates.direct),
            (&gateway, &rates.gateway),
            (&caddy, &rates.caddy),
        ] {
            let name = format!("{}: {} KiB bodies", way.name, bytes / 1024);
            report.value(&name, middle(rates.clone()).round(), "requests/s");
        }
        let (figure, to, at_least) = if *bytes == LARGE {
            ("of direct", &rates.direct, 0.6)
        } else {
            ("of Caddy's", &rates.caddy, 1.0)
        };
        let name = format!("gateway: {} KiB bodies", bytes / 1024);
        let ratio = Rates::ratio(&rates.gateway, to);
        report.goal_at_least(&name, figure, ratio, at_least, "");
    }
    Ok(())
}

async fn ways(local: &Local, id: SandboxId, port: u16) -> anyhow::Result<[Way; 3]> {
    let bearer = |token: String| format!("Authorization: Bearer {token}\r\n");
    let tunnel = format!(r#"{{"name":"{TUNNEL}","port":{port}}}"#);
    let headers = format!(
        "{}Content-Type: application/json\r\n",
        bearer(tools_token(local, id)?)
    );
    let opened = ask(
        local,
        id,
        DEVTOOLS_PORT,
        "POST /api/tunnels",
        &headers,
        &tunnel,
    )
    .await?;
    opened.checked().context("opening a tunnel")?;

    // As a browser: let in once, and then by what it was given.
    let prefix = format!("/t/{TUNNEL}");
    let line = format!("GET {prefix}/{SMALL}");
    let headers = bearer(gateway_token(local, id)?);
    let entered = ask(local, id, GATEWAY_PORT, &line, &headers, "").await?;
    let entered = entered.checked().context("entering by the gateway")?;
    let cookie = entered
        .text()
        .find("__Host-")
        .and_then(|at| entered.text()[at..].split(';').next())
        .context("the gateway gave no cookie")?;

    caddy::start(local, id, CADDY_PORT, port, &format!("/{SMALL}")).await?;
    let way = |name, port| Way {
        name,
        port,
        prefix: String::new(),
        headers: String::new(),
    };
    Ok([
        way("direct", port),
        Way {
            prefix,
            headers: format!("Cookie: {cookie}\r\n"),
            ..way("gateway", GATEWAY_PORT)
        },
        way("caddy", CADDY_PORT),
    ])
}

impl Way {
    async fn rate(
        &self,
        local: &Local,
        id: SandboxId,
        bytes: usize,
        each: Duration,
    ) -> anyhow::Result<f64> {
        let mut streams: Vec<Box<dyn Stream>> = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            streams.push(local.dial(id, self.port).await?);
        }
        let request = format!(
            "GET {}/{bytes} HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
            self.prefix, self.headers
        );
        let rate = load::rate(streams, &request, bytes, each).await;
        rate.with_context(|| format!("asking by way of {}", self.name))
    }
}
