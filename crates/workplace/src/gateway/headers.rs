//! What passes between client and backend, and what does not. Both directions are framed anew by
//! hyper, so that a message cannot mean two things on the two sides.

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{self, HeaderName, HeaderValue};

use super::sessions::COOKIE;

/// Belong to one connection. `Expect` is answered by us, and `Upgrade` put back where it is meant.
pub(super) const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

pub(super) fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(words)
        .filter_map(|word| HeaderName::from_bytes(word).ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Whether the client wants to go on as a WebSocket.
pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    let says = |name: HeaderName, word: &[u8]| {
        let values = headers.get_all(name);
        values
            .iter()
            .flat_map(words)
            .any(|w| w.eq_ignore_ascii_case(word))
    };
    says(header::CONNECTION, b"upgrade") && says(header::UPGRADE, b"websocket")
}

pub(super) fn put_upgrade(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

/// The words of a list, without the space around them.
pub(super) fn words(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value
        .as_bytes()
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
}

/// Our cookie, as shown.
pub(super) fn our_cookie(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b';'))
        .find_map(|pair| {
            let (name, value) = split_cookie(pair);
            (name == COOKIE.as_bytes()).then(|| std::str::from_utf8(value).ok())?
        })
}

/// The token behind `Bearer`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_ascii())
}

/// Leaves the backend its own cookies.
pub(super) fn drop_our_cookie(headers: &mut HeaderMap) {
    if !headers.contains_key(header::COOKIE) {
        return;
    }
    let theirs: Vec<&[u8]> = headers
        .get_all(header::COOKIE)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii)
        .filter(|pair| !pair.is_empty() && !is_ours(split_cookie(pair).0))
        .collect();
    let joined = HeaderValue::from_bytes(&theirs.join(&b"; "[..]));
    headers.remove(header::COOKIE);
    if let Ok(joined) = joined
        && !joined.is_empty()
    {
        headers.insert(header::COOKIE, joined);
    }
}

/// A backend sets its own cookies and not ours.
pub(super) fn drop_set_of_our_cookie(headers: &mut HeaderMap) {
    let sets_ours = |value: &HeaderValue| is_ours(split_cookie(value.as_bytes()).0);
    if !headers.get_all(header::SET_COOKIE).iter().any(sets_ours) {
        return;
    }
    let theirs: Vec<HeaderValue> = headers
        .get_all(header::SET_COOKIE)
        .iter()
        .filter(|value| !sets_ours(value))
        .cloned()
        .collect();
    headers.remove(header::SET_COOKIE);
    for value in theirs {
        headers.append(header::SET_COOKIE, value);
    }
}

fn split_cookie(pair: &[u8]) -> (&[u8], &[u8]) {
    let at = pair.iter().position(|byte| *byte == b'=');
    let (name, value) = match at {
        Some(at) => (&pair[..at], &pair[at + 1..]),
        None => (pair, &[][..]),
    };
    (name.trim_ascii(), value.trim_ascii())
}

fn is_ours(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(COOKIE.as_bytes())
}

/// Tells the backend who asked, and under which address. What an authenticated client says about a
/// proxy in front of us is believed: it deceives nobody but itself.
pub(super) fn add_forwarded(headers: &mut HeaderMap, peer: IpAddr, prefix: &str) {
    let peer = peer.to_canonical().to_string();
    let mut chain: Vec<&str> = headers
        .get_all(FORWARDED_FOR)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    chain.push(&peer);
    let chain = chain.join(", ");
    set(headers, FORWARDED_FOR, &chain);
    let is_scheme = |value: &HeaderValue| value == "https" || value == "http";
    if !headers.get(FORWARDED_PROTO).is_some_and(is_scheme) {
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static("http"));
    }
    if !headers.contains_key(FORWARDED_HOST)
        && let Some(host) = headers.get(header::HOST).cloned()
    {
        headers.insert(FORWARDED_HOST, host);
    }
    set(headers, FORWARDED_PREFIX, prefix);
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    match HeaderValue::from_str(value) {
        Ok(value) => headers.insert(name, value),
        Err(_) => headers.remove(name),
    };
}

/// Where the browser thinks it is. No page of another origin can make a browser send these wrong.
fn hosts(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    [FORWARDED_HOST, header::HOST]
        .into_iter()
        .filter_map(|name| headers.get(name)?.to_str().ok())
}

