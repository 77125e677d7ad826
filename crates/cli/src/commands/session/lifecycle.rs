use std::process::ExitCode;

use model::ByteCount;
use wire::v1::{Fork, NewSnapshot, Receipt, Session};

use super::{each, of_session, phases, standing, took};
use crate::app::App;
use crate::commands::remote;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session why ID                 # what was kept, and what was lost
  nacre session recover ID --accept")]
pub(crate) struct RecoverArguments {
    /// The session's id
    #[arg(value_name = "ID")]
    session: String,
    /// What was lost stays lost: say that you know
    #[arg(long)]
    accept: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session snapshot ID -m 'before the rewrite'
  nacre session fork ID --snapshot $(nacre session snapshot ID)")]
pub(crate) struct SnapshotArguments {
    /// The session's id
    #[arg(value_name = "ID")]
    session: String,
    /// What it is, for people
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session fork ID
  nacre session fork ID --snapshot SNAPSHOT --title 'the other way'")]
pub(crate) struct ForkArguments {
    /// The session's id
    #[arg(value_name = "ID")]
    session: String,
    /// From this snapshot of the session [default: its files as they are now]
    #[arg(long)]
    snapshot: Option<String>,
    /// The new session's title
    #[arg(long)]
    title: Option<String>,
}

pub(super) async fn pause(app: &App, id: &str) -> Result<(), CommandError> {
    let client = remote::connect()?;
    let progress = app.output.progress("keeping everything");
    let paused = phases::shown(&client, id, "pausing", &progress, client.pause(id)).await;
    let paused = paused.map_err(of_session)?;
    drop(progress);
    app.output.result(&paused, || {
        let kept = paused.receipt.as_ref().map(kept).unwrap_or_default();
        format!("paused{kept}\nIt goes on with: nacre session resume {id}")
    })
}

pub(super) async fn resume(app: &App, id: &str) -> Result<(), CommandError> {
    let client = remote::connect()?;
    let progress = app.output.progress("resuming");
    let resumed = phases::shown(&client, id, "resuming", &progress, client.resume(id)).await;
    let session = resumed.map_err(|error| failed(error, id))?;
    drop(progress);
    app.output.result(&session, || now_is(&session))
}

pub(super) async fn migrate(app: &App, id: &str) -> Result<(), CommandError> {
    let client = remote::connect()?;
    let progress = app.output.progress("moving");
    let moved = phases::shown(&client, id, "moving", &progress, client.migrate(id)).await;
    let session = moved.map_err(|error| failed(error, id))?;
    drop(progress);
    app.output.result(&session, || now_is(&session))
}

pub(super) async fn stop(app: &App, id: &str) -> Result<(), CommandError> {
    let client = remote::connect()?;
    let progress = app.output.progress("keeping everything, and stopping");
    let stopped = phases::shown(&client, id, "stopping", &progress, client.stop(id)).await;
    let stopped = stopped.map_err(of_session)?;
    drop(progress);
    app.output.result(&stopped, || {
        let kept = stopped.receipt.as_ref().map(kept).unwrap_or_default();
        format!("stopped{kept}\nGo on from it with: nacre session fork {id}")
    })
}

pub(super) async fn recover(app: &App, arguments: &RecoverArguments) -> Result<(), CommandError> {
    let id = &arguments.session;
    if !arguments.accept {
        return Err(
            CommandError::usage("to recover is to go on without what was lost")
                .hint(format!("see what that is: `nacre session why {id}`"))
                .hint(format!(
                    "then say that you know: `nacre session recover {id} --accept`"
                )),
        );
    }
    let client = remote::connect()?;
    let progress = app.output.progress("starting from what was kept");
    let doing = "starting from what was kept";
    let recovered = phases::shown(&client, id, doing, &progress, client.recover(id)).await;
    let session = recovered.map_err(|error| failed(error, id))?;
    drop(progress);
    app.output.result(&session, || now_is(&session))
}

pub(super) async fn snapshot(app: &App, arguments: SnapshotArguments) -> Result<(), CommandError> {
    let client = remote::connect()?;
    let progress = app.output.progress("taking a snapshot");
    let new = NewSnapshot {
        message: arguments.message,
    };
    let receipt = client.create_snapshot(&arguments.session, &new).await;
    let receipt = receipt.map_err(of_session)?;
    drop(progress);
    app.output.result(&receipt, || receipt.snapshot.clone())
}

pub(super) async fn fork(app: &App, arguments: ForkArguments) -> Result<(), CommandError> {
    let client = remote::connect()?;
    let progress = app.output.progress("forking");
    let fork = Fork {
        snapshot_id: arguments.snapshot,
        title: arguments.title,
    };
    let id = &arguments.session;
    let work = client.fork(id, &fork);
    let forked = phases::shown(&client, id, "forking", &progress, work).await;
    let forked = forked.map_err(of_session)?;
    drop(progress);
    app.output.result(&forked, || forked.id.clone())
}

pub(super) async fn remove(app: &App, ids: &[String]) -> Result<ExitCode, CommandError> {
    let client = remote::connect()?;
    let _progress = app.output.progress("removing");
    each(app, "removed", ids, async |id| {
        client.delete_session(id).await.map_err(of_session)
    })
    .await
}

fn failed(error: client::ClientError, id: &str) -> CommandError {
    let had_a_server = error.problem().is_some_and(|problem| problem.status == 502);
    let error = of_session(error);
    if had_a_server {
        error.context(format!("session {id} did not start"))
    } else {
        error
    }
}

fn now_is(session: &Session) -> String {
    let taken: u64 = session
        .phases
        .iter()
        .filter_map(|phase| phase.took_ms)
        .sum();
    let status = standing(session);
    match taken {
        0 => status.to_owned(),
        taken => format!("{status}, after {}", took(taken)),
    }
}

fn kept(receipt: &Receipt) -> String {
    let size = receipt.bytes.map(ByteCount::new);
    let size = size.map(|size| format!(", {size}")).unwrap_or_default();
    let time = receipt.took_ms.map(took);
    let time = time.map(|time| format!(", in {time}")).unwrap_or_default();
    format!(
        "; kept the {} as {}{size}{time}",
        receipt.kept, receipt.snapshot
    )
}
