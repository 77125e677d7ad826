//! The processes of a storm.

use std::sync::Arc;

use anyhow::Context as _;
use camino::Utf8PathBuf;
use model::{Id, Organisation};
use prove::{Pace, ServerOptions};
use provider::fake::{self, Remote};
use sessions::Spec;

use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct ServerArguments {
    #[arg(long)]
    database: Utf8PathBuf,
    #[arg(long)]
    socket: Utf8PathBuf,
    #[arg(long)]
    owner: String,
    #[arg(long)]
    organisation: Id<Organisation>,
    #[arg(long)]
    faults: Option<u64>,
    /// Where the fake provider listens
    #[arg(long)]
    fake_provider: Utf8PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProviderArguments {
    #[arg(long)]
    state: Utf8PathBuf,
    #[arg(long)]
    socket: Utf8PathBuf,
}

pub(crate) async fn serve(arguments: ServerArguments) -> Result<(), CommandError> {
    let remote = Remote::connect(&arguments.fake_provider)
        .await
        .context("the fake provider does not answer")?;
    prove::serve(ServerOptions {
        database: arguments.database,
        socket: arguments.socket,
        owner: arguments.owner,
        organisation: arguments.organisation,
        faults: arguments.faults,
        provider: Arc::new(remote),
        spec: Spec::default(),
        pace: Pace::Memory,
    })
    .await?;
    Ok(())
}

pub(crate) async fn provide(arguments: ProviderArguments) -> Result<(), CommandError> {
    fake::serve(
        arguments.state.as_std_path(),
        arguments.socket.as_std_path(),
    )
    .await?;
    Ok(())
}
