//! Tricks.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::StatusCode;
use wire::keys::token::Claims;
use wire::keys::{Key, Purpose, code};

use super::ask::{HOST, raw};
use super::world::{SECRET, SESSION, World, code_key, token_key, with_gateway};

async fn refused_with(world: &World, token: &str, trick: &str) {
    // Each trick is a bad try, and is to be refused for itself.
    world.wait(60);
    let bytes = format!(
        "GET /vscode/ HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\
         authorization: Bearer {token}\r\n\r\n"
    );
    let answer = raw(world.address, bytes).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{trick}: {answer}");
}

fn encoded(header: &str, claims: &Claims) -> String {
    let claims = serde_json::to_vec(claims).unwrap();
    format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(header),
        URL_SAFE_NO_PAD.encode(claims)
    )
}

#[test]
fn no_trick_with_a_token_lets_in() {
    with_gateway(async |world| {
        let good = world.token();
        let claims = Claims {
            exp: world.now() + 100_000,
            iat: None,
            ..world.claims()
        };
        let signature = good.rsplit('.').next().unwrap();
        let none = encoded(r#"{"alg":"none","typ":"JWT"}"#, &claims);
        refused_with(&world, &format!("{none}."), "none").await;
        refused_with(&world, &none, "none without a dot").await;
        refused_with(
            &world,
            &format!("{none}.{signature}"),
            "none with a signature",
        )
        .await;
        let rs256 = encoded(r#"{"alg":"RS256","typ":"JWT"}"#, &claims);
        refused_with(&world, &format!("{rs256}.{signature}"), "RS256").await;
        refused_with(&world, &good[..good.len() - 1], "truncated").await;
        refused_with(&world, &format!("{good}="), "padded").await;
        refused_with(&world, &format!("{good}."), "a fourth part").await;
        refused_with(&world, &good.replace('.', "。"), "unicode").await;
        refused_with(&world, &format!("{good}\u{e4}"), "unicode at the end").await;
        refused_with(&world, &"a".repeat(20_000), "giant").await;
        refused_with(&world, &"a.".repeat(2_000), "many dots").await;
        refused_with(&world, "..", "dots").await;
        refused_with(&world, "", "nothing").await;
        refused_with(&world, SECRET, "the secret").await;
    });
}

#[test]
fn a_token_signed_with_another_key_does_not_let_in() {
    with_gateway(async |world| {
        for secret in ["another secret", " ", "null", "undefined"] {
            let key = Key::derive(secret, Purpose::Token).unwrap();
            refused_with(&world, &world.claims().sign(&key), secret).await;
        }
        refused_with(
            &world,
            &world.claims().sign(&code_key()),
            "the key of codes",
        )
        .await;
    });
}

#[test]
fn a_claim_that_is_wrong_does_not_let_in() {
    with_gateway(async |world| {
        let claims = world.claims();
        let tomorrow = Some(world.now() + 86_400);
        for (trick, claims) in [
            (
                "sid",
                Claims {
                    sid: "ses_2".to_owned(),
                    ..claims.clone()
                },
            ),
            (
                "empty sid",
                Claims {
                    sid: String::new(),
                    ..claims.clone()
                },
            ),
            (
                "aud",
                Claims {
                    aud: "devtools".to_owned(),
                    ..claims.clone()
                },
            ),
            (
                "empty aud",
                Claims {
                    aud: String::new(),
                    ..claims.clone()
                },
            ),
            (
                "sub",
                Claims {
                    sub: String::new(),
                    ..claims.clone()
                },
            ),
            (
                "exp",
                Claims {
                    exp: world.now(),
                    ..claims.clone()
                },
            ),
            (
                "nbf",
                Claims {
                    nbf: tomorrow,
                    exp: u64::MAX,
                    ..claims.clone()
                },
            ),
            (
                "iat",
                Claims {
                    iat: tomorrow,
                    exp: u64::MAX,
                    ..claims.clone()
                },
            ),
        ] {
            let token = claims.sign(&token_key());
            let status = world.get("/vscode/").bearer(&token).status().await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{trick}");
        }
    });
}

#[test]
fn no_trick_with_a_code_lets_in() {
    with_gateway(async |world| {
        let good = code::Claims::new("ada", SESSION, "/vscode", [9; 16], world.now());
        let long_lived = code::Claims {
            exp: world.now() + 3600,
            ..good.clone()
        };
        let of_another = code::Claims {
            sid: "ses_2".to_owned(),
            ..good.clone()
        };
        let of_nobody = code::Claims {
            sub: String::new(),
            ..good.clone()
        };
        let without_name = code::Claims {
            jti: String::new(),
            ..good.clone()
        };
        let elsewhere = code::Claims {
            path: "/vnc".to_owned(),
            ..good.clone()
        };
        for claims in [long_lived, of_another, of_nobody, without_name, elsewhere] {
            let address = format!("/vscode/?nacre_code={}", claims.sign(&code_key()));
            let status = world.get(&address).status().await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{claims:?}");
        }
        let by_another_key = good.sign(&token_key());
        let address = format!("/vscode/?nacre_code={by_another_key}");
        assert_eq!(world.get(&address).status().await, StatusCode::UNAUTHORIZED);
    });
}

async fn first_line(world: &World, target: &str) -> String {
    let bytes = format!(
        "GET {target} HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\
         authorization: Bearer {}\r\n\r\n",
        world.token()
    );
    let answer = raw(world.address, bytes).await;
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_path_that_could_mean_another_is_refused() {
    with_gateway(async |world| {
        for target in [
            "//evil.example/vscode/",
            "//vscode/",
            "/vscode/../opencode/session",
            "/vscode/%2e%2e/opencode/session",
            "/vscode/.%2E/opencode/session",
            "/vscode/..%2fopencode/session",
            "/vscode/%2e%2e%2fopencode",
            "/vscode/..%5c..%5copencode",
            "/vscode\\..\\opencode",
            "/vscode/./x",
            "/vscode/x%00.js",
            "/vscode/x\0.js",
            "/vscode/\u{1}",
            "http://evil.example/vscode/",
            "https://box.example/vscode/",
            "*",
            "vscode/",
            "box.example:443",
            "",
        ] {
            let line = first_line(&world, target).await;
            assert!(line.starts_with("HTTP/1.1 400"), "{target:?}: {line}");
        }
    });
}

#[test]
fn a_prefix_written_otherwise_leads_nowhere() {
    with_gateway(async |world| {
        for target in [
            "/%76scode/",
            "/VSCODE/",
            "/vscode%2f",
            "/vscode;x/",
            "/vscode%20/",
            "/ vscode/",
        ] {
            let line = first_line(&world, target).await;
            let is_refused = line.starts_with("HTTP/1.1 404") || line.starts_with("HTTP/1.1 400");
            assert!(is_refused, "{target:?}: {line}");
        }
    });
}

#[test]
fn a_redirect_of_ours_never_leaves_the_host() {
    with_gateway(async |world| {
        for path in ["//evil.example", "/\\evil.example", "//evil.example/%2e%2e"] {
            let code = world.code("/");
            let line = first_line(&world, &format!("{path}?nacre_code={code}")).await;
            assert!(line.starts_with("HTTP/1.1 400"), "{path}: {line}");
        }
    });
}

#[test]
fn two_of_what_there_may_be_one_of_are_refused() {
    with_gateway(async |world| {
        let token = world.token();
        for twice in [
            "host: evil.example".to_owned(),
            "authorization: Bearer other".to_owned(),
            "origin: https://box.example\r\norigin: https://evil.example".to_owned(),
            "content-length: 1\r\ncontent-length: 2".to_owned(),
        ] {
            let bytes = format!(
                "POST /vscode/ HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\
                 authorization: Bearer {token}\r\n{twice}\r\n\r\nxx"
            );
            let answer = raw(world.address, bytes).await;
            assert!(answer.starts_with("HTTP/1.1 400"), "{twice}: {answer}");
        }
    });
}

#[test]
fn a_request_without_a_host_is_refused() {
    with_gateway(async |world| {
        let token = world.token();
        let bytes = format!(
            "GET /vscode/ HTTP/1.1\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        let answer = raw(world.address, bytes).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    });
}

/// Each hides a second request from one of two servers that read the first differently.
#[test]
fn no_request_is_smuggled_past_us() {
    with_gateway(async |world| {
        let hidden = "GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
        let length = hidden.len();
        for framing in [
            format!(
                "content-length: {length}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
            ),
            format!(
                "transfer-encoding: chunked\r\ncontent-length: {length}\r\n\r\n0\r\n\r\n{hidden}"
            ),
            format!("transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}"),
            format!("transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"),
            format!("transfer-encoding : chunked\r\n\r\n0\r\n\r\n{hidden}"),
            format!("content-length: +{length}\r\n\r\n{hidden}"),
            format!("content-length: {length}, {length}\r\n\r\n{hidden}"),
            format!("content-length: 0x10\r\n\r\n{hidden}"),
            format!("transfer-encoding: chunked\r\n\r\n0;x=\"\n\"\r\n\r\n{hidden}"),
            format!("transfer-encoding: chunked\r\n\r\n-1\r\n\r\n{hidden}"),
            format!("x: y\r\n transfer-encoding: chunked\r\n\r\n{hidden}"),
        ] {
            let bytes = format!(
                "POST /vscode/outer HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {}\r\n{framing}",
                world.token()
            );
            let answer = raw(world.address, bytes).await;
            // Whatever follows is a request of its own, which nobody lets in.
            assert!(
                !answer.contains("\"target\":\"/smuggled\""),
                "{framing:?}: {answer}"
            );
            assert!(
                answer.matches("HTTP/1.1 200").count() <= 1,
                "{framing:?}: {answer}"
            );
            let next = world.get_as_ada("/vscode/next").send().await;
            assert_eq!(next.json()["target"], "/next", "{framing:?}");
        }
    });
}

#[test]
fn a_body_reaches_the_backend_with_one_framing() {
    with_gateway(async |world| {
        let bytes = format!(
            "POST /vscode/ HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\
             authorization: Bearer {}\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n\
             4\r\nbody\r\n0\r\n\r\n",
            world.token()
        );
        let answer = raw(world.address, bytes).await;
        assert!(answer.contains("\"body\":\"body\""), "{answer}");
        assert!(!answer.contains("[\"content-length\","), "{answer}");
    });
}

#[test]
fn a_header_with_a_line_end_is_refused() {
    with_gateway(async |world| {
        for bad in ["x: a\rb", "x: a\0b", "x y: z", ": z", "x"] {
            let bytes = format!(
                "GET /vscode/ HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\
                 authorization: Bearer {}\r\n{bad}\r\n\r\n",
                world.token()
            );
            let answer = raw(world.address, bytes).await;
            assert!(answer.starts_with("HTTP/1.1 400"), "{bad:?}: {answer}");
        }
    });
}
