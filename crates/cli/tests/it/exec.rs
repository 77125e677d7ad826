//! Commands in a sandbox, and connections to it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;

use crate::world::{Running, World, eventually, text};

#[test]
fn a_command_brings_its_streams_and_its_code() {
    let world = World::new();
    let id = world.create(&[]);
    let ran = world.sh(&id, "echo out; echo err >&2; exit 7");
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (Some(7), "out\n", "err\n")
    );
    assert_eq!(world.sh(&id, "kill -TERM $$").code, Some(128 + 15));
    assert_eq!(world.sh(&id, "cat; echo end").stdout, "end\n");

    let ran = world.nacre.run([
        "sandbox",
        "exec",
        &id,
        "--cwd",
        "/usr",
        "--env",
        "A=b c",
        "--",
        "sh",
        "-c",
        "pwd; echo \"$A\"",
    ]);
    assert_eq!(ran.stdout, "/usr\nb c\n");
}

#[test]
fn a_command_past_its_time_limit_ends_with_124() {
    let world = World::new();
    let id = world.create(&[]);
    let begun = Instant::now();
    let ran = world.nacre.run([
        "--json",
        "sandbox",
        "exec",
        &id,
        "--timeout",
        "300ms",
        "--",
        "sleep",
        "60",
    ]);
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(ran.code, Some(124), "{}", ran.transcript());
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(error["error"]["code"], "time_limit");
}

