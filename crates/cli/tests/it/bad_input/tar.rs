/// A tar, written by hand so that it may be one that no tool would write.
pub(super) struct Tar(Vec<u8>);

impl Tar {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn file(self, path: &str, content: &str) -> Self {
        self.entry(b'0', path, "", content.len() as u64, content.as_bytes())
    }

    pub(super) fn directory(self, path: &str) -> Self {
        self.entry(b'5', path, "", 0, b"")
    }

    pub(super) fn symbolic_link(self, path: &str, target: &str) -> Self {
        self.entry(b'2', path, target, 0, b"")
    }

    pub(super) fn hard_link(self, path: &str, target: &str) -> Self {
        self.entry(b'1', path, target, 0, b"")
    }

    pub(super) fn device(self, path: &str) -> Self {
        self.entry(b'3', path, "", 0, b"")
    }

    /// A file that says it is this large, and then is not there.
    pub(super) fn promise(self, path: &str, size: u64) -> Self {
        self.entry(b'0', path, "", size, b"")
    }

    pub(super) fn bytes(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }

    fn entry(mut self, kind: u8, path: &str, link: &str, size: u64, content: &[u8]) -> Self {
        if path.len() > 100 {
            let long = format!("{path}\0");
            let length = long.len() as u64;
            self = self.entry(b'L', "././@LongLink", "", length, long.as_bytes());
        }
        let mut header = [0u8; 512];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &path.as_bytes()[..path.len().min(100)]);
        put(100, b"0000755\x000000000\x000000000\x00");
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
