//! A runner under test, with and without a cgroup.

use std::io::Read as _;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use camino_tempfile::Utf8TempDir;
use rustix::io::fcntl_dupfd_cloexec;
use wire::guest::{
    CGROUP_FD, CONFIG_FD, Config, Exec, Exited, LISTEN_FD, READY_FD, Reply, Request,
};
use wire::{Channel, Frame, Raw};

pub(crate) struct Runner {
    child: Child,
    directory: Utf8TempDir,
    cgroup: Option<Cgroup>,
}

impl Runner {
    /// In a cgroup where the machine has one.
    pub(crate) fn start() -> Self {
        Self::launch(Cgroup::make())
    }

    pub(crate) fn start_without_cgroup() -> Self {
        Self::launch(None)
    }

    #[expect(
        unsafe_code,
        reason = "descriptors are put in place between fork and exec"
    )]
    fn launch(cgroup: Option<Cgroup>) -> Self {
        let directory = camino_tempfile::tempdir().unwrap();
        let config = Config {
            sandbox: "sandbox-1".to_owned(),
            generation: 3,
            boot: "boot-1".to_owned(),
            env: vec![
                ("FROM_CONFIG".into(), "yes".into()),
                ("BOTH".into(), "config".into()),
            ],
            listen: None,
            scaffold: Vec::new(),
            workplace: None,
        };
        let path = directory.path().join("config");
        fs_err::write(&path, serde_json::to_vec(&config).unwrap()).unwrap();
        let config = fs_err::File::open(&path).unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let (mut ready, readiness) = std::io::pipe().unwrap();
        // Out of the way of the numbers they will have.
        let high = |fd: &dyn AsFd| -> OwnedFd { fcntl_dupfd_cloexec(fd.as_fd(), 20).unwrap() };
        let mut handed = vec![
            (high(&config), CONFIG_FD),
            (high(&listener), LISTEN_FD),
            (high(&readiness), READY_FD),
        ];
        drop(readiness);
        if let Some(cgroup) = &cgroup {
            handed.push((high(&fs_err::File::open(&cgroup.path).unwrap()), CGROUP_FD));
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_nacre-runner"));
        let numbers: Vec<(i32, i32)> = handed
            .iter()
            .map(|(fd, number)| (fd.as_raw_fd(), *number))
            .collect();
        let absent = cgroup.is_none();
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
        let child = command.spawn().unwrap();
        drop(handed);
        let mut byte = [0];
        ready
            .read_exact(&mut byte)
            .expect("the runner says that it is ready");
        Self {
            child,
            directory,
            cgroup,
        }
    }

    pub(crate) fn has_cgroup(&self) -> bool {
        self.cgroup.is_some()
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The directories of operations.
    pub(crate) fn groups(&self) -> Vec<Utf8PathBuf> {
        self.cgroup
            .as_ref()
            .map(Cgroup::children)
            .unwrap_or_default()
    }

    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.directory.path().join("socket")).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream
    }

    pub(crate) fn request(&self, request: &Request) -> UnixStream {
        let mut stream = self.connect();
        Frame::control(request).write(&mut stream).unwrap();
        stream
    }

    pub(crate) fn exec(&self, exec: Exec) -> Session {
        Session {
            stream: self.request(&Request::Exec(exec)),
        }
    }

    pub(crate) fn sh(&self, script: &str) -> Session {
        self.exec(sh(script))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn argv(argv: &[&str]) -> Exec {
    Exec {
        argv: argv.iter().map(|argument| Raw::from(*argument)).collect(),
        cwd: Some("/".into()),
        env: Vec::new(),
        user: None,
        pty: None,
        timeout_ms: None,
        detach: false,
    }
}

pub(crate) fn sh(script: &str) -> Exec {
    argv(&["sh", "-c", script])
}

pub(crate) struct Session {
    pub(crate) stream: UnixStream,
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) exited: Exited,
}

impl Outcome {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }
}

impl Session {
    pub(crate) fn reply(&mut self) -> Reply {
        Frame::read(&mut self.stream)
            .unwrap()
            .expect("a reply")
            .message()
            .unwrap()
    }

    pub(crate) fn started(&mut self) -> i32 {
        match self.reply() {
            Reply::Started { pid } => pid,
            other => panic!("not started: {other:?}"),
        }
    }

    pub(crate) fn failed(&mut self) -> wire::guest::Failed {
        match self.reply() {
            Reply::Failed(failed) => failed,
            other => panic!("not failed: {other:?}"),
        }
    }

    pub(crate) fn input(&mut self, bytes: &[u8]) {
        Frame {
            channel: Channel::Stdin,
            payload: bytes.to_vec(),
        }
        .write(&mut self.stream)
        .unwrap();
    }

    pub(crate) fn say(&mut self, input: &wire::guest::Input) {
        Frame::control(input).write(&mut self.stream).unwrap();
    }

    /// Reads standard output until it holds `text`.
    pub(crate) fn read_until(&mut self, text: &str) -> String {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(text) {
            let frame = Frame::read(&mut self.stream).unwrap().expect("more output");
            assert_eq!(
                frame.channel,
                Channel::Stdout,
                "{:?}",
                String::from_utf8_lossy(&frame.payload)
            );
            seen.extend(frame.payload);
        }
        String::from_utf8(seen).unwrap()
    }

    /// After `Started`.
    pub(crate) fn finish(&mut self) -> Outcome {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            let frame = Frame::read(&mut self.stream)
                .unwrap()
                .expect("not closed before the end");
            assert!(frame.payload.len() <= 64 << 10);
            match frame.channel {
                Channel::Stdout => stdout.extend(frame.payload),
                Channel::Stderr => stderr.extend(frame.payload),
                _ => match frame.message().unwrap() {
                    Reply::Exited(exited) => {
                        return Outcome {
                            stdout,
                            stderr,
                            exited,
                        };
                    }
                    other => panic!("unexpected: {other:?}"),
                },
            }
        }
    }

    pub(crate) fn outcome(mut self) -> Outcome {
        self.started();
        self.finish()
    }
}

/// Waits for something observable.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "never came: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn is_alive(pid: i32) -> bool {
    let Ok(stat) = fs_err::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    !stat
        .rsplit(')')
        .next()
        .is_some_and(|rest| rest.starts_with(" Z"))
}

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
        let path = Utf8PathBuf::from(format!(
            "{root}/nacre-runner-it-{}-{number}",
            std::process::id()
        ));
        std::fs::create_dir(&path).ok()?;
        Some(Self { path })
    }

    fn children(&self) -> Vec<Utf8PathBuf> {
        let entries = self.path.read_dir_utf8().unwrap().flatten();
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
