//! A real `nacre-runner` outside a sandbox, for a test that is its host, or that has the conversation
//! with it that its workplace would have.

use std::io::{IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use camino::Utf8PathBuf;
use camino_tempfile::Utf8TempDir;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use wire::guest::{CGROUP_FD, CONFIG_FD, Config, LISTEN_FD, READY_FD, WORKPLACE_FD};
use wire::workplace::Order;

use crate::program_path;

/// Ends with everything it started.
#[derive(Debug)]
pub struct PidOne {
    child: Child,
    /// Dropped after the child is gone.
    cgroup: Option<Cgroup>,
    directory: Utf8TempDir,
}

impl PidOne {
    /// Starts it, in a cgroup where the machine has one. What comes with it is for
    /// `workplace::hands::Hands::take`.
    pub fn start() -> (Self, OwnedFd) {
        Self::start_in(Cgroup::make())
    }

    /// As in gVisor.
    pub fn start_without_cgroup() -> (Self, OwnedFd) {
        Self::start_in(None)
    }

    /// With a workplace or without one, as the configuration says; in a cgroup where the machine has
    /// one.
    pub fn of(config: &Config) -> Self {
        Self::launch(place(), config, Cgroup::make())
    }

    pub fn of_without_cgroup(config: &Config) -> Self {
        Self::launch(place(), config, None)
    }

    fn start_in(cgroup: Option<Cgroup>) -> (Self, OwnedFd) {
        let directory = place();
        let lending = directory.path().join("lend");
        let borrowing = UnixListener::bind(&lending).expect("a socket to borrow at");
        let config = Config {
            sandbox: "sandbox-1".to_owned(),
            generation: 1,
            boot: "boot-1".to_owned(),
            env: vec![("FROM_SANDBOX".into(), "yes".into())],
            listen: None,
            scaffold: Vec::new(),
            workplace: Some(Order {
                sandbox: "sandbox-1".to_owned(),
                generation: 1,
                boot: "boot-1".to_owned(),
                session: Some(lending.into_string()),
                link: None,
                secret: None,
                journal_key: None,
            }),
        };
        let this = Self::launch(directory, &config, cgroup);
        let conversation = borrow(&borrowing);
        (this, conversation)
    }

    fn launch(directory: Utf8TempDir, config: &Config, cgroup: Option<Cgroup>) -> Self {
        let text = serde_json::to_vec(config).expect("our own types serialise");
        fs_err::write(directory.path().join("config"), text).expect("a configuration");
        let child = launch(&directory, config.workplace.is_some(), cgroup.as_ref());
        Self {
            child,
            cgroup,
            directory,
        }
    }

    pub fn has_cgroup(&self) -> bool {
        self.cgroup.is_some()
    }

    /// Where a host would connect.
    pub fn socket(&self) -> Utf8PathBuf {
        self.directory.path().join("socket")
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("the kernel's numbers are small")
    }

    /// Until it has ended.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("it is our child")
    }

    /// The cgroups of what it runs now.
    pub fn groups(&self) -> Vec<Utf8PathBuf> {
        let groups = self.cgroup.as_ref().map(Cgroup::children);
        groups.unwrap_or_default()
    }
}

fn place() -> Utf8TempDir {
    camino_tempfile::tempdir().expect("a directory for the runner")
}

impl Drop for PidOne {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(
    unsafe_code,
    reason = "descriptors are put in place between fork and exec"
)]
fn launch(directory: &Utf8TempDir, has_workplace: bool, cgroup: Option<&Cgroup>) -> Child {
    let config = fs_err::File::open(directory.path().join("config")).expect("it was written");
    let listener = UnixListener::bind(directory.path().join("socket")).expect("a socket");
    let (mut ready, readiness) = std::io::pipe().expect("a pipe");
    // Out of the way of the numbers they will have.
    let high = |fd: &dyn AsFd| fcntl_dupfd_cloexec(fd.as_fd(), 20).expect("a descriptor");
    let mut handed = vec![
        (high(&config), CONFIG_FD),
        (high(&listener), LISTEN_FD),
        (high(&readiness), READY_FD),
    ];
    drop(readiness);
    if has_workplace {
        let lender = program_path("nacre-lender").expect("built by `cargo build -p nacre-testkit`");
        let lender = fs_err::File::open(lender).expect("it is there");
        handed.push((high(&lender), WORKPLACE_FD));
    }
    if let Some(cgroup) = cgroup {
        let directory = fs_err::File::open(&cgroup.path).expect("it was made");
        handed.push((high(&directory), CGROUP_FD));
    }
    let numbers: Vec<(i32, i32)> = handed
        .iter()
        .map(|(fd, number)| (fd.as_raw_fd(), *number))
        .collect();
    let absent = cgroup.is_none();
    let runner = program_path("nacre-runner").expect("built by `cargo build -p nacre-runner`");
    let mut command = Command::new(runner);
    // SAFETY: dup2 and close are async-signal-safe, and nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            for (fd, number) in &numbers {
                if libc::dup2(*fd, *number) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            if absent {
                libc::close(CGROUP_FD);
            }
            Ok(())
        });
    }
    let child = command.spawn().expect("the runner starts");
    drop(handed);
    ready
        .read_exact(&mut [0])
        .expect("the runner says that it is ready");
    child
}

fn borrow(listener: &UnixListener) -> OwnedFd {
    let (lender, _) = listener.accept().expect("the lender comes");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(
        &lender,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )
    .expect("the lender lends");
    control
        .drain()
        .find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut passed) => passed.next(),
            _ => None,
        })
        .expect("the lender lends a descriptor")
}

#[derive(Debug)]
struct Cgroup {
    path: Utf8PathBuf,
}

impl Cgroup {
    fn make() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
            .into_iter()
            .find(|root| std::path::Path::new(root).join("cgroup.procs").exists())?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nacre-pid-one-{}-{number}", std::process::id());
        let path = Utf8PathBuf::from(root).join(name);
        fs_err::create_dir(&path).ok()?;
        Some(Self { path })
    }

    fn children(&self) -> Vec<Utf8PathBuf> {
        let entries = self.path.read_dir_utf8().into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(camino::Utf8DirEntry::into_path)
            .collect()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs_err::write(self.path.join("cgroup.kill"), "1");
        for _ in 0..1000 {
            for child in self.children() {
                let _ = fs_err::remove_dir(child);
            }
            if fs_err::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
