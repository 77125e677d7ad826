use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// One entry of a tree, as far as a snapshot must keep it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestLine {
    /// Below the path asked for, escaped; `.` for that path itself.
    pub path: String,
    pub kind: LineKind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Zero for a directory: file systems differ.
    pub size: u64,
    /// Of a file's content or a link's target.
    pub hash: Option<String>,
    /// At least half of it has no blocks. Never for a small file: file systems differ there.
    pub sparse: bool,
    /// One for a directory: file systems differ.
    pub links: u64,
    /// The first path, in this manifest's order, that is the same file.
    pub same_as: Option<String>,
    /// `user.*` and `security.capability`, values in hexadecimal.
    pub xattrs: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    Other,
}

/// Below this size nothing counts as sparse.
const SMALLEST_SPARSE: u64 = 64 << 10;

impl ManifestLine {
    pub fn is_sparse(size: u64, allocated: u64) -> bool {
        size >= SMALLEST_SPARSE && allocated < size / 2
    }

    pub fn wants_xattr(name: &str) -> bool {
        name.starts_with("user.") || name == super::CAPABILITY_XATTR
    }
}

/// JSON lines.
pub fn print(lines: &[ManifestLine]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&serde_json::to_string(line).expect("plain fields serialise"));
        text.push('\n');
    }
    text
}

/// Printable ASCII as it is, except the backslash; every other byte as `\xNN`.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if (byte.is_ascii_graphic() || *byte == b' ') && *byte != b'\\' {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The hash of some content that comes in pieces.
pub fn hash<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = blake3::Hasher::new();
    for piece in pieces {
        hasher.update(piece);
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_bytes_in_a_path_are_escaped_and_no_two_paths_look_alike() {
        assert_eq!(escape(b"a b\n\xff\\x"), "a b\\x0a\\xff\\x5cx");
    }
}
