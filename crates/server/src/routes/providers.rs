use axum::extract::State;
use futures::future::join_all;
use provider::Provider;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::Json;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(providers))
        .routes(routes!(models))
}

/// What runs sandboxes here, and what it can do.
#[utoipa::path(get, path = "/v1/providers", tag = "providers",
    responses((status = 200, body = v1::ProviderList)))]
async fn providers(State(app): State<App>, _: Caller) -> Json<v1::ProviderList> {
    let default = app.parts.offer.default_provider();
    let shown = app.parts.providers.iter().map(|provider| async move {
        let health = provider.health().await;
        let capabilities = provider.capabilities();
        v1::ProviderInfo {
            name: provider.name().to_owned(),
            is_default: provider.name() == default,
            healthy: health.ok,
            detail: health.detail,
            isolation: capabilities.isolation.to_string(),
            capabilities: names(&**provider),
            max_lifetime_ms: capabilities
                .max_lifetime
                .and_then(|time| u64::try_from(time.as_millis()).ok()),
        }
    });
    Json(v1::ProviderList {
        providers: join_all(shown).await,
    })
}

fn names(provider: &dyn Provider) -> Vec<String> {
    let can = provider.capabilities().can.iter();
    can.map(|capability| json!(capability).as_str().unwrap_or_default().to_owned())
        .collect()
}

/// The models that sessions can use.
#[utoipa::path(get, path = "/v1/models", tag = "models",
    responses((status = 200, body = v1::ModelList)))]
async fn models(State(app): State<App>, caller: Caller) -> Json<v1::ModelList> {
    Json(v1::ModelList {
        models: app.parts.outside.models_for(caller.organisation).await,
    })
}
