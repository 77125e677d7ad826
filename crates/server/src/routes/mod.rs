mod described;
mod health;
mod host;
mod login;
mod members;
mod metrics;
mod orgs;
mod providers;
mod pulls;
mod repos;
mod secrets;
mod sessions;
mod snapshots;
mod tokens;
mod uploads;

use axum::Router;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

pub(crate) use self::uploads::path as upload_path;

/// Every route, and its description.
pub(crate) fn all() -> (Router<App>, OpenApi) {
    let (router, mut described) = OpenApiRouter::with_openapi(described::Server::openapi())
        .merge(health::routes())
        .merge(host::routes())
        .merge(login::routes())
        .merge(members::routes())
        .merge(metrics::routes())
        .merge(orgs::routes())
        .merge(providers::routes())
        .merge(pulls::routes())
        .merge(repos::routes())
        .merge(secrets::routes())
        .merge(sessions::routes())
        .merge(snapshots::routes())
        .merge(tokens::routes())
        .merge(uploads::routes())
        .split_for_parts();
    described::add_problems(&mut described);
    described::add_keys(&mut described);
    described::list_codes(&mut described);
    described::hide_unknown(&mut described);
    (router, described)
}
