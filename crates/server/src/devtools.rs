//! What goes on inside a session's sandbox, by its dev tools.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use gateway::Inside;
use model::session::{ClientStatus, Refused};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sessions::{Handle, HubError};

use crate::app::App;
use crate::problem::Answer;

/// For the tools to answer.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The sandbox that serves a session, which is woken for it.
pub(crate) async fn inside(app: &App, hub: &Handle) -> Answer<Inside> {
    let place = hub.ensure_ready().await?;
    let provider = app.provider(hub.provider())?;
    Ok(Inside::new(Arc::clone(provider), place))
}

/// The sandbox that serves a session, where one does: to look wakes nobody.
pub(crate) fn awake(app: &App, hub: &Handle) -> Answer<Inside> {
    let place = {
        let seen = hub.seen();
        let seen = seen.borrow();
        let serves = matches!(seen.status, ClientStatus::Running | ClientStatus::Migrating);
        seen.place.filter(|_| serves)
    };
    let place = place.ok_or(HubError::Refused(Refused::NotRunning))?;
    let provider = app.provider(hub.provider())?;
    Ok(Inside::new(Arc::clone(provider), place))
}

/// What its tools say of something.
pub(crate) async fn look<T: DeserializeOwned>(app: &App, hub: &Handle, path: &str) -> Answer<T> {
    let inside = awake(app, hub)?;
    Ok(inside.ask(Method::GET, path, None, PATIENCE).await?)
}

/// Has its tools do something.
pub(crate) async fn act<T: DeserializeOwned>(
    app: &App,
    hub: &Handle,
    path: &str,
    body: &Value,
) -> Answer<T> {
    let inside = inside(app, hub).await?;
    Ok(inside.ask(Method::POST, path, Some(body), PATIENCE).await?)
}
