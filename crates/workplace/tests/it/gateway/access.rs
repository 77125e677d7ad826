//! Who is let in.

use hyper::{Method, StatusCode};
use wire::keys::token::{self, PROBE};

use super::ask::{HOST, raw};
use super::sockets::connect;
use super::world::{SECRET, Setup, with, with_gateway};

#[test]
fn health_is_open_and_says_who_we_are() {
    with_gateway(async |world| {
        let reply = world.get("/health").send().await;
        assert_eq!(reply.status, StatusCode::OK);
        let expected = serde_json::json!({ "status": "ok", "service": "gateway" });
        assert_eq!(reply.json(), expected);
    });
}

#[test]
fn nothing_else_answers_without_credentials() {
    with_gateway(async |world| {
        world
            .tunnels
            .register("web", world.echo, workplace::tunnels::Protocol::Http)
            .unwrap();
        for path in [
            "/",
            "/vscode",
            "/vscode/",
            "/vnc/",
            "/ttyd/",
            "/ttyd/token",
            "/opencode/",
            "/t/web/",
            "/t/none/",
            "/link",
            "/api/tunnels",
            "/health/",
            "/health/x",
            "/healthz",
            "/nowhere",
        ] {
            for method in [Method::GET, Method::POST, Method::OPTIONS, Method::HEAD] {
                let status = world.ask(method.clone(), path).status().await;
                assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}");
            }
        }
    });
}

#[test]
fn missing_and_invalid_are_told_apart() {
    with_gateway(async |world| {
        let missing = world.get("/vscode/").send().await;
        let invalid = world.get("/vscode/").bearer("x").send().await;
        assert_eq!(missing.json()["error"], "Missing token");
        assert_eq!(invalid.json()["error"], "Invalid or expired token");
        assert_eq!(missing.header("content-type"), "application/json");
    });
}

#[test]
fn each_credential_alone_lets_in() {
    with_gateway(async |world| {
        let bearer = world.get_as_ada("/vscode/").send().await;
        assert_eq!(bearer.status, StatusCode::OK);

        let by_cookie = world.get("/vscode/").cookie(&bearer.cookie());
        assert_eq!(by_cookie.status().await, StatusCode::OK);

        let address = format!("/vscode/?nacre_code={}", world.code("/vscode"));
        let by_code = world.get(&address).send().await;
        assert_eq!(by_code.status, StatusCode::TEMPORARY_REDIRECT);
        let then = world
            .get(by_code.header("location"))
            .cookie(&by_code.cookie());
        assert_eq!(then.status().await, StatusCode::OK);
    });
}

#[test]
fn a_bad_cookie_with_a_good_bearer_lets_in() {
    with_gateway(async |world| {
        let ask = world.get_as_ada("/vscode/").cookie("bad");
        assert_eq!(ask.status().await, StatusCode::OK);
    });
}

#[test]
fn a_code_is_exchanged_for_a_cookie_and_leaves_the_address() {
    with_gateway(async |world| {
        let code = world.code("/vscode");
        let address = format!("/vscode/x?b=2&nacre_code={code}&a=1");
        let reply = world.get(&address).send().await;
        assert_eq!(reply.header("location"), "/vscode/x?b=2&a=1");
        assert_eq!(reply.header("referrer-policy"), "no-referrer");
        assert_eq!(reply.header("cache-control"), "no-store");
        let again = world.get(&address).send().await;
        assert_eq!(again.status, StatusCode::UNAUTHORIZED);
    });
}

#[test]
fn a_code_used_twice_at_once_is_good_once() {
    with_gateway(async |world| {
        for _ in 0..5 {
            let address = format!("/vscode/?nacre_code={}", world.code("/vscode"));
            let both =
                futures::future::join(world.get(&address).status(), world.get(&address).status());
            let (first, second) = both.await;
            let mut both = [first, second];
            both.sort();
            assert_eq!(
                both,
                [StatusCode::TEMPORARY_REDIRECT, StatusCode::UNAUTHORIZED]
            );
        }
    });
}

#[test]
fn a_code_is_good_for_its_path_and_its_minute() {
    with_gateway(async |world| {
        let code = world.code("/vscode");
        let elsewhere = world.get(&format!("/vnc/x?nacre_code={code}"));
        assert_eq!(elsewhere.status().await, StatusCode::UNAUTHORIZED);
        world.wait(60);
        let late = world.get(&format!("/vscode/?nacre_code={code}"));
        assert_eq!(late.status().await, StatusCode::UNAUTHORIZED);
    });
}

