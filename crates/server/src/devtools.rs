//! What goes on inside a session's sandbox, by its dev tools.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use gateway::Inside;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sessions::Handle;

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

/// What its tools say of something.
pub(crate) async fn look<T: DeserializeOwned>(app: &App, hub: &Handle, path: &str) -> Answer<T> {
    let inside = inside(app, hub).await?;
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
