//! The browser client: files that are in the program. Each answer says what the page may do, so that
//! whatever an agent gets it to show runs nothing and asks nobody else.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::Address;
use crate::problem::{Answer, Problem};

/// A file of the client; what is text is there packed, too.
#[derive(Debug)]
struct File {
    name: &'static str,
    plain: &'static [u8],
    brotli: Option<&'static [u8]>,
    gzip: Option<&'static [u8]>,
}

mod built {
    use super::File;

    include!(concat!(env!("OUT_DIR"), "/page.rs"));
}

const INDEX: &str = "index.html";

/// These are for programs, whatever is below them.
const PROGRAMS: [&str; 5] = ["v1", "healthz", "readyz", "metrics", "openapi.json"];

/// For a build without the client.
const ABSENT: File = File {
    name: INDEX,
    plain: b"<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Nacre</title></head>\
        <body><h1>Nacre is up</h1><p>The browser client is not in this build. <code>make up</code> puts \
        it in; by hand: <code>npm ci &amp;&amp; npm run build</code> in <code>web/app</code>, then build \
        <code>nacre</code> again.</p><p>From a terminal everything works: <code>nacre session \
        --help</code>.</p></body></html>\n",
    brotli: None,
    gzip: None,
};

/// What no route answers: a file of the client, or the client itself, which knows its own places.
pub(crate) fn answer(address: &Address, asked: &Parts) -> Answer<Response<Body>> {
    let nothing = || Problem::not_found("page");
    let file = find(built::FILES, asked).ok_or_else(nothing)?;
    let (bytes, packing) = packed(file, &asked.headers);
    let mark = mark(file);
    let is_known = asked
        .headers
        .get(header::IF_NONE_MATCH)
        .and_then(|known| known.to_str().ok())
        .is_some_and(|known| known.split(',').any(|one| one.trim() == mark));
    let mut response = Response::new(if is_known || asked.method == Method::HEAD {
        Body::empty()
    } else {
        Body::from(bytes)
    });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    let mut put = |name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    put(header::CONTENT_TYPE, kind(file.name));
    put(header::ETAG, &mark);
    put(header::VARY, "accept-encoding");
    put(header::CACHE_CONTROL, keep(file.name));
    put(header::CONTENT_SECURITY_POLICY, &policy(address));
    put(
        header::HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
    if let Some(packing) = packing {
        put(header::CONTENT_ENCODING, packing);
    }
    Ok(response)
}

fn find<'a>(files: &'a [File], asked: &Parts) -> Option<&'a File> {
    if !matches!(asked.method, Method::GET | Method::HEAD) {
        return None;
    }
    let name = asked.uri.path().trim_start_matches('/');
    let first = name.split('/').next().unwrap_or_default();
    if PROGRAMS.contains(&first) {
        return None;
    }
    if let Some(file) = files.iter().find(|file| file.name == name) {
        return Some(file);
    }
    // A place of the client's own. Its files have endings, and a program that lost its way does not
    // ask for a page.
    let last = name.rsplit('/').next().unwrap_or_default();
    let wants_page = name.is_empty() || accepts(&asked.headers, header::ACCEPT, "text/html");
    if first == "assets" || last.contains('.') || !wants_page {
        return None;
    }
    let index = files.iter().find(|file| file.name == INDEX);
    Some(index.unwrap_or(&ABSENT))
}

fn packed(file: &File, headers: &HeaderMap) -> (&'static [u8], Option<&'static str>) {
    let takes = |packing| accepts(headers, header::ACCEPT_ENCODING, packing);
    match (file.brotli, file.gzip) {
        (Some(brotli), _) if takes("br") => (brotli, Some("br")),
        (_, Some(gzip)) if takes("gzip") => (gzip, Some("gzip")),
        _ => (file.plain, None),
    }
}

