mod health;
mod login;
mod metrics;
mod orgs;
mod providers;
mod secrets;
mod sessions;
mod snapshots;
mod tokens;
mod uploads;

use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

pub(crate) use self::uploads::path as upload_path;

/// Every route, and its description.
pub(crate) fn all() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Described::openapi())
        .merge(health::routes())
        .merge(login::routes())
        .merge(metrics::routes())
        .merge(orgs::routes())
        .merge(providers::routes())
        .merge(secrets::routes())
        .merge(sessions::routes())
        .merge(snapshots::routes())
        .merge(tokens::routes())
        .merge(uploads::routes())
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Nacre",
        description = "Sessions of coding agents that outlive their sandboxes.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    modifiers(&Bearer),
    security(("bearer" = [])),
)]
struct Described;

struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}
