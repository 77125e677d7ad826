use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::Json;
use crate::problem::Answer;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(me))
}

/// Who asks, and as what.
#[utoipa::path(get, path = "/v1/me", tag = "organisations",
    responses((status = 200, body = v1::Caller)))]
async fn me(State(app): State<App>, caller: Caller) -> Answer<Json<v1::Caller>> {
    let user = match caller.user {
        Some(user) => app.store().find_user(user).await?,
        None => None,
    };
    Ok(Json(v1::Caller {
        org_id: caller.organisation.to_string(),
        role: caller.shown_role(),
        user: user.map(|user| v1::User {
            id: user.id.to_string(),
            email: user.email,
            name: user.name,
        }),
    }))
}
