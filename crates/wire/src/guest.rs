//! Host to runner: one connection per operation, opened by the host on a socket that only it can
//! reach. The first frame is a [`Request`]; what follows depends on it.
//!
//! ```text
//! exec    host   Exec · Stdin* · Stdin(empty) = end of input · Input::{Resize, Signal}*
//!         runner Started · (Stdout | Stderr)* · Exited        or Failed
//! read    runner (Entry · Data* · EndOfEntry)* · Done          or Failed
//! write   host   (Entry · Data* · EndOfEntry)* · Done
//!         runner Done                                           or Failed
//! whole   as exec
//! below   host   (Data* · EndOfEntry) for a write, else nothing
//!         runner (Listed* | Listed · Data* | as read) · Done    or Failed
//! hello   runner Hello
//! ```
//!
//! Closing the connection ends the operation: an exec that is not detached is killed with
//! everything it started.

use serde::{Deserialize, Serialize};

use crate::{Raw, workplace};

/// Raised when a change cannot be understood by the other side; both settle on the lower.
pub const PROTOCOL: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    Hello,
    Exec(Exec),
    /// Everything below `path`, or the one file it names.
    Read {
        path: Raw,
        user: Option<String>,
    },
    /// Entries that follow are written below `path`, which is made if need be.
    Write {
        path: Raw,
        user: Option<String>,
    },
    /// As `Exec`, but what it leaves behind is ended with it.
    Whole(Exec),
    Below(Below),
}

/// One thing done below a directory, with every path relative to it and through no link at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Below {
    /// Absolute; itself no link.
    pub root: Raw,
    #[serde(default)]
    pub user: Option<String>,
    pub work: Work,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// What is in a directory, at most `limit` of it.
    List {
        path: Raw,
        limit: u32,
    },
    /// What one name is, itself and not what it leads to.
    Look {
        path: Raw,
    },
    /// A part of one file.
    Read {
        path: Raw,
        offset: u64,
        length: u64,
    },
    /// Everything below the path, or the one file it names, as `Request::Read` gives it.
    Tree {
        path: Raw,
    },
    /// A file, whole or not at all. Directories on the way are made; a file that is there keeps its
    /// mode unless another is asked for.
    Write {
        path: Raw,
        mode: Option<u32>,
    },
    MakeDirectory {
        path: Raw,
    },
    /// A symbolic link, in the place of another or of nothing.
    Link {
        path: Raw,
        target: Raw,
    },
    /// With everything below it.
    Remove {
        path: Raw,
    },
    /// Directories on the way to the new name are made.
    Rename {
        from: Raw,
        to: Raw,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// Program and arguments; the program is looked up in the command's own `PATH`.
    pub argv: Vec<Raw>,
    /// Default: the user's home.
    #[serde(default)]
    pub cwd: Option<Raw>,
    /// Over the sandbox's own environment.
    #[serde(default)]
    pub env: Vec<(Raw, Raw)>,
    /// A name of the sandbox's `/etc/passwd`, `uid` or `uid:gid`. Default: root.
    #[serde(default)]
    pub user: Option<String>,
    #[serde(default)]
    pub pty: Option<WindowSize>,
    /// Past it the whole tree is killed and `timed_out` is set.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Answer [`Reply::Started`] and close; the command goes on, its output discarded.
    #[serde(default)]
    pub detach: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSize {
    pub rows: u16,
    pub columns: u16,
}

/// What a host may say, besides input, while a command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    Resize(WindowSize),
    Signal(i32),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Hello(Hello),
    /// The process id inside the sandbox.
    Started {
        pid: i32,
    },
    Exited(Exited),
    Entry(Entry),
    EndOfEntry,
    /// `missing`: a read found nothing at the path.
    Done {
        missing: bool,
    },
    Failed(Failed),
    Listed(Listed),
}

/// What is known of one name without opening it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub name: Raw,
    pub kind: ListedKind,
    pub size: u64,
    pub mode: u32,
    /// Since 1970.
    pub modified_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListedKind {
    File,
    Directory,
    Symlink,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub protocol: u32,
    pub sandbox: String,
    pub generation: u64,
    pub boot: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exited {
    /// The exit code, or 128 and the signal's number.
    pub code: i32,
    pub signal: Option<i32>,
    pub timed_out: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    pub kind: FailedKind,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedKind {
    /// No such user, program, directory.
    NotFound,
    /// Not allowed, not possible as asked.
    Refused,
    /// Out of processes, memory, disk: may work later.
    Exhausted,
}

/// One file-system entry under way. `path` is relative, below the path of the request, without
/// `..`; empty for the request's path itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub path: Raw,
    pub kind: EntryKind,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u32,
    /// Owner inside the sandbox. Written only when the request's user may give files away.
    #[serde(default)]
    pub uid: Option<u32>,
    #[serde(default)]
    pub gid: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    File,
    Directory,
    Symlink { target: Raw },
}

/// What the keeper hands to the runner when it starts it, on descriptor [`CONFIG_FD`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    pub sandbox: String,
    pub generation: u64,
    pub boot: String,
    /// The environment that every command starts from.
    pub env: Vec<(Raw, Raw)>,
    /// Where it listens when no listening socket was handed over.
    #[serde(default)]
    pub listen: Option<String>,
    /// Empty directories that were needed to bring it up; it removes them.
    #[serde(default)]
    pub scaffold: Vec<String>,
    /// A workplace to be started and kept running.
    #[serde(default)]
    pub workplace: Option<workplace::Order>,
}

/// The runner's inherited descriptors: its [`Config`] (a file at offset 0), the listening socket
/// of this protocol (unless [`Config::listen`] is set), its own cgroup v2 directory (if it has one),
/// a pipe on which it writes one byte once it listens, and the program of a workplace.
pub const CONFIG_FD: i32 = 3;
pub const LISTEN_FD: i32 = 4;
pub const CGROUP_FD: i32 = 5;
pub const READY_FD: i32 = 6;
pub const WORKPLACE_FD: i32 = 7;

/// The directory of doors inside a sandbox.
pub const DOORS: &str = "/run/nacre";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spelling_of_protocol_1_is_kept() {
        let exec = Request::Exec(Exec {
            argv: vec!["ls".into(), Raw(vec![0xff])],
            cwd: None,
            env: vec![("A".into(), "b".into())],
            user: Some("user".into()),
            pty: Some(WindowSize {
                rows: 24,
                columns: 80,
            }),
            timeout_ms: Some(5),
            detach: false,
        });
        insta::assert_json_snapshot!(exec, @r#"
        {
          "exec": {
            "argv": [
              "ls",
              {
                "base64": "/w=="
              }
            ],
            "cwd": null,
            "env": [
              [
                "A",
                "b"
              ]
            ],
            "user": "user",
            "pty": {
              "rows": 24,
              "columns": 80
            },
            "timeout_ms": 5,
            "detach": false
          }
        }
        "#);
        let old: Request = serde_json::from_str(r#"{"exec": {"argv": ["true"]}}"#).unwrap();
        assert!(matches!(
            old,
            Request::Exec(Exec {
                detach: false,
                pty: None,
                ..
            })
        ));
    }

    #[test]
    fn the_spelling_of_work_below_a_directory_is_kept() {
        let request = Request::Below(Below {
            root: "/work".into(),
            user: None,
            work: Work::Write {
                path: "a".into(),
                mode: Some(0o600),
            },
        });
        let text = serde_json::to_string(&request).unwrap();
        let kept =
            r#"{"below":{"root":"/work","user":null,"work":{"write":{"path":"a","mode":384}}}}"#;
        assert_eq!(text, kept);
    }
}
