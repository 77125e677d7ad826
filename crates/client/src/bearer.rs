use std::fmt;

use reqwest::header::HeaderValue;

use crate::ClientError;

/// A token that lets in. It is not shown, wherever it is printed.
#[derive(Clone)]
pub struct Bearer(String);

impl Bearer {
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// Marked, so that it is neither logged nor kept in a table of headers.
    pub(crate) fn header(&self) -> Result<HeaderValue, ClientError> {
        let value = format!("Bearer {}", self.0.trim());
        let mut value = HeaderValue::try_from(value).map_err(|_| ClientError::BadToken)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_printed() {
        let bearer = Bearer::new("nac_very_secret");
        let header = bearer.header().unwrap();
        assert!(!format!("{bearer:?} {header:?}").contains("secret"));
    }

    #[test]
    fn a_token_with_a_line_end_inside_is_no_token() {
        assert!(Bearer::new("nac_a\r\nHost: b").header().is_err());
        assert!(Bearer::new("nac_from_a_file\n").header().is_ok());
    }
}
