//! The probe's vocabulary: what the contract suite asks of the one program it runs in a sandbox.
//!
//! It has two implementations: `nacre-probe` (crate `testkit`) makes real system calls, the fake
//! provider simulates. Both read their arguments here, so that they cannot drift apart.

mod manifest;

use std::time::Duration;

pub use manifest::{LineKind, ManifestLine, escape, hash, hexadecimal, print};

/// Where the probe is in a sandbox, unless a harness says otherwise.
pub const PATH: &str = "/opt/nacre-probe";
/// The time between two lines of `beat`, two values of `counter`.
pub const BEAT: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `out N [MARK]`: N bytes of the pattern to stdout, then the file MARK.
    Out { bytes: u64, mark: Option<Vec<u8>> },
    /// `err TEXT`
    Err(Vec<u8>),
    /// `exit N`
    Exit(i32),
    /// `die N`: ends by signal N.
    Die(i32),
    /// `cat`: stdin to stdout.
    Cat,
    /// `env`: `NAME=value` and a zero byte for each variable.
    Env,
    /// `pwd`
    Pwd,
    /// `id`: `UID GID`.
    Id,
    /// `tty`: `tty ROWS COLUMNS`, or `no tty`.
    Tty,
    /// `tty-watch`: `ROWS COLUMNS` now and at each change, for ever.
    TtyWatch,
    /// `args A…`: each argument and a zero byte.
    Args(Vec<Vec<u8>>),
    /// `sleep MS`
    Sleep(Duration),
    /// `tree FILE`: a child, a daemonised child and a daemonised grandchild that beat in FILE;
    /// itself waits for ever.
    Tree(Vec<u8>),
    /// `beat FILE`: appends `beat PID` every [`BEAT`].
    Beat(Vec<u8>),
    /// `counter FILE`: keeps `TOKEN VALUE` in FILE; the token is made at start, the value rises.
    Counter(Vec<u8>),
    /// `listen PORT`: echoes on 127.0.0.1; writes `listening` once it does.
    Listen(u16),
    /// `door NAME`: a line from stdin to `/run/nacre/NAME`, a line back to stdout.
    Door(Vec<u8>),
    /// `alloc MB`: touches memory; one line with the count for each megabyte.
    Alloc(u64),
    /// `forks N`: holds up to N sleeping children; writes how many it got.
    Forks(u64),
    /// `spin MS`: burns one core for MS of wall time; writes the milliseconds of cpu it got.
    Spin(Duration),
    /// `fill PATH MB`: writes up to MB megabytes; writes how many it got.
    Fill { path: Vec<u8>, megabytes: u64 },
    /// `read PATH`
    Read(Vec<u8>),
    /// One of [`FileWork`], or `all WORK… ; WORK…`: one after the other, up to the first failure.
    Files(Vec<FileWork>),
    /// `manifest PATH`: a [`ManifestLine`] for everything below PATH.
    Manifest(Vec<u8>),
    /// `identity`: an [`Identity`] as JSON.
    Identity,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileWork {
    /// `write PATH TEXT`
    Write { path: Vec<u8>, text: Vec<u8> },
    /// `append PATH TEXT`
    Append { path: Vec<u8>, text: Vec<u8> },
    /// `rm PATH`
    Rm(Vec<u8>),
    /// `rmdir PATH`: only if empty.
    Rmdir(Vec<u8>),
    /// `rmtree PATH`
    Rmtree(Vec<u8>),
    /// `mv FROM TO`
    Mv { from: Vec<u8>, to: Vec<u8> },
    /// `mkdir PATH [MODE]`: with parents; fine if it is there.
    Mkdir { path: Vec<u8>, mode: u32 },
    /// `chmod PATH MODE`
    Chmod { path: Vec<u8>, mode: u32 },
    /// `chown PATH UID GID`: of a link, the link's.
    Chown { path: Vec<u8>, uid: u32, gid: u32 },
    /// `setxattr PATH NAME VALUE`
    Setxattr {
        path: Vec<u8>,
        name: String,
        value: Vec<u8>,
    },
    /// `setcap PATH`: [`CAP_NET_BIND_SERVICE`] in [`CAPABILITY_XATTR`].
    Setcap(Vec<u8>),
    /// `sparse PATH SIZE`: a hole with [`SPARSE_END`] after it.
    Sparse { path: Vec<u8>, size: u64 },
    /// `mkfifo PATH`
    Mkfifo(Vec<u8>),
    /// `socket PATH`: leaves a unix socket that nobody listens on.
    Socket(Vec<u8>),
    /// `symlink TARGET PATH`
    Symlink { target: Vec<u8>, path: Vec<u8> },
    /// `link EXISTING PATH`
    Link { existing: Vec<u8>, path: Vec<u8> },
}

