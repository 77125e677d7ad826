//! What the description says of all routes alike.

use utoipa::openapi::path::PathItem;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response, ResponseBuilder, Schema};
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

/// Words that only readers have, for what is newer than they are: no server says them.
pub(super) fn hide_unknown(openapi: &mut OpenApi) {
    let schemas = openapi.components.iter_mut();
    for schema in schemas.flat_map(|components| components.schemas.values_mut()) {
        let RefOr::T(schema) = schema else { continue };
        match schema {
            Schema::Object(object) => {
                if let Some(words) = &mut object.enum_values {
                    words.retain(|word| word != UNKNOWN);
                }
            }
            Schema::OneOf(several) => several.items.retain(|one| !is_unknown(one)),
            _ => {}
        }
    }
}

const UNKNOWN: &str = "unknown";

fn is_unknown(one: &RefOr<Schema>) -> bool {
    match one {
        RefOr::T(Schema::Object(object)) => {
            let words = object.enum_values.as_deref();
            words.is_some_and(|words| matches!(words, [word] if word == UNKNOWN))
        }
        _ => false,
    }
}

fn problem(words: &str) -> Response {
    let schema = Ref::from_schema_name("Problem");
    ResponseBuilder::new()
        .description(words)
        .content("application/problem+json", Content::new(Some(schema)))
        .build()
}
