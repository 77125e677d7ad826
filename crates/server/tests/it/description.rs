use serde_json::Value;

/// Written by `cargo xtask generate`.
const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

#[test]
fn the_description_that_is_checked_in_is_what_the_server_says_of_itself() {
    let checked_in = fs_err::read_to_string(CHECKED_IN).unwrap_or_default();
    assert!(
        checked_in == nacre_server::openapi(),
        "docs/openapi.json is old: `cargo xtask generate` writes it"
    );
}

#[test]
fn every_code_of_a_problem_is_described() {
    let described: Value = serde_json::from_str(&nacre_server::openapi()).unwrap();
    let code = &described["components"]["schemas"]["Problem"]["properties"]["code"];
    let words = code["description"].as_str().unwrap();
    for code in wire::v1::CODES {
        assert!(words.contains(&format!("`{code}`")), "{code}");
    }
    assert!(wire::v1::CODES.is_sorted());
}

#[test]
fn every_operation_says_how_it_fails() {
    let described: Value = serde_json::from_str(&nacre_server::openapi()).unwrap();
    assert_eq!(described["openapi"], "3.1.0");
    for (path, operations) in described["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap();
            for range in ["4XX", "5XX"] {
                let kinds = answers[range]["content"].as_object().unwrap();
                let kinds: Vec<&String> = kinds.keys().collect();
                assert_eq!(kinds, ["application/problem+json"], "{method} {path}");
            }
            assert!(operation["summary"].is_string(), "{method} {path}");
        }
    }
}

#[test]
fn what_is_described_as_part_of_a_path_is_in_it() {
    let described: Value = serde_json::from_str(&nacre_server::openapi()).unwrap();
    for (path, operations) in described["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().unwrap();
                let is_there = path.contains(&format!("{{{name}}}"));
                assert_eq!(
                    parameter["in"] == "path",
                    is_there,
                    "{method} {path} {name}"
                );
            }
        }
    }
}

#[test]
fn a_body_that_may_be_left_out_is_described_so() {
    let described: Value = serde_json::from_str(&nacre_server::openapi()).unwrap();
    for path in ["", "/{id}/cancel", "/{id}/fork", "/{id}/snapshots"] {
        let body = &described["paths"][format!("/v1/sessions{path}")]["post"]["requestBody"];
        assert!(
            body.is_object() && body["required"] != true,
            "{path}: {body}"
        );
    }
}
