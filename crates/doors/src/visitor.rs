use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderMap};

/// Who is at the door, as the host knows it; nothing a sandbox says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Visitor {
    pub organisation: String,
    pub session: String,
    pub generation: u64,
}

/// The key that a request from a remote sandbox carries: as a bearer token, as Anthropic's own
/// header, or as the password that git sends. Whether it is worth anything is for others to say.
pub fn credential(headers: &HeaderMap) -> Option<String> {
    if let Some(key) = headers.get("x-api-key") {
        return Some(key.to_str().ok()?.to_owned());
    }
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let plain = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
    let (_, password) = plain.split_once(':')?;
    Some(password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &'static str, value: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        credential(&headers)
    }

    #[test]
    fn a_key_is_found_where_each_client_puts_it() {
        assert_eq!(of("authorization", "Bearer abc").as_deref(), Some("abc"));
        assert_eq!(of("authorization", "bearer  abc").as_deref(), Some("abc"));
        assert_eq!(of("x-api-key", "abc").as_deref(), Some("abc"));
        // x:abc
        assert_eq!(
            of("authorization", "Basic eDphYmM=").as_deref(),
            Some("abc")
        );
    }

    #[test]
    fn nonsense_is_no_key() {
        for value in ["", "abc", "Basic ???", "Basic YWJj", "Digest abc"] {
            assert_eq!(of("authorization", value), None, "{value}");
        }
        assert_eq!(credential(&HeaderMap::new()), None);
    }
}
