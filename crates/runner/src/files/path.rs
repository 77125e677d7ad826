//! Paths as the host gives them.

use std::ffi::CString;

use wire::Raw;
use wire::guest::Failed;

use crate::failure::refused;

pub(super) const MAX_PATH: usize = 4096;

/// The path of a request: absolute, otherwise as usual.
pub(super) fn absolute(path: &Raw) -> Result<CString, Failed> {
    if !path.0.starts_with(b"/") {
        return Err(refused(format!("the path {path:?} is not absolute")));
    }
    if path.0.len() > MAX_PATH {
        return Err(refused("the path is too long"));
    }
    CString::new(path.0.clone())
        .map_err(|_| refused(format!("the path {path:?} contains a NUL byte")))
}

/// For messages.
pub(super) fn joined(top: &Raw, relative: &[u8]) -> Raw {
    match relative {
        [] => top.clone(),
        _ => Raw([top.0.as_slice(), b"/", relative].concat()),
    }
}

/// Where an entry goes, below the path of its request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// The path of the request itself.
    Top,
    Below {
        parent: &'a [u8],
        name: &'a [u8],
    },
}

impl<'a> Place<'a> {
    pub(super) fn new(path: &'a Raw) -> Result<Self, Failed> {
        let bytes = path.0.as_slice();
        if bytes.is_empty() {
            return Ok(Self::Top);
        }
        if bytes.len() > MAX_PATH {
            return Err(refused("the path of an entry is too long"));
        }
        if bytes.contains(&0) || bytes.split(|byte| *byte == b'/').any(is_no_name) {
            return Err(refused(format!(
                "{path:?} cannot be the path of an entry: it must lead down, plainly"
            )));
        }
        let (parent, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&bytes[..slash], &bytes[slash + 1..]),
            None => (&b""[..], bytes),
        };
        Ok(Self::Below { parent, name })
    }
}

/// Empty at the start means absolute, elsewhere a doubled or trailing slash.
fn is_no_name(component: &[u8]) -> bool {
    matches!(component, b"" | b"." | b"..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_lead_down() {
        let below = |parent: &'static str, name: &'static str| Place::Below {
            parent: parent.as_bytes(),
            name: name.as_bytes(),
        };
        assert_eq!(Place::new(&"".into()), Ok(Place::Top));
        assert_eq!(Place::new(&"a".into()), Ok(below("", "a")));
        assert_eq!(Place::new(&"a/b/..c".into()), Ok(below("a/b", "..c")));
        for path in [
            "/", "/a", "..", "a/..", "../a", "a//b", "a/", ".", "a/./b", "a\0b",
        ] {
            assert!(Place::new(&path.into()).is_err(), "{path:?}");
        }
        assert!(Place::new(&Raw(vec![b'a'; MAX_PATH + 1])).is_err());
    }

    proptest! {
        #[test]
        fn no_accepted_path_has_a_way_up(bytes in "[./a\0]{0,12}") {
            let raw = Raw(bytes.clone().into_bytes());
            if Place::new(&raw).is_ok() && !bytes.is_empty() {
                let plain = |part| matches!(part, std::path::Component::Normal(_));
                prop_assert!(raw.as_path().components().all(plain));
            }
        }
    }
}
