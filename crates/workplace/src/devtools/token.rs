use std::fmt;

use subtle::ConstantTimeEq as _;

/// What lets in at the port.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// `None` for one that anybody could guess.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        const SHORTEST: usize = 16;
        let text = text.into();
        (text.len() >= SHORTEST).then_some(Self(text))
    }

    /// Takes as long for one that is nearly right as for any other of its length.
    pub(super) fn admits(&self, header: Option<&[u8]>) -> bool {
        let Some((scheme, given)) = header.and_then(|header| header.split_at_checked(7)) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(given.ct_eq(self.0.as_bytes()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_lets_in() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.admits(Some(b"Bearer 0123456789abcdef")));
        for bad in [
            &b""[..],
            b"Bearer ",
            b"Bearer",
            b"0123456789abcdef",
            b"Basic 0123456789abcdef",
            b"Bearer 0123456789abcdeF",
            b"Bearer 0123456789abcdef ",
            b"Bearer 0123456789abcde",
        ] {
            assert!(!token.admits(Some(bad)), "{bad:?}");
        }
        assert!(!token.admits(None));
        assert!(Token::new("").is_none() && Token::new("short").is_none());
        assert!(!format!("{token:?}").contains("0123"));
    }
}
