//! A runner under test, with and without a cgroup.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use testkit::PidOne;
use wire::guest::{Config, Exec, Exited, Reply, Request};
use wire::{Channel, Frame, Raw};

pub(crate) struct Runner(PidOne);

impl Runner {
    /// In a cgroup where the machine has one.
    pub(crate) fn start() -> Self {
        Self(PidOne::of(&config()))
    }

    pub(crate) fn start_without_cgroup() -> Self {
        Self(PidOne::of_without_cgroup(&config()))
    }

    pub(crate) fn has_cgroup(&self) -> bool {
        self.0.has_cgroup()
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.pid()
    }

    /// The directories of operations.
    pub(crate) fn groups(&self) -> Vec<Utf8PathBuf> {
        self.0.groups()
    }

    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        self.0.wait()
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.0.socket()).unwrap();
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

fn config() -> Config {
    Config {
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
