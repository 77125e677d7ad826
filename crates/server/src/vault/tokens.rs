//! Random strings that let somebody in. Each says by its prefix what it is, and ends in a checksum,
//! so that whoever scans text for lost ones finds them and nothing else.
//!
//! ```text
//! nac_ 52 characters of 32 random bytes, 6 of a checksum, all of Crockford's base 32
//! ```

use std::io;

use model::Secret;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::ring::random;

/// What one lets in to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `/v1`, for a person or a service.
    Token,
    /// Signs in, once.
    Code,
    /// A browser that is signed in; its cookie.
    Browser,
    /// One port of one session.
    Share,
}

impl Kind {
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Token => "nac_",
            Self::Code => "nlc_",
            Self::Browser => "nbs_",
            Self::Share => "nsh_",
        }
    }
}

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const BODY: usize = 52;
const CHECKSUM: usize = 6;

/// A new one.
pub fn make(kind: Kind) -> io::Result<Secret> {
    let bytes = random::<32>()?;
    Ok(spell(kind, &bytes))
}

fn spell(kind: Kind, bytes: &[u8; 32]) -> Secret {
    // Of its full length from the start: one that grows leaves copies behind.
    let mut text = String::with_capacity(kind.prefix().len() + BODY + CHECKSUM);
    text.push_str(kind.prefix());
    encode(bytes, BODY, &mut text);
    let checksum = checksum(&text);
    encode(&checksum, CHECKSUM, &mut text);
    Secret::new(text)
}

/// Whether it has the form of one. A typing mistake is told from a token without asking the store.
pub fn is_well_formed(kind: Kind, text: &str) -> bool {
    let prefix = kind.prefix();
    if text.len() != prefix.len() + BODY + CHECKSUM || !text.is_ascii() {
        return false;
    }
    let Some(rest) = text.strip_prefix(prefix) else {
        return false;
    };
    if !rest.bytes().all(|byte| ALPHABET.contains(&byte)) {
        return false;
    }
    let (said, given) = text.split_at(prefix.len() + BODY);
    let mut expected = Zeroizing::new(String::with_capacity(CHECKSUM));
    encode(&checksum(said), CHECKSUM, &mut expected);
    *expected == given
}

fn checksum(text: &str) -> [u8; 4] {
    let digest = Sha256::digest(text.as_bytes());
    [digest[0], digest[1], digest[2], digest[3]]
}

/// The first bits, five for each character; missing ones are zero.
fn encode(bytes: &[u8], characters: usize, text: &mut String) {
    let bit = |at: usize| {
        let byte = bytes.get(at / 8).copied().unwrap_or_default();
        usize::from((byte >> (7 - at % 8)) & 1)
    };
    for character in 0..characters {
        let first = character * 5;
        let digit = (first..first + 5).fold(0, |digit, at| (digit << 1) | bit(at));
        text.push(char::from(ALPHABET[digit]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_is_spelled_like_this() {
        let token = spell(Kind::Token, &[0xff; 32]);
        let body = format!("nac_{}g", "z".repeat(51));
        assert!(token.expose().starts_with(&body), "{}", token.expose());
        assert_eq!(token.expose().len(), 62);
    }

    #[test]
    fn a_new_one_is_well_formed_and_like_no_other() {
        for kind in [Kind::Token, Kind::Code, Kind::Browser, Kind::Share] {
            let (one, two) = (make(kind).unwrap(), make(kind).unwrap());
            assert_ne!(one, two);
            assert!(is_well_formed(kind, one.expose()));
            assert_eq!(format!("{one:?}"), "[secret]");
        }
    }

    #[test]
    fn one_of_another_kind_is_not_well_formed() {
        let code = make(Kind::Code).unwrap();
        assert!(!is_well_formed(Kind::Token, code.expose()));
        let renamed = code.expose().replace("nlc_", "nac_");
        assert!(!is_well_formed(Kind::Token, &renamed));
    }

    proptest! {
        #[test]
        fn a_mistake_in_one_character_is_seen(bytes: [u8; 32], at in 4usize..62, to in 0usize..32) {
            let token = spell(Kind::Token, &bytes);
            let mut changed = token.expose().to_owned();
            let to = char::from(ALPHABET[to]);
            changed.replace_range(at..=at, to.encode_utf8(&mut [0; 4]));
            prop_assume!(changed != token.expose());
            prop_assert!(!is_well_formed(Kind::Token, &changed));
        }

        #[test]
        fn hostile_text_is_refused_without_panic(text in "nac_\\PC{0,70}") {
            let _ = is_well_formed(Kind::Token, &text);
        }
    }
}