pub const CAPABILITY_XATTR: &str = "security.capability";
/// `vfs_cap_data`, revision 2, effective, permitted: bit 10.
pub const CAP_NET_BIND_SERVICE: [u8; 20] =
    [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
pub const SPARSE_END: &[u8] = b"pearl";

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    pub hostname: String,
    pub machine_id: String,
    /// Sixteen random bytes in hexadecimal.
    pub random: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the probe does not understand `{0}`")]
pub struct NotUnderstood(String);

impl Command {
    /// Reads the arguments after the program's name.
    pub fn parse(args: &[Vec<u8>]) -> Result<Self, NotUnderstood> {
        let not_understood = || {
            NotUnderstood(
                args.iter()
                    .map(|arg| escape(arg))
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        };
        Self::read(args).ok_or_else(not_understood)
    }

    fn read(args: &[Vec<u8>]) -> Option<Self> {
        let (verb, rest) = args.split_first()?;
        Some(match (verb.as_slice(), rest) {
            (b"out", [bytes]) => Self::Out {
                bytes: number(bytes)?,
                mark: None,
            },
            (b"out", [bytes, mark]) => Self::Out {
                bytes: number(bytes)?,
                mark: Some(mark.clone()),
            },
            (b"err", [text]) => Self::Err(text.clone()),
            (b"exit", [code]) => Self::Exit(number(code)?),
            (b"die", [signal]) => Self::Die(number(signal)?),
            (b"cat", []) => Self::Cat,
            (b"env", []) => Self::Env,
            (b"pwd", []) => Self::Pwd,
            (b"id", []) => Self::Id,
            (b"tty", []) => Self::Tty,
            (b"tty-watch", []) => Self::TtyWatch,
            (b"args", all) => Self::Args(all.to_vec()),
            (b"sleep", [ms]) => Self::Sleep(Duration::from_millis(number(ms)?)),
            (b"tree", [file]) => Self::Tree(file.clone()),
            (b"beat", [file]) => Self::Beat(file.clone()),
            (b"counter", [file]) => Self::Counter(file.clone()),
            (b"listen", [port]) => Self::Listen(number(port)?),
            (b"door", [name]) => Self::Door(name.clone()),
            (b"alloc", [megabytes]) => Self::Alloc(number(megabytes)?),
            (b"forks", [count]) => Self::Forks(number(count)?),
            (b"spin", [ms]) => Self::Spin(Duration::from_millis(number(ms)?)),
            (b"fill", [path, megabytes]) => Self::Fill {
                path: path.clone(),
                megabytes: number(megabytes)?,
            },
            (b"read", [path]) => Self::Read(path.clone()),
            (b"manifest", [path]) => Self::Manifest(path.clone()),
            (b"identity", []) => Self::Identity,
            (b"all", works) => {
                let works = works.split(|arg| arg == b";").map(FileWork::read);
                Self::Files(works.collect::<Option<_>>()?)
            }
            _ => Self::Files(vec![FileWork::read(args)?]),
        })
    }
}

impl FileWork {
    fn read(args: &[Vec<u8>]) -> Option<Self> {
        let (verb, rest) = args.split_first()?;
        Some(match (verb.as_slice(), rest) {
            (b"write", [path, text]) => Self::Write {
                path: path.clone(),
                text: text.clone(),
            },
            (b"append", [path, text]) => Self::Append {
                path: path.clone(),
                text: text.clone(),
            },
            (b"rm", [path]) => Self::Rm(path.clone()),
            (b"rmdir", [path]) => Self::Rmdir(path.clone()),
            (b"rmtree", [path]) => Self::Rmtree(path.clone()),
            (b"mv", [from, to]) => Self::Mv {
                from: from.clone(),
                to: to.clone(),
            },
            (b"mkdir", [path]) => Self::Mkdir {
                path: path.clone(),
                mode: 0o755,
            },
            (b"mkdir", [path, mode]) => Self::Mkdir {
                path: path.clone(),
                mode: octal(mode)?,
            },
            (b"chmod", [path, mode]) => Self::Chmod {
                path: path.clone(),
                mode: octal(mode)?,
            },
            (b"chown", [path, uid, gid]) => Self::Chown {
                path: path.clone(),
                uid: number(uid)?,
                gid: number(gid)?,
            },
            (b"setxattr", [path, name, value]) => Self::Setxattr {
                path: path.clone(),
                name: String::from_utf8(name.clone()).ok()?,
                value: value.clone(),
            },
            (b"setcap", [path]) => Self::Setcap(path.clone()),
            (b"sparse", [path, size]) => Self::Sparse {
                path: path.clone(),
                size: number(size)?,
            },
            (b"mkfifo", [path]) => Self::Mkfifo(path.clone()),
            (b"socket", [path]) => Self::Socket(path.clone()),
            (b"symlink", [target, path]) => Self::Symlink {
                target: target.clone(),
                path: path.clone(),
            },
            (b"link", [existing, path]) => Self::Link {
                existing: existing.clone(),
                path: path.clone(),
            },
            _ => return None,
        })
    }
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn octal(text: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(text).ok()?, 8).ok()
}

/// The byte at `offset` of what `out` writes. Its period is prime, so that a lost or doubled
/// block cannot hide.
fn pattern_at(offset: u64) -> u8 {
    u8::try_from(offset % 251).expect("below 251")
}

/// `length` bytes of the pattern from `offset` on.
pub fn pattern(offset: u64, length: usize) -> Vec<u8> {
    let period: Vec<u8> = (offset..).take(251).map(pattern_at).collect();
    let mut pattern = period.repeat(length / period.len() + 1);
    pattern.truncate(length);
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, NotUnderstood> {
        Command::parse(
            &line
                .split(' ')
                .map(|word| word.as_bytes().to_vec())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn several_pieces_of_file_work_are_read_from_one_line() {
        let Ok(Command::Files(works)) = parse("all mkdir /a 700 ; chmod /a 4755 ; rm /b") else {
            panic!("not file work");
        };
        assert_eq!(works.len(), 3);
        assert_eq!(
            works[1],
            FileWork::Chmod {
                path: b"/a".to_vec(),
                mode: 0o4755
            }
        );
    }

    #[test]
    fn what_is_not_in_the_vocabulary_is_named_in_the_error() {
        let error = parse("dance all night").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the probe does not understand `dance all night`"
        );
    }
}
