//! The terminal's page: ours, with xterm.js to draw it. It asks nobody but us for anything.

use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};

macro_rules! file {
    ($path:literal, $kind:expr, $from:literal) => {
        ($path, $kind, include_bytes!(concat!("page/", $from)))
    };
}

/// Packed by our build script.
const PACKED: &str = "/xterm.mjs";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Below the terminal's route, each with its kind.
const FILES: [(&str, &str, &[u8]); 6] = [
    file!("/", HTML, "index.html"),
    file!("/page.js", SCRIPT, "page.js"),
    file!("/page.css", STYLE, "page.css"),
    (
        PACKED,
        SCRIPT,
        include_bytes!(concat!(env!("OUT_DIR"), "/xterm.mjs.gz")),
    ),
    file!("/xterm.css", STYLE, "xterm/xterm.css"),
    file!("/addon-fit.mjs", SCRIPT, "xterm/addon-fit.mjs"),
];

/// What ttyd's clients ask for first, to send it along when they connect. Whoever gets here was let
/// in already, so there is none.
const TOKEN: &[u8] = br#"{"token": ""}"#;

/// Answers a plain request. Pages of `origins` may show it in a frame, beside our own.
pub fn answer(method: &Method, path: &str, origins: &[String]) -> Response<Bytes> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only to be read\n");
    }
    let path = path.split('?').next().unwrap_or(path);
    if path == "/token" {
        return with(
            StatusCode::OK,
            "application/json",
            Bytes::from_static(TOKEN),
        );
    }
    let Some((_, kind, content)) = FILES.iter().find(|(name, ..)| *name == path) else {
        return plain(StatusCode::NOT_FOUND, "not part of the terminal\n");
    };
    let mut answer = with(StatusCode::OK, kind, Bytes::from_static(content));
    if path == PACKED {
        let gzip = HeaderValue::from_static("gzip");
        answer.headers_mut().insert(header::CONTENT_ENCODING, gzip);
    }
    if *kind == HTML {
        let policy = HeaderValue::try_from(policy(origins));
        let policy = policy.unwrap_or(HeaderValue::from_static("default-src 'none'"));
        answer
            .headers_mut()
            .insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    answer
}

/// xterm.js writes its colours and measures into style elements of its own; scripts come from files.
fn policy(origins: &[String]) -> String {
    let mut policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
        img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
        frame-ancestors 'self'"
        .to_owned();
    for origin in origins {
        policy.push(' ');
        policy.push_str(origin);
    }
    policy
}

fn plain(status: StatusCode, text: &'static str) -> Response<Bytes> {
    with(
        status,
        "text/plain; charset=utf-8",
        Bytes::from_static(text.as_bytes()),
    )
}

fn with(status: StatusCode, kind: &'static str, content: Bytes) -> Response<Bytes> {
    let mut answer = Response::new(content);
    *answer.status_mut() = status;
    let said: [(HeaderName, &'static str); 4] = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in said {
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use sha2::{Digest as _, Sha256};

    use super::*;

    fn get(path: &str) -> Response<Bytes> {
        answer(&Method::GET, path, &["https://nacre.example".to_owned()])
    }

    #[test]
    fn what_others_wrote_is_as_they_published_it() {
        let published = [
            (
                "/xterm.mjs",
                "b336ec65a086c056d4804b3d4c2347da5663d3f23c3f25be866467bd8857ad59",
            ),
            (
                "/xterm.css",
                "854a7c0fb70e8b1a083c16797ab827299fb18744f5ad34f227b48337e33293c6",
            ),
            (
                "/addon-fit.mjs",
                "2d87e1bddc73be9111de8beee5370c3bb7aac9c94e18e6f245f02ca741ef1769",
            ),
        ];
        for (path, digest) in published {
            let answer = get(path);
            let mut content = Vec::new();
            if answer.headers().contains_key(header::CONTENT_ENCODING) {
                let mut packed = flate2::read::GzDecoder::new(&answer.body()[..]);
                packed.read_to_end(&mut content).unwrap();
            } else {
                content.extend_from_slice(answer.body());
            }
            let found = Sha256::digest(content);
            let found: Vec<String> = found.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(found.concat(), digest, "{path}");
        }
    }

    #[test]
    fn everything_that_the_page_names_is_there_and_nothing_is_elsewhere() {
        let page = String::from_utf8(get("/").body().to_vec()).unwrap();
        let script = String::from_utf8(get("/page.js").body().to_vec()).unwrap();
        let named: Vec<&str> = page
            .split('"')
            .chain(script.split('\''))
            .map(|word| word.strip_prefix("./").unwrap_or(word))
            .filter(|word| word.ends_with("js") || word.ends_with("css"))
            .collect();
        assert_eq!(
            named,
            [
                "xterm.css",
                "page.css",
                "page.js",
                "xterm.mjs",
                "addon-fit.mjs"
            ]
        );
        for name in named {
            assert_eq!(
                get(&format!("/{name}?x")).status(),
                StatusCode::OK,
                "{name}"
            );
        }
        assert!(!page.contains("//") && !script.contains("://"), "{page}");
    }

    #[test]
    fn the_page_may_ask_us_alone_and_be_framed_by_those_who_are_allowed() {
        let page = get("/");
        insta::assert_snapshot!(page.headers()["content-security-policy"].to_str().unwrap(), @"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self' https://nacre.example");
        assert_eq!(page.headers()["content-type"], HTML);
    }

    #[test]
    fn a_client_of_ttyd_finds_its_token() {
        let token = get("/token");
        assert_eq!(token.headers()["content-type"], "application/json");
        let token: serde_json::Value = serde_json::from_slice(token.body()).unwrap();
        assert_eq!(token, serde_json::json!({"token": ""}));
    }

    #[test]
    fn what_is_not_there_and_what_would_change_something_is_refused() {
        assert_eq!(get("/etc/passwd").status(), StatusCode::NOT_FOUND);
        let posted = answer(&Method::POST, "/", &[]);
        assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}
