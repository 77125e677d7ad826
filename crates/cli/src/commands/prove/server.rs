//! The processes of a storm.

use std::sync::Arc;

use anyhow::Context as _;
use camino::Utf8PathBuf;
use model::{Id, Organisation};
use prove::{Pace, ServerOptions};
use provider::Provider;
use provider::fake::{self, Remote};
use sessions::Spec;

use crate::app::App;
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
    /// Where the fake provider listens; without it the local one is meant
    #[arg(long)]
    fake_provider: Option<Utf8PathBuf>,
    /// What its sessions are
    #[arg(long, default_value = "{}")]
    spec: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProviderArguments {
    #[arg(long)]
    state: Utf8PathBuf,
    #[arg(long)]
    socket: Utf8PathBuf,
}

pub(crate) async fn serve(app: &App, arguments: ServerArguments) -> Result<(), CommandError> {
    let spec: Spec = serde_json::from_str(&arguments.spec).context("that is no session")?;
    let (provider, pace): (Arc<dyn Provider>, Pace) = match &arguments.fake_provider {
        Some(socket) => {
            let remote = Remote::connect(socket).await;
            let remote = remote.context("the fake provider does not answer")?;
            (Arc::new(remote), Pace::Memory)
        }
        None => (Arc::new(app.engine()?.local), Pace::Machine),
    };
    prove::serve(ServerOptions {
        database: arguments.database,
        socket: arguments.socket,
        owner: arguments.owner,
        organisation: arguments.organisation,
        faults: arguments.faults,
        provider,
        spec,
        pace,
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