/// Whether it is named, and not with a weight of nothing.
fn accepts(headers: &HeaderMap, name: header::HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).into_iter();
    let mut named = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    named.any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let is_wanted = parts
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case(wanted));
        let is_refused = parts.any(|weight| matches!(weight, "q=0" | "q=0.0" | "q=0.00"));
        is_wanted && !is_refused
    })
}

/// A file below `assets` has its hash in its name, and is never another one.
fn is_for_ever(name: &str) -> bool {
    name.starts_with("assets/")
}

fn mark(file: &File) -> String {
    if is_for_ever(file.name) {
        return format!("W/\"{}\"", file.name);
    }
    let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(file.plain));
    format!("W/\"{digest}\"")
}

fn keep(name: &str) -> &'static str {
    if is_for_ever(name) {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    }
}

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

/// Nothing from elsewhere, nothing written into the page; previews in frames, on names of their own.
fn policy(address: &Address) -> String {
    let site = address.site();
    let scheme = if site.is_https { "https" } else { "http" };
    let port = site.port.map(|port| format!(":{port}")).unwrap_or_default();
    format!(
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
         connect-src 'self'; frame-src {scheme}://*.{domain}{port}; object-src 'none'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        domain = site.domain
    )
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    const FILES: [File; 2] = [
        File {
            name: "assets/index-1a2b.js",
            plain: b"plain",
            brotli: Some(b"br"),
            gzip: Some(b"gz"),
        },
        File {
            name: INDEX,
            plain: b"<!doctype html>",
            brotli: None,
            gzip: None,
        },
    ];

    fn asked(method: Method, path: &str, accept: &str) -> Parts {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, accept);
        request.body(()).unwrap().into_parts().0
    }

    fn found(path: &str, accept: &str) -> Option<&'static str> {
        find(&FILES, &asked(Method::GET, path, accept)).map(|file| file.name)
    }

    #[test]
    fn places_of_the_client_are_the_client() {
        let browser = "text/html,application/xhtml+xml,*/*;q=0.8";
        for place in [
            "/",
            "/login",
            "/sessions/ses_1/terminal",
            "/settings/models",
        ] {
            assert_eq!(found(place, browser), Some(INDEX), "{place}");
        }
        assert_eq!(found("/assets/index-1a2b.js", "*/*"), Some(FILES[0].name));
    }

    #[test]
    fn what_is_for_programs_is_never_a_page() {
        for path in [
            "/v1",
            "/v1/nothing",
            "/metrics/x",
            "/openapi.json",
            "/healthz/x",
        ] {
            assert_eq!(found(path, "text/html"), None, "{path}");
        }
        for path in ["/assets/old-1.js", "/favicon.ico", "/../etc/passwd.txt"] {
            assert_eq!(found(path, "text/html"), None, "{path}");
        }
        assert_eq!(found("/sessions", "application/json"), None);
        assert!(find(&FILES, &asked(Method::POST, "/", "text/html")).is_none());
    }

    #[test]
    fn without_the_client_a_page_says_how_to_build_it() {
        let file = find(&[], &asked(Method::GET, "/", "text/html")).unwrap();
        assert!(String::from_utf8_lossy(file.plain).contains("npm run build"));
    }

    #[test]
    fn it_is_packed_as_the_browser_takes_it() {
        let with = |encodings: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, encodings.parse().unwrap());
            packed(&FILES[0], &headers)
        };
        assert_eq!(with("gzip, deflate, br, zstd"), (&b"br"[..], Some("br")));
        assert_eq!(with("br;q=0, gzip"), (&b"gz"[..], Some("gzip")));
        assert_eq!(with("identity"), (&b"plain"[..], None));
    }

    #[test]
    fn the_policy_lets_in_nothing_but_ours_and_previews() {
        let address = Address {
            scheme: "http".to_owned(),
            authority: "nacre.localhost:7070".to_owned(),
            preview_domain: "preview.nacre.localhost".to_owned(),
            also: Vec::new(),
        };
        let policy = policy(&address);
        assert!(policy.contains("frame-src http://*.preview.nacre.localhost:7070;"));
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}
