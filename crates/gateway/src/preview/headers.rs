//! What passes between a browser and a program in a sandbox, and what does not. Both directions are
//! framed anew by hyper, so that a message cannot mean two things on the two sides.

use std::net::IpAddr;

use hyper::Request;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::access::NewCookie;
use super::site::Site;
use crate::join::words;

const SECURE: &str = "__Host-nacre-preview";
/// Where browsers take no cookie for a secure one.
const PLAIN: &str = "nacre-preview";

/// So many of our name are looked at.
const COOKIES: usize = 4;

/// Belong to one connection.
const HOP_BY_HOP: [HeaderName; 9] = [
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

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Where a request was sent. More than one answer is none.
pub(super) fn host<B>(request: &Request<B>) -> Option<String> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.as_str().to_owned());
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next().filter(|_| hosts.next().is_none())?;
    host.to_str().ok().map(str::to_owned)
}

pub(super) fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(words)
        .filter_map(|word| HeaderName::from_bytes(word).ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn name_for(site: &Site) -> &'static str {
    if site.is_secure() { SECURE } else { PLAIN }
}

pub(super) fn our_cookies(headers: &HeaderMap, site: &Site) -> Vec<String> {
    let ours = name_for(site).as_bytes();
    cookies(headers)
        .filter_map(|pair| {
            let (name, value) = split(pair);
            (name == ours).then(|| std::str::from_utf8(value).ok().map(str::to_owned))?
        })
        .take(COOKIES)
        .collect()
}

pub(super) fn set_cookie(site: &Site, cookie: &NewCookie) -> Option<HeaderValue> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if cookie.value.is_empty() || !cookie.value.bytes().all(is_plain) {
        return None;
    }
    let secure = if site.is_secure() { "; Secure" } else { "" };
    let text = format!(
        "{}={}; Path=/; HttpOnly; SameSite=Lax; Max-Age={}{secure}",
        name_for(site),
        cookie.value,
        cookie.lasts.as_secs(),
    );
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Leaves the program its own cookies.
pub(super) fn drop_our_cookies(headers: &mut HeaderMap) {
    if !headers.contains_key(header::COOKIE) {
        return;
    }
    let theirs: Vec<&[u8]> = cookies(headers)
        .filter(|pair| !is_ours(split(pair).0))
        .collect();
    let joined = HeaderValue::from_bytes(&theirs.join(&b"; "[..]));
    headers.remove(header::COOKIE);
    if let Ok(joined) = joined
        && !joined.is_empty()
    {
        headers.insert(header::COOKIE, joined);
    }
}

/// A program sets its own cookies, for its own origin: none of ours, and none that other previews
/// would be sent.
pub(super) fn tame_cookies(headers: &mut HeaderMap) {
    let set: Vec<HeaderValue> = headers
        .get_all(header::SET_COOKIE)
        .iter()
        .filter(|value| !is_ours(split(first(value.as_bytes())).0))
        .filter_map(|value| {
            let kept: Vec<&[u8]> = value
                .as_bytes()
                .split(|byte| *byte == b';')
                .filter(|attribute| !split(attribute).0.eq_ignore_ascii_case(b"domain"))
                .collect();
            HeaderValue::from_bytes(&kept.join(&b';')).ok()
        })
        .collect();
    headers.remove(header::SET_COOKIE);
    for value in set {
        headers.append(header::SET_COOKIE, value);
    }
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii)
        .filter(|pair| !pair.is_empty())
}

fn first(cookie: &[u8]) -> &[u8] {
    cookie
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
}

fn split(pair: &[u8]) -> (&[u8], &[u8]) {
    let at = pair.iter().position(|byte| *byte == b'=');
    let (name, value) = match at {
        Some(at) => (&pair[..at], &pair[at + 1..]),
        // A cookie without a name is its value, and some read `name` from it.
        None => (pair, &[][..]),
    };
    (name.trim_ascii(), value.trim_ascii())
}

fn is_ours(name: &[u8]) -> bool {
    [SECURE, PLAIN]
        .iter()
        .any(|ours| name.eq_ignore_ascii_case(ours.as_bytes()))
}

/// Whether a page of another origin is behind this request. Clients that are no browsers say
/// nothing, and need no protection from pages.
pub(super) fn is_foreign(headers: &HeaderMap) -> bool {
    let site = headers.get(&FETCH_SITE);
    let Some(origin) = headers.get(header::ORIGIN) else {
        return site.is_some_and(|site| site != "same-origin" && site != "none");
    };
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let authority = origin.to_str().ok().and_then(|origin| {
        let secure = origin.strip_prefix("https://");
        secure.or_else(|| origin.strip_prefix("http://"))
    });
    match (authority, host) {
        (Some(authority), Some(host)) => !authority.eq_ignore_ascii_case(host),
        _ => true,
    }
}

