//! What the description says of all routes alike.

use utoipa::openapi::path::PathItem;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response, ResponseBuilder};
use wire::v1;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Nacre",
        description = "Sessions of coding agents that outlive their sandboxes.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    components(schemas(v1::Problem)),
    modifiers(&Bearer),
    security(("bearer" = [])),
)]
pub(super) struct Server;

struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, openapi: &mut OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}

/// Any route may refuse (who asks, what they send, how often, by which name) and any may fail, and
/// all say so in the same way.
pub(super) fn add_problems(openapi: &mut OpenApi) {
    let ranges = [("4XX", "It was refused."), ("5XX", "It failed.")];
    for item in openapi.paths.paths.values_mut() {
        let PathItem {
            get,
            put,
            post,
            delete,
            patch,
            ..
        } = item;
        for operation in [get, put, post, delete, patch].into_iter().flatten() {
            let responses = &mut operation.responses.responses;
            for (range, words) in ranges {
                responses.insert(range.to_owned(), RefOr::T(problem(words)));
            }
        }
    }
}

fn problem(words: &str) -> Response {
    let schema = Ref::from_schema_name("Problem");
    ResponseBuilder::new()
        .description(words)
        .content("application/problem+json", Content::new(Some(schema)))
        .build()
}
