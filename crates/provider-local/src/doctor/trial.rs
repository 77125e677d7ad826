//! The proof: one sandbox, from its making to its end.

use std::time::{Duration, Instant};

use provider::{ExecSpec, Origin, Provider as _, ProviderError, Runtime, SandboxSpec};

use super::scratch::Scratch;
use super::{Finding, ranges};
use crate::timing::millis;
use crate::{Config, Local};

const NAME: &str = "a sandbox";
/// It takes some tens of milliseconds; a machine this slow is of no use.
const PATIENCE: Duration = Duration::from_mins(1);

/// Creates, uses and removes a sandbox in a home of its own.
pub(super) fn run(config: &Config, scratch: &Scratch) -> Finding {
    let advice = "this is not a missing feature that doctor knows of: please report it with the output of `NACRE_LOG=debug nacre doctor`";
    match one(config, scratch, Runtime::Native) {
        Ok(times) => Finding::ok(NAME, times),
        Err(error) => Finding::missing(NAME, error, advice),
    }
}

/// How long one sandbox took, or what went wrong.
pub(super) fn one(config: &Config, scratch: &Scratch, runtime: Runtime) -> Result<String, String> {
    let tried = on_a_thread(async || try_one(&trial_config(config, scratch), runtime).await);
    tried.map_err(|error| {
        clear(config, scratch);
        with_causes(&error)
    })
}

/// Removes the sandboxes of a trial that did not come to its end.
pub(super) fn clear(config: &Config, scratch: &Scratch) {
    let config = trial_config(config, scratch);
    if !config.home.exists() {
        return;
    }
    let cleared = on_a_thread(async || {
        let local = Local::open(&config)?;
        for sandbox in local.list(&[]).await? {
            local.remove(sandbox.id).await?;
        }
        Ok(String::new())
    });
    if let Err(error) = cleared {
        tracing::warn!(%error, home = %config.home, "cannot remove the sandbox of a trial");
    }
}

async fn try_one(config: &Config, runtime: Runtime) -> Result<String, ProviderError> {
    let local = Local::open(config)?;
    let began = Instant::now();
    let spec = SandboxSpec {
        runtime,
        ..SandboxSpec::from(Origin::Bare)
    };
    let sandbox = local.create(&spec).await?;
    let created = millis(began);
    let used = use_it(&local, sandbox.id).await;
    let began = Instant::now();
    local.remove(sandbox.id).await?;
    let removed = millis(began);
    Ok(format!(
        "created in {created:.0} ms, ran a command in {:.0} ms, removed in {removed:.0} ms",
        used?
    ))
}

async fn use_it(local: &Local, id: provider::SandboxId) -> Result<f64, ProviderError> {
    let began = Instant::now();
    let finished = local
        .exec(id, ExecSpec::new(["/bin/true"]))
        .await?
        .finish()
        .await?;
    if finished.exit.code == 0 {
        return Ok(millis(began));
    }
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    Err(ProviderError::unavailable(
        format!("/bin/true ended with {}", finished.exit.code),
        said,
    ))
}

/// A home in the scratch directory, with one range that no sandbox of the real home has.
fn trial_config(config: &Config, scratch: &Scratch) -> Config {
    Config {
        home: scratch.path().join("home"),
        first_id: ranges::free(config),
        ranges: 1,
        ..config.clone()
    }
}

/// A runtime of its own: the caller may be inside another.
fn on_a_thread(
    work: impl AsyncFnOnce() -> Result<String, ProviderError> + Send,
) -> Result<String, ProviderError> {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| ProviderError::unavailable("starting a runtime", error))?;
        let result = runtime.block_on(async {
            let late = |_| {
                ProviderError::unavailable("waiting for the sandbox", "it took more than a minute")
            };
            tokio::time::timeout(PATIENCE, work()).await.map_err(late)?
        });
        // What hangs must not hang us.
        runtime.shutdown_background();
        result
    };
    let panicked = |_| ProviderError::unavailable("the trial", "it panicked");
    std::thread::scope(|scope| scope.spawn(run).join().map_err(panicked)?)
}

fn with_causes(error: &ProviderError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
