use hyper::header::HeaderMap;

/// Which of the agent's conversations asks, in its own words: `OpenCode` says it with each request.
/// A sandbox says what it likes here, so it is good for telling a session's turns apart, and for
/// nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asker {
    pub conversation: Option<String>,
    /// The conversation that began this one: it is a subagent's.
    pub parent: Option<String>,
}

/// Longer is no name.
const LONGEST: usize = 128;

impl Asker {
    pub(super) fn read(headers: &HeaderMap) -> Self {
        Self {
            conversation: name(headers, "x-session-id"),
            parent: name(headers, "x-parent-session-id"),
        }
    }
}

fn name(headers: &HeaderMap, header: &str) -> Option<String> {
    let mut values = headers.get_all(header).iter();
    let value = values.next()?.to_str().ok()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_name = (1..=LONGEST).contains(&value.len()) && value.bytes().all(plain);
    (is_name && values.next().is_none()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_named_once_and_plainly_or_not_at_all() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("x-session-id", value.parse().unwrap());
            }
            Asker::read(&headers).conversation
        };
        assert_eq!(read(&["ses_1aB"]).as_deref(), Some("ses_1aB"));
        let long = "a".repeat(LONGEST + 1);
        for wrong in [&[][..], &[""], &["a b"], &["a", "b"], &["a/b"], &[&long]] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
