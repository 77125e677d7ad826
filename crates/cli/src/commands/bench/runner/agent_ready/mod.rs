//! How much later an agent can be asked because it comes with a sandbox, a workplace and a link.

mod recipe;

use std::time::{Duration, Instant};

use anyhow::Context as _;
use provider::{Provider as _, SandboxId};
use provider_local::Local;
use tokio::task::JoinSet;
use wire::link::Boot;
use wire::workplace::AGENT_PORT;

pub(super) use self::recipe::Recipe;
use super::super::stats::Samples;
use super::entry::ask;
use super::hub::Hub;
use super::{Ground, PATIENCE};
use crate::error::CommandError;

const HEALTH: &str = "GET /global/health";
/// What a workplace tells its hub before it says that its agent is ready. OpenCode takes its time
/// for it, alone as well.
const MODELS: &str = "GET /config/providers";
/// A starting server takes connections that it never answers: each probe is one of its own, is given
/// up soon, and is not waited for before the next.
const BETWEEN: Duration = Duration::from_millis(20);
const PROBE: Duration = Duration::from_millis(250);

/// A whole sandbox to a ready agent, and OpenCode alone in a sandbox that is there already, by turns.
pub(super) async fn run(ground: &mut Ground) -> Result<(), CommandError> {
    // The first is not counted: it brings what all share into the caches. It also shows how OpenCode
    // is started, so that the other one is started in the same way.
    let (id, _) = workplace(ground).await?;
    let recipe = ground
        .wait("OpenCode's settings", PATIENCE, async {
            Ok(Recipe::of(&ground.local, id).await?)
        })
        .await?;
    ground.local.remove(id).await?;

    let (mut whole, mut health, mut alone) =
        (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..ground.runs.rounds {
        ground.interrupt.check().await?;
        let (id, took) = workplace(ground).await?;
        whole.add(took);
        ground.local.remove(id).await?;

        ground.interrupt.check().await?;
        let id = ground.local.create(&ground.plain()).await?.id;
        let took = ground
            .wait("OpenCode's health", PATIENCE, async {
                recipe.write(&ground.local, id).await?;
                Ok(boot_alone(&ground.local, id, &recipe).await?)
            })
            .await?;
        health.add(took.to_health);
        alone.add(took.to_models);
        ground.local.remove(id).await?;
    }
    let report = &mut ground.report;
    let whole = report.times("create to agent ready", &whole);
    report.times("OpenCode alone, to its first answer", &health);
    let alone = report.times("OpenCode alone, to its models", &alone);
    if let (Some(whole), Some(alone)) = (whole, alone) {
        let over = whole.p50_ms - alone.p50_ms;
        report.goal(
            "create to agent ready",
            "p50 over OpenCode's own",
            over,
            150.0,
            "ms",
        );
    }
    Ok(())
}

/// Creates one and waits for its agent.
async fn workplace(ground: &Ground) -> Result<(SandboxId, Duration), CommandError> {
    let begun = Instant::now();
    let id = ground.local.create(&ground.workplace()).await?.id;
    let mut hub = Hub::open(&ground.local, id, Some(Boot::default())).await?;
    let ready = ground
        .wait("a ready agent", PATIENCE, hub.until_ready())
        .await?;
    Ok((id, ready.duration_since(begun)))
}

/// How long it took OpenCode, from its start.
struct Alone {
    to_health: Duration,
    to_models: Duration,
}

async fn boot_alone(local: &Local, id: SandboxId, recipe: &Recipe) -> anyhow::Result<Alone> {
    let begun = Instant::now();
    let mut running = local.exec(id, recipe.exec()).await?;
    let authorization = recipe.authorization()?;
    let up = async {
        let up = first_health(local, id, &authorization).await?;
        let models = ask(local, id, AGENT_PORT, MODELS, &authorization, "").await?;
        models.checked().context("asking for its models")?;
        Ok(Alone {
            to_health: up.duration_since(begun),
            to_models: begun.elapsed(),
        })
    };
    let end = async {
        loop {
            let said = running.output.recv().await.context("OpenCode is gone")??;
            if let provider::ExecOutput::Exit(exit) = said {
                anyhow::bail!("OpenCode ended with {}", exit.code);
            }
        }
    };
    tokio::select! {
        up = up => up,
        end = end => end,
    }
}

async fn first_health(
    local: &Local,
    id: SandboxId,
    authorization: &str,
) -> anyhow::Result<Instant> {
    let mut probes = JoinSet::new();
    let mut next = tokio::time::interval(BETWEEN);
    loop {
        tokio::select! {
            _ = next.tick() => {
                let (local, authorization) = (local.clone(), authorization.to_owned());
                probes.spawn(async move {
                    let probe = ask(&local, id, AGENT_PORT, HEALTH, &authorization, "");
                    let answer = tokio::time::timeout(PROBE, probe).await;
                    let is_up = matches!(answer, Ok(Ok(answer)) if answer.is_ok());
                    (is_up, Instant::now())
                });
            }
            Some(answered) = probes.join_next() => {
                if let (true, at) = answered? {
                    return Ok(at);
                }
            }
        }
    }
}