/// Whether a page of another origin is behind this request. Clients that are no browsers say
/// nothing, and need no protection from pages.
pub(super) fn is_foreign(headers: &HeaderMap, origins: &[String]) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return headers
            .get(FETCH_SITE)
            .is_some_and(|site| site != "same-origin" && site != "none");
    };
    let Ok(origin) = origin.to_str() else {
        return true;
    };
    let is_listed = origins.iter().any(|ours| ours.eq_ignore_ascii_case(origin));
    let authority = origin
        .strip_prefix("https://")
        .or_else(|| origin.strip_prefix("http://"));
    let is_here =
        authority.is_some_and(|a| hosts(headers).any(|host| host.eq_ignore_ascii_case(a)));
    !is_listed && !is_here
}

/// Whether one of our own pages asks, which may not know under which prefix it was shown.
pub(super) fn is_from_own_page(headers: &HeaderMap) -> bool {
    if headers.get(FETCH_SITE).is_some_and(|s| s == "same-origin") {
        return true;
    }
    // Sockets say where they come from, and plain requests which page they are for.
    [header::ORIGIN, header::REFERER]
        .into_iter()
        .filter_map(|name| authority_of(headers.get(name)?.to_str().ok()?))
        .any(|(authority, _)| hosts(headers).any(|host| host.eq_ignore_ascii_case(authority)))
}

/// Puts a redirect of the backend under the prefix where the client sees it.
pub(super) fn move_location(headers: &mut HeaderMap, prefix: &str, port: u16, hosts: &[String]) {
    let Some(location) = headers.get(header::LOCATION).and_then(|v| v.to_str().ok()) else {
        return;
    };
    let Some(path) = own_path(location, port, hosts) else {
        return;
    };
    // One that honours the forwarded prefix has done it already.
    let is_below = path
        .strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']));
    let moved = if is_below {
        path.to_owned()
    } else {
        format!("{prefix}{path}")
    };
    set(headers, header::LOCATION, &moved);
}

/// The path of a location that leads back to the backend.
fn own_path<'a>(location: &'a str, port: u16, hosts: &[String]) -> Option<&'a str> {
    if location.starts_with('/') && !location.starts_with("//") {
        return Some(location);
    }
    let (authority, path) = authority_of(location)?;
    let own = ["localhost", "127.0.0.1", "[::1]"];
    let is_own = own.iter().any(|host| format!("{host}:{port}") == authority)
        || hosts
            .iter()
            .any(|host| host.eq_ignore_ascii_case(authority));
    match path {
        _ if !is_own => None,
        "" => Some("/"),
        path if path.starts_with('/') => Some(path),
        _ => None,
    }
}

fn authority_of(url: &str) -> Option<(&str, &str)> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
        .or_else(|| url.strip_prefix("//"))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    Some(rest.split_at(end))
}