#[test]
fn standard_input_is_forwarded_only_when_asked() {
    let world = World::new();
    let id = world.create(&[]);
    let with = |flags: &[&str]| {
        let mut command = world
            .nacre
            .command([&["sandbox", "exec", &id], flags, &["--", "cat"]].concat());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Without -i nobody reads it, and the pipe may be closed before this.
        let _ = child.stdin.take().unwrap().write_all(b"typed");
        let output = child.wait_with_output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    assert_eq!(with(&["-i"]), (Some(0), "typed".to_owned()));
    assert_eq!(with(&[]), (Some(0), String::new()));
}

#[test]
fn an_interrupted_exec_takes_its_command_along() {
    let world = World::new();
    let id = world.create(&[]);
    let mut child = world.nacre.command([
        "sandbox",
        "exec",
        &id,
        "--",
        "sh",
        "-c",
        "echo up; sleep 4242",
    ]);
    let mut child = Running(child.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "up\n");
    let pid = Pid::from_child(&child.0);
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    // The brackets keep the search from finding itself.
    let still = "grep -lsz '^424[2]$' /proc/[0-9]*/cmdline | wc -l";
    eventually("the command ended", || world.says(&id, still) == "0");
}

#[test]
fn a_reader_that_goes_ends_a_command_quietly() {
    let world = World::new();
    let id = world.create(&[]);
    let mut command = world.nacre.command(["sandbox", "exec", &id, "--", "yes"]);
    let mut child = Running(
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut first = [0; 2];
    child
        .0
        .stdout
        .take()
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    assert_eq!(&first, b"y\n");
    let mut said = String::new();
    child
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(
        (child.0.wait().unwrap().code(), said.as_str()),
        (Some(128 + 13), "")
    );
}

#[test]
fn a_detached_command_outlives_its_caller() {
    let world = World::new();
    let id = world.create(&[]);
    let script = "sleep 0.3; echo done > /tmp/detached";
    let started = world.ok(&["sandbox", "exec", &id, "--detach", "--", "sh", "-c", script]);
    assert!(
        started["pid"].as_i64().is_some_and(|pid| pid > 1),
        "{started}"
    );
    eventually("the detached command wrote", || {
        world.sh(&id, "test -s /tmp/detached").code == Some(0)
    });
}

#[test]
fn a_port_is_forwarded_until_told_to_stop() {
    let world = World::new();
    let id = world.create(&[]);
    let server = "import socket\ns = socket.create_server(('127.0.0.1', 8000))\nwhile True:\n c, _ = s.accept()\n c.sendall(b'served')\n c.close()";
    world.ok(&[
        "sandbox", "exec", &id, "--detach", "--", "python3", "-c", server,
    ]);
    let mut command = world
        .nacre
        .command(["--json", "sandbox", "port", &id, "8000"]);
    let mut child = Running(
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let listening: Value = serde_json::from_str(&line).unwrap();
    let address = text(&listening["listening"]);
    eventually("the port answered", || {
        let mut answer = String::new();
        let read =
            TcpStream::connect(&address).and_then(|mut stream| stream.read_to_string(&mut answer));
        read.is_ok() && answer == "served"
    });
    let pid = Pid::from_child(&child.0);
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_terminal_is_given_followed_and_put_back() {
    let world = World::new();
    let id = world.create(&[]);
    let mut terminal = Terminal::open(33, 101);
    let before = terminal.settings();
    let mut command = world.nacre.command([
        "sandbox",
        "exec",
        "-it",
        &id,
        "--",
        "sh",
        "-c",
        "stty size; read line; stty size; echo got $line; exit 3",
    ]);
    let mut child = Running(
        command
            .stdin(terminal.end())
            .stdout(terminal.end())
            .stderr(terminal.end())
            .spawn()
            .unwrap(),
    );
    terminal.shows("33 101");
    assert_ne!(
        terminal.settings(),
        before,
        "keys are passed on as they are typed"
    );
    terminal.resize(44, 55);
    rustix::process::kill_process(Pid::from_child(&child.0), Signal::WINCH).unwrap();
    // The new size has to arrive before the line that asks for it.
    eventually("the new size arrived", || {
        world.says(&id, TERMINAL_SIZES).contains("44 55")
    });
    terminal.types(b"typed\r");
    terminal.shows("44 55");
    terminal.shows("got typed");
    assert_eq!(child.0.wait().unwrap().code(), Some(3));
    assert_eq!(terminal.settings(), before);
}

#[test]
fn a_terminal_is_put_back_when_a_signal_ends_us() {
    let world = World::new();
    let id = world.create(&[]);
    let mut terminal = Terminal::open(24, 80);
    let before = terminal.settings();
    let mut command = world.nacre.command([
        "sandbox",
        "exec",
        "-it",
        &id,
        "--",
        "sh",
        "-c",
        "echo up; sleep 60",
    ]);
    let mut child = Running(
        command
            .stdin(terminal.end())
            .stdout(terminal.end())
            .stderr(terminal.end())
            .spawn()
            .unwrap(),
    );
    terminal.shows("up");
    rustix::process::kill_process(Pid::from_child(&child.0), Signal::TERM).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(128 + 15));
    assert_eq!(terminal.settings(), before);
}

/// The size of every terminal in the sandbox.
const TERMINAL_SIZES: &str = "for t in /dev/pts/[0-9]*; do stty size < $t; done";

/// A terminal of the test's own, seen from the side of the person at it.
pub(crate) struct Terminal {
    person: std::fs::File,
    program: OwnedFd,
    seen: String,
    /// What was looked at already.
    before: String,
}

impl Terminal {
    pub(crate) fn open(rows: u16, columns: u16) -> Self {
        let person =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let path = ptsname(&person, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let program = rustix::fs::open(&*path, flags, Mode::empty()).unwrap();
        let terminal = Self {
            person: person.into(),
            program,
            seen: String::new(),
            before: String::new(),
        };
        terminal.resize(rows, columns);
        terminal
    }

    pub(crate) fn end(&self) -> OwnedFd {
        self.program.try_clone().unwrap()
    }

    fn resize(&self, rows: u16, columns: u16) {
        tcsetwinsize(
            &self.program,
            Winsize {
                ws_row: rows,
                ws_col: columns,
                ws_xpixel: 0,
                ws_ypixel: 0,
            },
        )
        .unwrap();
    }

    fn settings(&self) -> String {
        format!("{:?}", tcgetattr(&self.program).unwrap())
    }

    pub(crate) fn types(&self, keys: &[u8]) {
        (&self.person).write_all(keys).unwrap();
    }

    /// All that was read so far.
    pub(crate) fn all(&self) -> String {
        format!("{}{}", self.before, self.seen)
    }

    /// Reads until this has appeared since the last time.
    pub(crate) fn shows(&mut self, expected: &str) {
        let begun = Instant::now();
        let mut piece = [0; 1024];
        loop {
            if let Some(at) = self.seen.find(expected) {
                self.before.extend(self.seen.drain(..at + expected.len()));
                return;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "no {expected:?} in {:?}",
                self.seen
            );
            let mut ready = [PollFd::new(&self.person, PollFlags::IN)];
            let a_moment = Timespec {
                tv_sec: 0,
                tv_nsec: 100_000_000,
            };
            if poll(&mut ready, Some(&a_moment)).unwrap() > 0 {
                let length = (&self.person).read(&mut piece).unwrap();
                self.seen
                    .push_str(&String::from_utf8_lossy(&piece[..length]));
            }
        }
    }
}