#[test]
fn a_code_shown_beside_a_good_cookie_is_spent_and_leaves_the_address() {
    with_gateway(async |world| {
        let cookie = world.cookie().await;
        let address = format!("/vscode/?a=1&nacre_code={}", world.code("/vscode"));
        let reply = world.get(&address).cookie(&cookie).send().await;
        assert_eq!(reply.header("location"), "/vscode/?a=1");
        assert_eq!(world.get(&address).status().await, StatusCode::UNAUTHORIZED);
    });
}

#[test]
fn a_token_in_the_query_does_not_let_in() {
    with_gateway(async |world| {
        let token = world.token();
        for name in ["nacre_code", "token", "access_token", "code"] {
            let status = world
                .get(&format!("/vscode/?{name}={token}"))
                .status()
                .await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{name}");
        }
    });
}

#[test]
fn a_cookie_lives_fifteen_minutes_however_it_is_used() {
    with_gateway(async |world| {
        let first = world.get_as_ada("/vscode/").send().await;
        assert!(first.header("set-cookie").contains("; Max-Age=900;"));
        let cookie = first.cookie();
        for _ in 0..3 {
            world.wait(299);
            let reply = world.get("/vscode/").cookie(&cookie).send().await;
            assert_eq!(reply.status, StatusCode::OK);
            assert!(!reply.headers.contains_key("set-cookie"));
        }
        world.wait(3);
        let late = world.get("/vscode/").cookie(&cookie);
        assert_eq!(late.status().await, StatusCode::UNAUTHORIZED);
    });
}

#[test]
fn an_expired_token_is_refused_to_the_second() {
    with_gateway(async |world| {
        let token = world.token();
        world.wait(token::LIFE_SECONDS - 1);
        assert_eq!(
            world.get("/vscode/").bearer(&token).status().await,
            StatusCode::OK
        );
        world.wait(1);
        let late = world.get("/vscode/").bearer(&token);
        assert_eq!(late.status().await, StatusCode::UNAUTHORIZED);
    });
}

#[test]
fn without_a_secret_everything_but_health_is_refused() {
    for secret in [None, Some("")] {
        let setup = Setup {
            secret,
            ..Setup::usual()
        };
        with(setup, async |world| {
            let code = world.code("/");
            for path in [
                "/",
                "/vscode/",
                "/link",
                &format!("/vscode/?nacre_code={code}"),
            ] {
                let status = world.get_as_ada(path).cookie("x").status().await;
                assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
            }
            assert_eq!(world.get("/health").status().await, StatusCode::OK);
        });
    }
}

#[test]
fn a_hundred_who_come_at_once_each_get_their_own_cookie() {
    with_gateway(async |world| {
        let tokens = (0..100).map(|n| world.token_of(&format!("user-{n}")));
        let asks = tokens.map(|token| world.get("/vscode/").bearer(&token).send());
        let replies = futures::future::join_all(asks).await;
        let mut cookies: Vec<String> = replies.iter().map(super::ask::Reply::cookie).collect();
        for (n, cookie) in cookies.iter().enumerate() {
            let request = handshake("/ttyd/whoami", cookie);
            let answer = raw(world.address, request).await;
            assert!(answer.contains(&format!("\r\n\r\nuser-{n}")), "{answer}");
        }
        cookies.sort();
        cookies.dedup();
        assert_eq!(cookies.len(), 100);
    });
}

/// A socket whose terminal says who came.
fn handshake(path: &str, cookie: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nhost: {HOST}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         cookie: __Host-gateway_session={cookie}\r\n\r\n"
    )
}

#[test]
fn bad_tries_are_limited_and_logged_without_the_token() {
    with_gateway(async |world| {
        let canary = "canary-canary-canary";
        for _ in 0..19 {
            let status = world.get("/vscode/").bearer(canary).status().await;
            assert_eq!(status, StatusCode::UNAUTHORIZED);
        }
        let reply = world
            .get("/vscode/")
            .bearer(canary)
            .cookie(canary)
            .send()
            .await;
        assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(!reply.header("retry-after").is_empty());
        assert_eq!(world.get_as_ada("/vscode/").status().await, StatusCode::OK);

        let log = world.log();
        assert_eq!(log.lines().count(), 19);
        assert!(!log.contains("canary") && !log.contains(SECRET), "{log}");
    });
}