/// Under which names the client knows us.
pub(super) fn known_hosts(headers: &HeaderMap) -> Vec<String> {
    hosts(headers).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect()
    }

    fn all(headers: &HeaderMap, name: &str) -> Vec<String> {
        headers
            .get_all(name)
            .iter()
            .map(|value| value.to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn what_belongs_to_a_connection_stays_behind() {
        let mut headers = headers(&[
            ("connection", "close, X-Private"),
            ("connection", "x-other"),
            ("x-private", "1"),
            ("x-other", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("proxy-authorization", "x"),
            ("accept-encoding", "br"),
        ]);
        drop_hop_by_hop(&mut headers);
        let names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["accept-encoding"]);
    }

    #[test]
    fn our_cookie_stays_behind_and_others_go_on() {
        for (given, kept) in [
            ("__Host-gateway_session=x", &[][..]),
            ("a=1; __Host-gateway_session=x; b=2", &["a=1; b=2"]),
            (
                "__Host-gateway_session=x;__Host-gateway_session=y; a",
                &["a"],
            ),
            ("__HOST-Gateway_Session = x; a=\"1\"", &["a=\"1\""]),
            (
                "my__Host-gateway_session=1",
                &["my__Host-gateway_session=1"],
            ),
        ] {
            let mut headers = headers(&[("cookie", given)]);
            drop_our_cookie(&mut headers);
            assert_eq!(all(&headers, "cookie"), kept, "{given}");
        }
    }

    #[test]
    fn a_backend_cannot_set_our_cookie() {
        let mut headers = headers(&[
            ("set-cookie", "a=1; Path=/"),
            ("set-cookie", "__Host-gateway_session=fixed; Path=/; Secure"),
            ("set-cookie", "b=2"),
        ]);
        drop_set_of_our_cookie(&mut headers);
        assert_eq!(all(&headers, "set-cookie"), ["a=1; Path=/", "b=2"]);
    }

    #[test]
    fn our_cookie_is_found_among_others() {
        let headers = headers(&[
            ("cookie", "a=1"),
            ("cookie", "b=2;__Host-gateway_session=x"),
        ]);
        assert_eq!(our_cookie(&headers), Some("x"));
    }

    #[test]
    fn redirects_come_back_under_the_prefix() {
        let hosts = ["9000-x.preview.example".to_owned()];
        for (given, expected) in [
            ("/login?a=/b", "/t/app/login?a=/b"),
            ("/", "/t/app/"),
            ("/t/app/login", "/t/app/login"),
            ("/t/apple", "/t/app/t/apple"),
            ("login", "login"),
            ("?page=2", "?page=2"),
            ("http://localhost:3000/x", "/t/app/x"),
            ("http://127.0.0.1:3000", "/t/app/"),
            ("https://9000-x.preview.example/x", "/t/app/x"),
            ("http://localhost:3001/x", "http://localhost:3001/x"),
            ("https://example.com/x", "https://example.com/x"),
            ("//example.com/x", "//example.com/x"),
            (
                "http://localhost:3000@evil.example/",
                "http://localhost:3000@evil.example/",
            ),
        ] {
            let mut headers = headers(&[("location", given)]);
            move_location(&mut headers, "/t/app", 3000, &hosts);
            assert_eq!(headers["location"], expected, "{given}");
        }
    }

    #[test]
    fn only_pages_of_this_host_and_of_listed_origins_are_ours() {
        let listed = ["https://nacre.example".to_owned()];
        for (pairs, foreign) in [
            (&[][..], false),
            (&[("origin", "https://box.example")], false),
            (&[("origin", "https://BOX.example")], false),
            (&[("origin", "https://nacre.example")], false),
            (&[("origin", "https://evil.example")], true),
            (&[("origin", "https://box.example.evil.example")], true),
            (&[("origin", "https://evil.example/box.example")], true),
            (&[("origin", "https://box.example:8443")], true),
            (&[("origin", "null")], true),
            (&[("origin", "")], true),
            (&[("sec-fetch-site", "cross-site")], true),
            (&[("sec-fetch-site", "same-site")], true),
            (&[("sec-fetch-site", "same-origin")], false),
            (&[("sec-fetch-site", "none")], false),
        ] {
            let mut headers = headers(pairs);
            headers.insert("host", HeaderValue::from_static("box.example"));
            assert_eq!(is_foreign(&headers, &listed), foreign, "{pairs:?}");
        }
    }

    #[test]
    fn an_upgrade_is_said_twice() {
        for (connection, upgrade, expected) in [
            ("Upgrade", "websocket", true),
            ("keep-alive, upgrade", "WebSocket", true),
            ("keep-alive", "websocket", false),
            ("upgrade", "h2c", false),
        ] {
            let headers = headers(&[("connection", connection), ("upgrade", upgrade)]);
            assert_eq!(is_upgrade(&headers), expected, "{connection} {upgrade}");
        }
    }

    #[test]
    fn who_asked_is_told_to_the_backend() {
        let mut headers = headers(&[
            ("host", "box.example"),
            ("x-forwarded-for", "203.0.113.7"),
            ("x-forwarded-for", "203.0.113.8"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-prefix", "/forged"),
        ]);
        add_forwarded(&mut headers, "127.0.0.1".parse().unwrap(), "/t/app");
        assert_eq!(
            headers["x-forwarded-for"],
            "203.0.113.7, 203.0.113.8, 127.0.0.1"
        );
        assert_eq!(headers["x-forwarded-proto"], "https");
        assert_eq!(headers["x-forwarded-host"], "box.example");
        assert_eq!(headers["x-forwarded-prefix"], "/t/app");
    }

    proptest! {
        #[test]
        fn no_spelling_of_a_cookie_header_lets_ours_through(
            pieces in prop::collection::vec("[a=; \t\",]|__Host-gateway_session|=canary|a=1", 0..12),
        ) {
            let mut headers = headers(&[("cookie", &pieces.concat())]);
            drop_our_cookie(&mut headers);
            prop_assert_eq!(our_cookie(&headers), None);
        }
    }
}
