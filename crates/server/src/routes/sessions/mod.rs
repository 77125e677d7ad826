mod actions;
mod create;
mod egress;
mod env;
mod evidence;
mod inside;
mod lifecycle;
mod messages;
mod previews;
mod prompts;
mod records;
mod related;
mod snapshots;
mod terminals;
mod watch;

use store::sessions::Record;
use store::snapshots::Kind;
use utoipa_axum::router::OpenApiRouter;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::problem::{Answer, Problem};
use crate::shown;

pub(super) use self::create::{is_address, is_name};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(actions::routes())
        .merge(create::routes())
        .merge(egress::routes())
        .merge(env::routes())
        .merge(evidence::routes())
        .merge(inside::routes())
        .merge(lifecycle::routes())
        .merge(messages::routes())
        .merge(prompts::routes())
        .merge(records::routes())
        .merge(related::routes())
        .merge(previews::routes())
        .merge(snapshots::routes())
        .merge(terminals::routes())
        .merge(watch::routes())
}

/// The session as it is now.
async fn now(app: &App, caller: &Caller, id: &str) -> Answer<v1::Session> {
    let record = app.session(caller, id).await?;
    let work = app.store().work_of(&[record.id], app.now()).await?;
    let work = work.get(&record.id).copied().unwrap_or_default();
    let mut session = gateway::shown::session(&record, work, Some(app.site()));
    let phases = app.store().last_phases(record.id).await?;
    session.phases = phases.iter().map(shown::phase).collect();
    let faults = app.store().last_faults(record.id, record.last_seq).await?;
    session.faults = faults.into_iter().map(shown::fault).collect();
    let usage = app.store().usage_of(&[record.id]).await?;
    let usage = usage.get(&record.id).copied().unwrap_or_default();
    session.usage = Some(shown::session_usage(&usage));
    // One that stands still has no disk of its own to name: its receipt is what there is.
    if session.kept.as_deref() == Some("memory") {
        let newest = app.store().session_snapshots(record.id, None, 1).await?;
        let newest = newest.into_iter().find(|it| it.kind == Kind::Pause);
        session.snapshot_id = newest.map(|it| it.id).or(session.snapshot_id);
    }
    Ok(session)
}

/// Those of a page, each with what its agent does and what it took of models.
async fn listed(app: &App, records: &[Record]) -> Answer<Vec<v1::Session>> {
    let ids: Vec<_> = records.iter().map(|record| record.id).collect();
    let usage = app.store().usage_of(&ids).await?;
    let work = app.store().work_of(&ids, app.now()).await?;
    let shown = records.iter().map(|record| {
        let usage = usage.get(&record.id).copied().unwrap_or_default();
        let work = work.get(&record.id).copied().unwrap_or_default();
        v1::Session {
            usage: Some(shown::session_usage(&usage)),
            ..gateway::shown::session(record, work, Some(app.site()))
        }
    });
    Ok(shown.collect())
}

fn read_title(title: &str) -> Answer<String> {
    let title = title.trim();
    if title.is_empty() || title.len() > 200 || title.chars().any(char::is_control) {
        return Err(Problem::invalid("`title` has 1 to 200 bytes"));
    }
    Ok(title.to_owned())
}
