//! The cookie of a browser that is signed in.

use axum::http::{HeaderMap, HeaderValue, header};
use model::Secret;

use crate::Address;

/// Of the very host alone, and never sent in the clear beyond this machine.
const NAME: &str = "__Host-nacre";

/// The one that it brings; none where it brings several.
pub(crate) fn read(headers: &HeaderMap) -> Option<Secret> {
    let mut found = None;
    for value in headers.get_all(header::COOKIE) {
        for pair in value.to_str().ok()?.split(';') {
            let Some((name, value)) = pair.trim().split_once('=') else {
                continue;
            };
            if name == NAME {
                if found.is_some() {
                    return None;
                }
                found = Some(Secret::new(value.to_owned()));
            }
        }
    }
    found
}

/// Browsers take `localhost` for a safe place, so it is `Secure` everywhere.
pub(crate) fn set(value: &Secret, seconds: i64) -> Option<HeaderValue> {
    let value = value.expose();
    let cookie =
        format!("{NAME}={value}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={seconds}");
    let mut header = HeaderValue::from_str(&cookie).ok()?;
    header.set_sensitive(true);
    Some(header)
}

pub(crate) fn clear() -> HeaderValue {
    HeaderValue::from_static("__Host-nacre=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0")
}

/// Whether a page of ours sends it. A browser says where a request that could do harm comes from.
pub(crate) fn is_from_our_page(headers: &HeaderMap, address: &Address) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let origin = origins.next().and_then(|origin| origin.to_str().ok());
    let is_ours = origin.is_some_and(|origin| {
        origin.eq_ignore_ascii_case(&address.origin())
            || address
                .also
                .iter()
                .any(|name| origin.eq_ignore_ascii_case(&format!("{}://{name}", address.scheme)))
    });
    is_ours && origins.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &header::HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn one_cookie_of_ours_is_read() {
        let read = |values: &[&str]| read(&with(&header::COOKIE, values));
        assert_eq!(read(&["a=b; __Host-nacre=x; c=d"]).unwrap().expose(), "x");
        assert!(read(&["nacre=x"]).is_none());
        assert!(read(&["__Host-nacre=x; __Host-nacre=y"]).is_none());
        assert!(read(&["__Host-nacre=x", "__Host-nacre=y"]).is_none());
    }

    #[test]
    fn only_pages_of_ours_count() {
        let address = Address {
            scheme: "http".to_owned(),
            authority: "nacre.localhost:7070".to_owned(),
            preview_domain: "preview.nacre.localhost".to_owned(),
            also: vec!["127.0.0.1:7070".to_owned()],
        };
        let from = |values: &[&str]| is_from_our_page(&with(&header::ORIGIN, values), &address);
        assert!(from(&["http://nacre.localhost:7070"]));
        assert!(from(&["http://127.0.0.1:7070"]));
        for foreign in [
            &[][..],
            &["null"],
            &["https://nacre.localhost:7070"],
            &["http://3000-ses-1.preview.nacre.localhost:7070"],
            &["http://nacre.localhost:7070", "http://evil.example"],
        ] {
            assert!(!from(foreign), "{foreign:?}");
        }
    }
}
