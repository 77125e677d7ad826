//! What a request asks for, before anybody looks at who asks.

use hyper::Uri;
use wire::keys::code;

/// A path and a query that mean the same to us and to every backend.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) path: String,
    /// Without our code, else as it came.
    pub(super) query: Option<String>,
    pub(super) code: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadTarget {
    #[error("this is not a proxy: ask for a path")]
    NotAPath,
    #[error("the path is ambiguous")]
    Ambiguous,
    #[error("the address is too long")]
    TooLong,
}

const MAX_LENGTH: usize = 8 << 10;

impl Target {
    pub(super) fn of(uri: &Uri) -> Result<Self, BadTarget> {
        let path = uri.path();
        if uri.authority().is_some() || uri.scheme().is_some() || !path.starts_with('/') {
            return Err(BadTarget::NotAPath);
        }
        if path.len() + uri.query().map_or(0, str::len) > MAX_LENGTH {
            return Err(BadTarget::TooLong);
        }
        if is_ambiguous(path) {
            return Err(BadTarget::Ambiguous);
        }
        let (query, code) = uri.query().map_or((None, None), split_code);
        let path = path.to_owned();
        Ok(Self { path, query, code })
    }

    /// The address to send a browser to, which holds no code.
    pub(super) fn address(&self) -> String {
        self.address_at(&self.path)
    }

    /// The same query at another path.
    pub(super) fn address_at(&self, path: &str) -> String {
        match &self.query {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        }
    }
}

/// Whether some server would read this path as another one. `//host` leads a browser to another
/// host; dots, a backslash or a NUL lead a careless backend elsewhere. No browser sends them.
fn is_ambiguous(path: &str) -> bool {
    if path.starts_with("//") || path.contains('\\') {
        return true;
    }
    let decoded = decode(path);
    decoded.contains(&0)
        || decoded
            .split(|byte| matches!(byte, b'/' | b'\\'))
            .any(|segment| matches!(segment, b"." | b".."))
}

fn split_code(query: &str) -> (Option<String>, Option<String>) {
    let mut code = None;
    let mut kept = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if decode(name) == code::PARAMETER.as_bytes() {
            code.get_or_insert_with(|| value.to_owned());
        } else {
            kept.push(pair);
        }
    }
    let is_all_ours = code.is_some() && kept.is_empty();
    let query = (!is_all_ours).then(|| kept.join("&"));
    (query, code)
}

/// What stands behind percent signs, once.
fn decode(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let escaped = match behind {
            [high, low, ..] if *first == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        if let Some((high, low)) = escaped {
            decoded.push(high << 4 | low);
            rest = &behind[2..];
        } else {
            decoded.push(*first);
            rest = behind;
        }
    }
    decoded
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn target(text: &str) -> Result<Target, BadTarget> {
        Target::of(&text.parse().unwrap())
    }

    #[test]
    fn a_plain_path_stays_as_it_is() {
        for path in [
            "/",
            "/vscode/",
            "/t/app/a%20b/@scope%2fpackage/x..y/...",
            "/vscode//two",
            "/a/%252e%252e/b",
        ] {
            assert_eq!(target(path).unwrap().address(), path);
        }
    }

    #[test]
    fn a_path_that_could_mean_another_is_refused() {
        for path in [
            "//evil.example/",
            "/vscode/../opencode/",
            "/vscode/./x",
            "/vscode/..",
            "/vscode/%2e%2e/opencode/",
            "/vscode/%2E./opencode/",
            "/vscode/..%2fopencode/",
            "/vscode/%2e%2e%2fopencode/",
            "/vscode/..%5copencode/",
            "/vscode\\..\\opencode",
            "/vscode/a%00b",
        ] {
            assert_eq!(target(path), Err(BadTarget::Ambiguous), "{path}");
        }
    }

    #[test]
    fn only_a_path_is_taken() {
        for other in ["http://evil.example/vscode/", "*", "evil.example:443"] {
            assert_eq!(target(other), Err(BadTarget::NotAPath), "{other}");
        }
    }

    #[test]
    fn a_long_address_is_refused() {
        let long = format!("/?{}", "a".repeat(MAX_LENGTH));
        assert_eq!(target(&long), Err(BadTarget::TooLong));
    }

    #[test]
    fn the_query_loses_our_code_and_nothing_else() {
        for (given, kept, code) in [
            ("/x?nacre_code=c", "/x", Some("c")),
            (
                "/x?b=2&nacre_code=c&a=1&b=%203&&=&z",
                "/x?b=2&a=1&b=%203&&=&z",
                Some("c"),
            ),
            ("/x?nacre%5fcode=c&a", "/x?a", Some("c")),
            ("/x?nacre_code=c&nacre_code=d", "/x", Some("c")),
            ("/x?nacre_code", "/x", Some("")),
            ("/x?code=app&token=app", "/x?code=app&token=app", None),
            ("/x?", "/x?", None),
            ("/x?nacre_codex=1", "/x?nacre_codex=1", None),
        ] {
            let target = target(given).unwrap();
            assert_eq!(target.address(), kept, "{given}");
            assert_eq!(target.code.as_deref(), code, "{given}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_never_climbs_and_never_holds_a_code(
            path in "(/([a.%2eEfF5cC\\\\0]{0,6}|\\.\\.|%2e%2e|vscode)){1,4}",
            query in "([a&=%5f]|nacre_code|nacre%5Fcode|=x){0,8}",
        ) {
            let Ok(uri) = format!("{path}?{query}").parse() else {
                return Ok(());
            };
            let Ok(target) = Target::of(&uri) else {
                return Ok(());
            };
            let decoded = decode(&target.path);
            let mut segments = decoded.split(|byte| matches!(byte, b'/' | b'\\'));
            prop_assert!(!segments.any(|s| s == b".." || s == b"."));
            prop_assert!(!target.address().starts_with("//"));
            let kept = target.query.unwrap_or_default();
            let names = kept.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
            prop_assert!(names.into_iter().all(|name| decode(name) != b"nacre_code"));
        }
    }
}
