//! What a sandbox must never reach.

/// A directory on the machine that runs the suite.
pub(super) struct HostDirectory(std::path::PathBuf);

impl HostDirectory {
    pub(super) const SECRET: &[u8] = b"of the host, and nobody else's";

    pub(super) fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(name);
        fs_err::create_dir_all(&directory).expect("a temporary directory");
        fs_err::write(directory.join("secret"), Self::SECRET).expect("a file in it");
        Self(directory)
    }

    pub(super) fn path(&self) -> String {
        self.0
            .to_str()
            .expect("temporary directories have plain names")
            .to_owned()
    }

    pub(super) fn is_untouched(&self) {
        let names = fs_err::read_dir(&self.0).expect("it is there").count();
        assert_eq!(names, 1, "something was written on the host");
        let secret = fs_err::read(self.0.join("secret")).expect("it is there");
        assert_eq!(secret, Self::SECRET);
    }
}

impl Drop for HostDirectory {
    fn drop(&mut self) {
        let _ = fs_err::remove_dir_all(&self.0);
    }
}
