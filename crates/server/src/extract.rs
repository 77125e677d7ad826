//! Bodies, queries and paths, with our own answer to what cannot be read.

use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::problem::{Answer, Problem};

/// For a body to come whole.
const PATIENCE: Duration = Duration::from_secs(30);

/// A JSON body, either way.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Answer<Self> {
        let reading = axum::Json::<T>::from_request(request, app);
        let read = tokio::time::timeout(PATIENCE, reading).await;
        let axum::Json(body) = read.map_err(|_| Problem::invalid("the body does not come"))??;
        Ok(Self(body))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

/// A JSON body that may be absent, as if it were `{}`.
#[derive(Debug)]
pub(crate) struct MaybeJson<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<App> for MaybeJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Answer<Self> {
        let has_type = request
            .headers()
            .contains_key(axum::http::header::CONTENT_TYPE);
        if !has_type {
            let body = axum::body::Bytes::from_request(request, app).await;
            return match body {
                Ok(body) if body.is_empty() => Ok(Self(T::default())),
                Ok(_) => Err(Problem::invalid("a body without `Content-Type`")),
                Err(_) => Err(Problem::too_large("the body is too long")),
            };
        }
        let Json(body) = Json::from_request(request, app).await?;
        Ok(Self(body))
    }
}

#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Answer<Self> {
        let Query(query) = Query::<T>::from_request_parts(parts, app).await?;
        Ok(Self(query))
    }
}

#[derive(Debug)]
pub(crate) struct Named<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Answer<Self> {
        let Path(path) = Path::<T>::from_request_parts(parts, app).await?;
        Ok(Self(path))
    }
}