/// Tells the program who asked, and under which address. What others said of that is not believed.
pub(super) fn forwarded(headers: &mut HeaderMap, site: &Site, host: &str, peer: IpAddr) {
    headers.remove("forwarded");
    headers.remove("x-real-ip");
    headers.remove("x-forwarded-prefix");
    headers.remove("x-forwarded-port");
    let proto = if site.is_https { "https" } else { "http" };
    let peer = peer.to_canonical().to_string();
    for (name, value) in [
        ("x-forwarded-for", peer.as_str()),
        ("x-forwarded-proto", proto),
        ("x-forwarded-host", host),
    ] {
        match HeaderValue::from_str(value) {
            Ok(value) => headers.insert(name, value),
            Err(_) => headers.remove(name),
        };
    }
}

/// A redirect to where the program thinks it is leads to where it is shown.
pub(super) fn move_location(headers: &mut HeaderMap, port: u16) {
    let location = headers.get(header::LOCATION);
    let Some(location) = location.and_then(|value| value.to_str().ok()) else {
        return;
    };
    let rest = ["localhost", "127.0.0.1", "[::1]"].iter().find_map(|host| {
        let rest = location.strip_prefix(&format!("http://{host}:{port}"))?;
        (rest.is_empty() || rest.starts_with(['/', '?', '#'])).then_some(rest)
    });
    let Some(rest) = rest else { return };
    let path = if rest.starts_with('/') {
        format!("/{}", rest.trim_start_matches('/'))
    } else {
        format!("/{rest}")
    };
    if let Ok(moved) = HeaderValue::from_str(&path) {
        headers.insert(header::LOCATION, moved);
    }
}

/// For every answer: it is nobody's business from where a preview's links were followed.
pub(super) fn guard(headers: &mut HeaderMap) {
    let policy = HeaderValue::from_static("same-origin");
    headers.entry(header::REFERRER_POLICY).or_insert(policy);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn all(headers: &HeaderMap, name: &str) -> Vec<String> {
        let values = headers.get_all(name).iter();
        values.map(|v| v.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_program_sees_its_own_cookies_and_none_of_ours() {
        let mut headers = map(&[
            ("cookie", "a=1; __Host-nacre-preview=secret; b=2"),
            ("cookie", "NACRE-PREVIEW=secret;c=3"),
        ]);
        drop_our_cookies(&mut headers);
        assert_eq!(all(&headers, "cookie"), ["a=1; b=2; c=3"]);
        let mut only = map(&[("cookie", "__Host-nacre-preview=secret")]);
        drop_our_cookies(&mut only);
        assert!(only.is_empty());
    }

    #[test]
    fn a_program_can_neither_set_our_cookie_nor_one_for_other_previews() {
        let mut headers = map(&[
            ("set-cookie", "__host-NACRE-preview=mine; Path=/"),
            ("set-cookie", " nacre-preview = mine"),
            ("set-cookie", "nacre-preview"),
            ("set-cookie", "a=1; Domain=preview.nacre.localhost; Path=/"),
            ("set-cookie", "b=2; DOMAIN = localhost"),
        ]);
        tame_cookies(&mut headers);
        assert_eq!(all(&headers, "set-cookie"), ["a=1; Path=/", "b=2"]);
    }

    #[test]
    fn pages_of_other_origins_are_told_apart() {
        let host = ("host", "3000-x.preview.nacre.localhost:7070");
        let own = "http://3000-x.preview.nacre.localhost:7070";
        assert!(!is_foreign(&map(&[host, ("origin", own)])));
        assert!(!is_foreign(&map(&[host])));
        assert!(!is_foreign(&map(&[
            host,
            ("sec-fetch-site", "same-origin")
        ])));
        assert!(is_foreign(&map(&[host, ("origin", "http://evil.example")])));
        assert!(is_foreign(&map(&[host, ("origin", "null")])));
        assert!(is_foreign(&map(&[host, ("sec-fetch-site", "same-site")])));
    }

    #[test]
    fn a_redirect_leads_to_where_the_program_is_shown() {
        for (from, to) in [
            ("http://localhost:3000/a", "/a"),
            ("http://127.0.0.1:3000", "/"),
            ("http://localhost:3000//evil.example", "/evil.example"),
            ("http://localhost:30001/a", "http://localhost:30001/a"),
            ("/a", "/a"),
            ("https://example.com/", "https://example.com/"),
        ] {
            let mut headers = map(&[("location", from)]);
            move_location(&mut headers, 3000);
            assert_eq!(all(&headers, "location"), [to], "{from}");
        }
    }

    #[test]
    fn what_belongs_to_a_connection_stays_behind() {
        let mut headers = map(&[
            ("connection", "close, X-Private"),
            ("x-private", "1"),
            ("keep-alive", "5"),
            ("transfer-encoding", "chunked"),
            ("x-stays", "1"),
        ]);
        drop_hop_by_hop(&mut headers);
        assert_eq!(headers.len(), 1);
    }
}
