//! Bodies, queries and paths, with our own answer to what cannot be read.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

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
        let reading = axum::Json::<Object<T>>::from_request(request, app);
        let read = tokio::time::timeout(PATIENCE, reading).await;
        let axum::Json(Object(body)) =
            read.map_err(|_| Problem::invalid("the body does not come"))??;
        Ok(Self(body))
    }
}

/// Of an object. Serde takes a list of a type's fields, in their order, for the type as well: no
/// description says so, and what it means changes with every field that is added.
struct Object<T>(T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for Fields<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields)).map(Object)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

/// A JSON body that may be absent or `null`, as if it were `{}`.
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
        let body = axum::Json::<Option<Object<T>>>::from_request(request, app).await?;
        Ok(Self(body.0.map_or_else(T::default, |Object(body)| body)))
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
