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
fn every_operation_says_how_it_fails() {
    let described: Value = serde_json::from_str(&nacre_server::openapi()).unwrap();
    assert_eq!(described["openapi"], "3.1.0");
    for (path, operations) in described["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap();
            let says = answers.keys().any(|status| status.starts_with('4'));
            assert!(
                says || path == "/healthz" || path == "/readyz",
                "{method} {path}"
            );
            assert!(operation["summary"].is_string(), "{method} {path}");
        }
    }
}
