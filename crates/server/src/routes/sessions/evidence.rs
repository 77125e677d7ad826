//! What a session showed for its work. It outlives the sandbox.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use model::{Evidence, Id};
use store::evidence::EvidenceRecord;
use tokio_util::io::ReaderStream;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, Named, Params};
use crate::outside::evidence;
use crate::paging::{Paging, cut};
use crate::problem::{Answer, Problem};
use crate::shown;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(download))
}

/// Files that the session showed for its work, the newest first.
#[utoipa::path(get, path = "/v1/sessions/{id}/evidence", tag = "tools",
    params(("id" = String, Path), Paging),
    responses((status = 200, body = v1::Page<v1::Evidence>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(paging): Params<Paging>,
) -> Answer<Json<v1::Page<v1::Evidence>>> {
    let session = app.session(&caller, &id).await?.id;
    let limit = paging.limit()?;
    let found = app
        .store()
        .list_evidence(session, paging.cursor()?, limit + 1)
        .await?;
    let (found, next_cursor) = cut(found, limit, |file| file.id.to_string());
    Ok(Json(v1::Page {
        items: found.into_iter().map(show).collect(),
        next_cursor,
    }))
}

/// One of them, as it was.
#[utoipa::path(get, path = "/v1/sessions/{id}/evidence/{evidence}", tag = "tools",
    params(("id" = String, Path), ("evidence" = String, Path)),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream")))]
async fn download(
    State(app): State<App>,
    caller: Caller,
    Named((id, evidence)): Named<(String, String)>,
) -> Answer<Response> {
    let session = app.session(&caller, &id).await?.id;
    let missing = || Problem::not_found("file");
    let evidence: Id<Evidence> = evidence.parse().map_err(|_| missing())?;
    let found = app.store().find_evidence(session, evidence).await?;
    let found = found.ok_or_else(missing)?;
    let path = evidence::path(&app.parts.uploads, found.id);
    let file = match fs_err::tokio::File::open(path).await {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
        file => file.map_err(Problem::internal)?,
    };
    // It is shown by no browser as anything but bytes: an agent wrote it.
    let kind = [
        ("content-type", "application/octet-stream".to_owned()),
        ("content-length", found.size.to_string()),
        ("x-content-type-options", "nosniff".to_owned()),
        ("content-disposition", "attachment".to_owned()),
    ];
    Ok((kind, Body::from_stream(ReaderStream::new(file))).into_response())
}

fn show(file: EvidenceRecord) -> v1::Evidence {
    v1::Evidence {
        id: file.id.to_string(),
        path: file.path,
        media_type: file.media_type,
        size: file.size,
        digest: file.digest,
        created_at: shown::time(file.created_at),
    }
}
