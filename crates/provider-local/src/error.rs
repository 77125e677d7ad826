//! From what the kernel says to what a caller can do.

use std::io;

use provider::ProviderError;
use rustix::io::Errno;

/// Names the step that failed.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, ProviderError>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Into<String>) -> Result<T, ProviderError> {
        self.map_err(|error| classify(what.into(), error.into()))
    }
}

pub(crate) fn classify(what: String, error: io::Error) -> ProviderError {
    // fs_err keeps the kernel's number in its source.
    let number = error.raw_os_error().or_else(|| {
        error
            .get_ref()
            .and_then(std::error::Error::source)?
            .downcast_ref::<io::Error>()?
            .raw_os_error()
    });
    let next_step = match number.map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT) => {
            "the disk is full: free some space, or run `nacre storage gc`"
        }
        Some(Errno::ROFS) => {
            "the file system is read-only: set NACRE_HOME to a directory that can be written"
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            "not allowed: nacre runs sandboxes as root; try sudo, and `nacre doctor`"
        }
        Some(Errno::NOSYS | Errno::OPNOTSUPP) => {
            "this kernel lacks something: `nacre doctor` says what"
        }
        Some(Errno::BUSY) if what.contains("cgroup") => {
            "this cgroup has processes of its own and cannot be divided: run nacre at the root of the cgroup tree, or in a group delegated to it"
        }
        Some(Errno::NOTDIR) => "something on the way is not a directory; look at NACRE_HOME",
        // What we found is not what it should be; asking again will not change it.
        None if error.kind() == io::ErrorKind::InvalidData => {
            return ProviderError::refused(format!("{what} failed: {error}"));
        }
        _ => return ProviderError::unavailable(what, error),
    };
    ProviderError::refused(format!("{what} failed: {next_step} ({error})"))
}
