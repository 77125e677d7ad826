//! From the wish to run to `running`, beside a bare conversation with the same workplace.

use std::sync::Arc;
use std::time::Instant;

use camino::Utf8Path;
use model::session::StopReason;
use provider::{LinkBy, Network, Origin, Provider as _, SandboxSpec, Workplace};
use sessions::{Machine, Spec};
use wire::link::Boot;

use super::super::runner::Hub;
use super::super::say;
use super::world::World;
use super::{Figure, percentile, sorted};
use crate::app::App;
use crate::error::CommandError;

pub(super) async fn run(
    app: &App,
    directory: &Utf8Path,
    base: &str,
    starts: usize,
) -> Result<Vec<Figure>, CommandError> {
    let engine = app.engine()?;
    let base = engine.snapshot(base)?;
    let local = engine.local.clone();
    let world = World::over(&directory.join("ready.db"), Arc::new(local.clone())).await?;
    let machine = Machine {
        network: Network::None,
        ..Machine::default()
    };
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    // One of each first, for what is only slow once.
    for round in 0..=starts {
        let spec = SandboxSpec {
            memory: Some(machine.memory),
            cpu_millis: Some(machine.cpu_millis),
            workplace: Some(Workplace {
                session: Some("ses_bench".to_owned()),
                link: LinkBy::Door,
            }),
            ..SandboxSpec::from(Origin::Snapshot(base.clone()))
        };
        let begun = Instant::now();
        let sandbox = local.create(&spec).await?.id;
        let mut hub = Hub::open(&local, sandbox, Some(Boot::default())).await?;
        hub.until_ready().await?;
        let ready = begun.elapsed();
        say(&format!("ready after {} ms", ready.as_millis()));
        drop(hub);
        local.remove(sandbox).await?;

        let spec = Spec {
            base: Some(base.clone()),
            machine: machine.clone(),
            ..Spec::default()
        };
        let id = world.create(spec).await?;
        let session = world.sessions.open(id).await.map_err(anyhow::Error::from)?;
        let begun = Instant::now();
        let place = session.ensure_ready().await.map_err(anyhow::Error::from)?;
        let with_session = begun.elapsed();
        say(&format!("running after {} ms", with_session.as_millis()));
        session
            .stop(StopReason::Manual)
            .await
            .map_err(anyhow::Error::from)?;
        local.remove(place.sandbox).await?;
        if round > 0 {
            alone.push(ready.as_secs_f64() * 1000.0);
            together.push(with_session.as_secs_f64() * 1000.0);
        }
    }
    world.close().await?;
    let alone = percentile(&sorted(alone), 50);
    let together = percentile(&sorted(together), 50);
    Ok(vec![Figure {
        name: "running_over_runner_ready",
        value: together - alone,
        unit: "ms",
        goal: Some(30.0),
        detail: format!("p50 of {starts}: running {together:.0}, ready {alone:.0} ms"),
    }])
}
