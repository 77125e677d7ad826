//! What the description says of all routes alike.

use utoipa::openapi::path::{ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder, Schema};
use wire::v1;

use crate::once;

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

/// Programs tell problems apart by what is listed here.
pub(super) fn list_codes(openapi: &mut OpenApi) {
    let components = openapi.components.get_or_insert_default();
    let problem = components.schemas.get_mut("Problem");
    let Some(RefOr::T(Schema::Object(problem))) = problem else {
        return;
    };
    if let Some(RefOr::T(Schema::Object(code))) = problem.properties.get_mut("code") {
        let codes = v1::CODES.join("`, `");
        code.description = Some(format!("Stable, for programs. One of `{codes}`."));
    }
}

/// What makes or does something is done once under one key.
pub(super) fn add_keys(openapi: &mut OpenApi) {
    let words =
        "Sent again with the same key, it is not done again: the answer is the first one's.";
    for (path, item) in &mut openapi.paths.paths {
        let Some(post) = item.post.as_mut().filter(|_| once::is_done_once(path)) else {
            continue;
        };
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .max_length(Some(200));
        let key = ParameterBuilder::new()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(words))
            .schema(Some(text))
            .build();
        post.parameters.get_or_insert_default().push(key.into());
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
