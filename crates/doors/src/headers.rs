//! Which headers go through.

use hyper::header::{HeaderMap, HeaderName};
use memchr::memmem;
use model::Secret;

/// Those of a request that are listed, and no other: whatever else a sandbox sends, credentials
/// and cookies by any name, stays here.
pub(crate) fn only(headers: &HeaderMap, listed: &[&str]) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        if listed.contains(&name.as_str()) && !kept.contains_key(name) {
            kept.insert(name.clone(), value.clone());
        }
    }
    kept
}

/// What belongs to one connection, to one account, or to a body as it was before we read it.
const STAY_OUTSIDE: &[&str] = &[
    "alt-svc",
    "anthropic-organization-id",
    "connection",
    "content-encoding",
    "content-length",
    "keep-alive",
    "openai-organization",
    "openai-project",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "set-cookie2",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
];

/// An answer's headers, as they may enter a sandbox.
pub(crate) fn inwards(headers: &HeaderMap, key: Option<&Secret>) -> HeaderMap {
    let named = named_by_connection(headers);
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        let tells = key
            .is_some_and(|key| memmem::find(value.as_bytes(), key.expose().as_bytes()).is_some());
        if !tells && !STAY_OUTSIDE.contains(&name.as_str()) && !named.contains(name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

/// `Connection` may name further headers that end with it.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all("connection")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_what_is_listed_goes_out() {
        let sent = headers(&[
            ("authorization", "Bearer inside"),
            ("x-api-key", "inside"),
            ("cookie", "a=b"),
            ("accept", "*/*"),
            ("accept", "twice"),
        ]);
        assert_eq!(only(&sent, &["accept"]), headers(&[("accept", "*/*")]));
    }

    #[test]
    fn what_belongs_to_the_connection_or_the_account_stays_out() {
        let came = headers(&[
            ("connection", "close, x-hop"),
            ("x-hop", "1"),
            ("set-cookie", "a=b"),
            ("x-echo", "key sk-12345678 here"),
            ("retry-after", "7"),
        ]);
        let key = Secret::new("sk-12345678");
        assert_eq!(inwards(&came, Some(&key)), headers(&[("retry-after", "7")]));
    }
}
