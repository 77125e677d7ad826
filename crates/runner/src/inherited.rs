//! What the keeper left open for us.

use std::io::{self, Read as _};
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;

use rustix::fs::{FileType, fstat, fstatfs};
use rustix::io::{FdFlags, fcntl_setfd};
use wire::MAX_CONTROL;
use wire::guest::{CGROUP_FD, CONFIG_FD, Config, LISTEN_FD, READY_FD, WORKPLACE_FD};

const CGROUP2_MAGIC: i64 = 0x6367_7270;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("descriptor {fd} ({what}) was not handed over: {source}")]
    Missing {
        fd: i32,
        what: &'static str,
        source: io::Error,
    },
    #[error("the configuration cannot be read: {0}")]
    Config(io::Error),
    #[error("the configuration makes no sense: {0}")]
    Malformed(serde_json::Error),
    #[error("cannot listen at {path}: {source}")]
    Listen { path: String, source: io::Error },
    #[error("/dev/null cannot be used: {0}")]
    Null(io::Error),
    #[error("cannot get ready to serve: {0}")]
    Setup(#[from] io::Error),
}

#[derive(Debug)]
pub(crate) struct Inherited {
    pub(crate) config: Config,
    pub(crate) listener: UnixListener,
    /// The sandbox's cgroup, when there is one.
    pub(crate) cgroup: Option<OwnedFd>,
    pub(crate) ready: Option<OwnedFd>,
    /// The program of the workplace, when there is one.
    pub(crate) workplace: Option<OwnedFd>,
}

impl Inherited {
    /// Must come before anything else opens a descriptor: the numbers could be taken otherwise.
    pub(crate) fn take() -> Result<Self, StartError> {
        let config = claim(CONFIG_FD);
        let listener = claim(LISTEN_FD);
        let cgroup = claim(CGROUP_FD).ok().filter(is_cgroup);
        let ready = claim(READY_FD).ok();
        let workplace = claim(WORKPLACE_FD).ok();
        close_the_rest();

        let missing = |fd, what| move |source| StartError::Missing { fd, what, source };
        let config = config.map_err(missing(CONFIG_FD, "the configuration"))?;
        let config = read_config(config)?;
        let listener = match &config.listen {
            Some(path) => UnixListener::bind(path).map_err(|source| StartError::Listen {
                path: path.clone(),
                source,
            })?,
            None => listener
                .map_err(missing(LISTEN_FD, "the listening socket"))?
                .into(),
        };
        for directory in &config.scaffold {
            // It fails only on what is not an empty directory, and that is not ours.
            let _ = std::fs::remove_dir(directory);
        }
        Ok(Self {
            config,
            listener,
            cgroup,
            ready,
            workplace,
        })
    }
}

fn read_config(file: OwnedFd) -> Result<Config, StartError> {
    let mut text = Vec::new();
    std::fs::File::from(file)
        .take(MAX_CONTROL as u64)
        .read_to_end(&mut text)
        .map_err(StartError::Config)?;
    let mut config: Config = serde_json::from_slice(&text).map_err(StartError::Malformed)?;
    if config.workplace.is_some() {
        // First: whoever gives one of their own means it.
        let display = ("DISPLAY".into(), wire::workplace::DISPLAY.into());
        config.env.insert(0, display);
    }
    Ok(config)
}

fn is_cgroup(fd: &OwnedFd) -> bool {
    fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
        && fstatfs(fd).is_ok_and(|stat| stat.f_type == CGROUP2_MAGIC)
}

#[expect(
    unsafe_code,
    reason = "descriptors that come by number have no owner yet"
)]
fn claim(fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: only borrowed to ask whether it is open; EBADF is the answer if it is not.
    fcntl_setfd(unsafe { BorrowedFd::borrow_raw(fd) }, FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and called once per number before anything else opens descriptors, so
    // nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A descriptor leaked into us would be one leaked into the sandbox.
#[expect(unsafe_code, reason = "rustix has no close_range")]
fn close_the_rest() {
    // SAFETY: nothing in this process owns a descriptor above the inherited ones yet.
    unsafe { libc::syscall(libc::SYS_close_range, WORKPLACE_FD + 1, u32::MAX, 0) };
}
