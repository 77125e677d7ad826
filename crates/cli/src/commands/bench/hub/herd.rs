//! What a live session takes of the memory of its server. Its sandboxes are in another process.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use camino::Utf8Path;
use futures::StreamExt as _;
use prove::{FakeGround, Ground as _};
use sessions::Spec;

use super::world::World;
use super::{Figure, number};
use crate::error::CommandError;

pub(super) async fn run(directory: &Utf8Path, count: usize) -> Result<Vec<Figure>, CommandError> {
    let place = directory.join("herd");
    fs_err::create_dir_all(&place)?;
    let ground = FakeGround::start(std::env::current_exe()?, &place).await?;
    let world = Arc::new(World::over(&directory.join("herd.db"), ground.provider()).await?);
    // What the first ones bring along is not theirs.
    let mut first = Vec::new();
    for _ in 0..10 {
        let id = world.create(Spec::default()).await?;
        first.push(world.sessions.open(id).await.map_err(anyhow::Error::from)?);
    }
    for session in &first {
        session.ensure_ready().await.map_err(anyhow::Error::from)?;
    }
    let before = resident()?;
    let begun = Instant::now();
    let started = futures::stream::iter(0..count).map(|_| {
        let world = Arc::clone(&world);
        async move {
            let id = world.create(Spec::default()).await?;
            let session = world.sessions.open(id).await.map_err(anyhow::Error::from)?;
            session.ensure_ready().await.map_err(anyhow::Error::from)?;
            Ok::<_, CommandError>(session)
        }
    });
    let sessions: Vec<_> = started.buffer_unordered(16).collect().await;
    let took = begun.elapsed();
    let mut live = Vec::new();
    for session in sessions {
        live.push(session?);
    }
    let after = resident()?;
    let taken = usize::try_from(after.saturating_sub(before)).unwrap_or(usize::MAX);
    let each = number(taken) / number(count);
    drop((live, first));
    if let Ok(world) = Arc::try_unwrap(world) {
        world.close().await?;
    }
    Ok(vec![Figure {
        name: "live_session",
        value: each,
        unit: "KiB",
        goal: Some(100.0),
        detail: format!(
            "{count} at once, all running after {:.1} s",
            took.as_secs_f64()
        ),
    }])
}

/// In KiB.
fn resident() -> Result<u64, CommandError> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    Ok(number.context("the kernel does not say how much memory this takes")?)
}
