//! Bodies, queries and paths, with our own answer to what cannot be read.

use std::fmt;
use std::marker::PhantomData;

use axum::body::{Body, HttpBody as _};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::app::App;
use crate::body;
use crate::problem::{Answer, Problem};

/// A JSON body, either way.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Answer<Self> {
        let request = whole(request).await?;
        let axum::Json(Object(body)) = axum::Json::from_request(request, app).await?;
        Ok(Self(body))
    }
}

async fn whole(request: Request) -> Answer<Request> {
    let (head, body) = request.into_parts();
    let body = body::whole(body, body::USUAL, "the body is too long").await?;
    Ok(Request::from_parts(head, Body::from(body)))
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
        let request = whole(request).await?;
        // Clients that always say what they send say it of nothing, too.
        if request.body().is_end_stream() {
            return Ok(Self(T::default()));
        }
        let has_type = request
            .headers()
            .contains_key(axum::http::header::CONTENT_TYPE);
        if !has_type {
            return Err(Problem::invalid("a body without `Content-Type`"));
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
