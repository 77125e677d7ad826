//! Archives written by hand, so that they may be ones that no program would write.

use std::io::Cursor;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use camino_tempfile::Utf8TempDir;
use nacre_portable::tar::Limits;
use nacre_portable::{Control, Rules, Unpacked, unpack};

pub(crate) const LIMITS: Limits = Limits {
    entries: 10_000,
    path: 4096,
    depth: 64,
    extension: 64 << 10,
    bytes: 1 << 30,
};

#[derive(Clone)]
pub(crate) struct Forged(Vec<u8>);

impl Forged {
    /// With the root that every layer begins with.
    pub(crate) fn new() -> Self {
        Self(Vec::new()).directory("./")
    }

    pub(crate) fn file(self, path: &str, content: &[u8]) -> Self {
        self.entry(b'0', path, "", content.len() as u64, 0o644, content)
    }

    pub(crate) fn directory(self, path: &str) -> Self {
        self.entry(b'5', path, "", 0, 0o755, b"")
    }

    pub(crate) fn symbolic_link(self, path: &str, target: &str) -> Self {
        self.entry(b'2', path, target, 0, 0o777, b"")
    }

    pub(crate) fn hard_link(self, path: &str, target: &str) -> Self {
        self.entry(b'1', path, target, 0, 0o644, b"")
    }

    pub(crate) fn kind(self, kind: u8, path: &str) -> Self {
        self.entry(kind, path, "", 0, 0o644, b"")
    }

    pub(crate) fn mode(self, path: &str, mode: u32) -> Self {
        self.entry(b'0', path, "", 0, mode, b"")
    }

    /// A file that says it is this large, and then is not there.
    pub(crate) fn promise(self, kind: u8, path: &str, size: u64) -> Self {
        self.entry(kind, path, "", size, 0o644, b"")
    }

    /// PAX records for the next entry.
    pub(crate) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let mut text = Vec::new();
        for (key, value) in records {
            let mut length = key.len() + value.len() + 3;
            while length != key.len() + value.len() + 3 + length.to_string().len() {
                length = key.len() + value.len() + 3 + length.to_string().len();
            }
            text.extend_from_slice(format!("{length} {key}=").as_bytes());
            text.extend_from_slice(value);
            text.push(b'\n');
        }
        self.raw_pax(&text)
    }

    pub(crate) fn raw_pax(self, text: &[u8]) -> Self {
        self.entry(b'x', "pax", "", text.len() as u64, 0o644, text)
    }

    pub(crate) fn bytes(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }

    /// Without the end that every archive has.
    pub(crate) fn cut(self, length: usize) -> Vec<u8> {
        self.0[..self.0.len() - length].to_vec()
    }

    pub(crate) fn entry(
        mut self,
        kind: u8,
        path: &str,
        link: &str,
        size: u64,
        mode: u32,
        content: &[u8],
    ) -> Self {
        let mut header = [0u8; 512];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &path.as_bytes()[..path.len().min(100)]);
        put(100, format!("{mode:07o}\0").as_bytes());
        put(108, b"0000000\x000000000\x00");
        // In the binary form, which has room for any size.
        put(124, &[0x80, 0, 0, 0]);
        put(128, &size.to_be_bytes());
        put(136, b"00000000000\x00        ");
        put(156, &[kind]);
        put(157, link.as_bytes());
        put(257, b"ustar\x0000");
        put(329, b"0000001\x000000003\x00");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(content);
        let end = self.0.len().next_multiple_of(512);
        self.0.resize(end, 0);
        self
    }
}

/// A directory to unpack into, with another beside it that nothing may reach.
pub(crate) struct Ground {
    pub(crate) temp: Utf8TempDir,
}

impl Ground {
    pub(crate) fn new() -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "layers are unpacked as root"
        );
        let temp = Utf8TempDir::with_prefix("nacre-portable-").unwrap();
        fs_err::create_dir(temp.path().join("layer")).unwrap();
        fs_err::create_dir(temp.path().join("outside")).unwrap();
        fs_err::write(temp.path().join("outside/file"), "untouched").unwrap();
        Self { temp }
    }

    pub(crate) fn root(&self) -> OwnedFd {
        fs_err::File::open(self.temp.path().join("layer"))
            .unwrap()
            .into_file()
            .into()
    }

    pub(crate) fn unpack(&self, tar: &[u8], rules: Rules) -> std::io::Result<Unpacked> {
        let control = Control::default();
        unpack(
            Cursor::new(tar),
            self.root(),
            rules,
            LIMITS,
            &control,
            &mut (),
        )
    }
}

/// What is said of a layer that is refused. Nothing beside its own directory may have changed.
pub(crate) fn refusal(tar: &[u8]) -> String {
    let ground = Ground::new();
    let error = ground
        .unpack(tar, Rules::Layer)
        .expect_err("it must be refused");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{error}");
    let outside = ground.temp.path().join("outside");
    let names: Vec<_> = outside.read_dir_utf8().unwrap().collect();
    assert_eq!(names.len(), 1, "something was made outside");
    let file = fs_err::metadata(outside.join("file")).unwrap();
    assert_eq!(
        (file.nlink(), file.permissions().mode() & 0o7777),
        (1, 0o644)
    );
    assert_eq!(
        fs_err::read_to_string(outside.join("file")).unwrap(),
        "untouched"
    );
    error.to_string()
}
