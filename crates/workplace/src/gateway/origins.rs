//! Origins whose pages are as good as our own.

use std::cell::RefCell;
use std::rc::Rc;

use hyper::Uri;

/// More of them are nobody's pages.
const MAX_ORIGINS: usize = 32;
const MAX_LENGTH: usize = 256;

/// Pages of these may open sockets, change things, and show ours in a frame; those of our own host
/// always may. Cheap to clone, and all clones are the same list.
#[derive(Debug, Clone, Default)]
pub struct Origins(Rc<RefCell<Vec<String>>>);

impl Origins {
    /// Takes the place of those before. What is no origin is left out, and given back.
    pub fn set(&self, given: &[String]) -> Vec<String> {
        let mut taken = Vec::new();
        let mut refused = Vec::new();
        for origin in given {
            match read(origin).filter(|_| taken.len() < MAX_ORIGINS) {
                Some(origin) => taken.push(origin),
                None => refused.push(origin.clone()),
            }
        }
        self.0.replace(taken);
        refused
    }

    pub fn list(&self) -> Vec<String> {
        self.0.borrow().clone()
    }
}

/// As browsers write it: scheme, host, and the port where it is not the usual one.
fn read(text: &str) -> Option<String> {
    let text = text.strip_suffix('/').unwrap_or(text).to_ascii_lowercase();
    if text.len() > MAX_LENGTH {
        return None;
    }
    let uri: Uri = text.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    let usual = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    // It goes into a header of ours, so it is nothing but a name and a number.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.[]:".contains(c);
    let is_whole = text == format!("{scheme}://{authority}");
    if !is_whole || authority.host().is_empty() || !authority.as_str().chars().all(is_plain) {
        return None;
    }
    match authority.port_u16() {
        Some(port) if port != usual => Some(text),
        _ if authority.as_str().len() > authority.host().len() && authority.port().is_none() => {
            None
        }
        _ => Some(format!("{scheme}://{}", authority.host())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_origin_is_taken_as_browsers_write_it() {
        for (given, taken) in [
            ("https://nacre.example", Some("https://nacre.example")),
            ("HTTPS://Nacre.Example/", Some("https://nacre.example")),
            ("https://nacre.example:443", Some("https://nacre.example")),
            ("https://nacre.example:80", Some("https://nacre.example:80")),
            (
                "http://nacre.localhost:7070",
                Some("http://nacre.localhost:7070"),
            ),
            ("http://[::1]:7070", Some("http://[::1]:7070")),
            ("https://[::1]", Some("https://[::1]")),
            ("nacre.example", None),
            ("null", None),
            ("*", None),
            ("https://*", None),
            ("https://*.nacre.example", None),
            ("https://nacre.example/path", None),
            ("https://nacre.example?x", None),
            ("https://user@nacre.example", None),
            ("https://nacre.example:", None),
            ("https://nacre.example:99999", None),
            ("https://nacre.example; script-src *", None),
            ("https://nacre.example https://evil.example", None),
            ("javascript://nacre.example", None),
            ("https://", None),
            ("", None),
        ] {
            assert_eq!(read(given).as_deref(), taken, "{given}");
        }
    }

    #[test]
    fn new_ones_take_the_place_of_old_ones_and_there_is_an_end_to_them() {
        let origins = Origins::default();
        let same = origins.clone();
        let many: Vec<String> = (0..40).map(|n| format!("https://{n}.example")).collect();
        assert_eq!(origins.set(&many), many[32..]);
        assert_eq!(same.list(), many[..32]);
        assert_eq!(origins.set(&["no origin".to_owned()]), ["no origin"]);
        assert!(same.list().is_empty());
    }

    proptest! {
        #[test]
        fn nothing_that_is_taken_can_say_more_in_a_header(text in "https?://[a-z*.:;,' \\[\\]@/?#0-9-]{0,20}") {
            if let Some(origin) = read(&text) {
                prop_assert!(!origin.contains([' ', ';', ',', '\'', '*', '@', '?', '#']));
                prop_assert_eq!(read(&origin), Some(origin));
            }
        }
    }
}