#[test]
fn a_request_without_credentials_is_no_bad_try() {
    with_gateway(async |world| {
        for _ in 0..50 {
            let status = world.get("/vscode/").status().await;
            assert_eq!(status, StatusCode::UNAUTHORIZED);
        }
    });
}

#[test]
fn a_socket_is_let_in_by_cookie_code_or_bearer() {
    with_gateway(async |world| {
        let cookie = format!("__Host-gateway_session={}", world.cookie().await);
        let bearer = format!("Bearer {}", world.token());
        let by_code = format!("/vscode/ws?nacre_code={}", world.code("/vscode"));
        for (path, name, value) in [
            ("/vscode/ws", "cookie", cookie.as_str()),
            ("/vscode/ws", "authorization", bearer.as_str()),
            (by_code.as_str(), "x-nothing", ""),
        ] {
            let connected = connect(&world, path, &[(name, value)]).await;
            assert!(connected.is_ok(), "{path} {name}");
        }
        assert!(connect(&world, "/vscode/ws", &[]).await.is_err());
        assert!(connect(&world, &by_code, &[]).await.is_err());
    });
}

#[test]
fn a_page_of_another_origin_opens_no_socket() {
    with_gateway(async |world| {
        let cookie = format!("__Host-gateway_session={}", world.cookie().await);
        for (origin, expected) in [
            ("https://box.example", None),
            ("https://nacre.example", None),
            ("https://evil.example", Some(StatusCode::FORBIDDEN)),
            (
                "https://box.example.evil.example",
                Some(StatusCode::FORBIDDEN),
            ),
            ("null", Some(StatusCode::FORBIDDEN)),
        ] {
            let headers = [("cookie", cookie.as_str()), ("origin", origin)];
            let connected = connect(&world, "/vscode/ws", &headers).await;
            assert_eq!(connected.err(), expected, "{origin}");
        }
        let bearer = format!("Bearer {}", world.token());
        let headers = [
            ("authorization", bearer.as_str()),
            ("origin", "https://evil.example"),
        ];
        let connected = connect(&world, "/vscode/ws", &headers).await;
        assert_eq!(connected.err(), Some(StatusCode::FORBIDDEN));
    });
}

#[test]
fn a_page_of_another_origin_changes_nothing_by_cookie() {
    with_gateway(async |world| {
        let cookie = world.cookie().await;
        for (name, value, expected) in [
            ("origin", "https://evil.example", StatusCode::FORBIDDEN),
            ("origin", "null", StatusCode::FORBIDDEN),
            ("sec-fetch-site", "cross-site", StatusCode::FORBIDDEN),
            ("sec-fetch-site", "same-site", StatusCode::FORBIDDEN),
            ("origin", "https://box.example", StatusCode::OK),
            ("origin", "https://nacre.example", StatusCode::OK),
            ("x-no-browser", "1", StatusCode::OK),
        ] {
            for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
                let ask = world
                    .ask(method, "/vscode/")
                    .cookie(&cookie)
                    .header(name, value);
                assert_eq!(ask.status().await, expected, "{name}: {value}");
            }
        }
        // A browser sends no bearer of itself.
        let ask = world.ask(Method::POST, "/vscode/").bearer(&world.token());
        let ask = ask.header("origin", "https://evil.example");
        assert_eq!(ask.status().await, StatusCode::OK);
    });
}

#[test]
fn a_page_of_another_origin_reads_nothing_by_cookie_but_may_lead_here() {
    with_gateway(async |world| {
        let cookie = world.cookie().await;
        for (name, value, expected) in [
            ("origin", "https://evil.example", StatusCode::FORBIDDEN),
            ("origin", "null", StatusCode::FORBIDDEN),
            ("origin", "https://box.example", StatusCode::OK),
            ("origin", "https://nacre.example", StatusCode::OK),
            ("sec-fetch-site", "cross-site", StatusCode::OK),
        ] {
            let ask = world.get("/vscode/").cookie(&cookie).header(name, value);
            assert_eq!(ask.status().await, expected, "{name}: {value}");
        }
    });
}

#[test]
fn a_sandbox_is_used_by_those_let_in_and_not_by_our_probes() {
    with_gateway(async |world| {
        world.get("/health").send().await;
        world.get("/vscode/").bearer("bad").send().await;
        world
            .get("/vscode/")
            .bearer(&world.token_of(PROBE))
            .send()
            .await;
        assert!(world.used.borrow().is_none());
        world.get_as_ada("/vscode/").send().await;
        assert!(world.used.borrow().is_some());
    });
}
