//! What comes in and goes out: standard streams, sockets, who and where we are.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use provider::probe::{BEAT, Identity, pattern};
use rustix::rand::GetRandomFlags;

const BLOCK: u64 = 251 * 256;

pub(crate) fn out(bytes: u64, mark: Option<&Path>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    // A whole number of the pattern's periods, so that every block is the same.
    let block = pattern(0, usize::try_from(BLOCK).expect("64 KiB"));
    let mut left = bytes;
    while left > 0 {
        let now = left.min(BLOCK);
        stdout.write_all(&block[..usize::try_from(now).expect("at most a block")])?;
        left -= now;
    }
    stdout.flush()?;
    mark.map_or(Ok(()), |mark| fs_err::write(mark, "written"))
}

pub(crate) fn err(text: &[u8]) -> io::Result<()> {
    io::stderr().write_all(text)
}

/// To stdout at once, even when that is a pipe.
pub(crate) fn say(text: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text)?;
    stdout.flush()
}

pub(crate) fn cat() -> io::Result<()> {
    // `io::copy` may splice; here bytes shall pass as soon as they come.
    let mut block = vec![0; 64 << 10];
    loop {
        match io::stdin().read(&mut block)? {
            0 => return Ok(()),
            read => say(&block[..read])?,
        }
    }
}

pub(crate) fn read(from: &Path) -> io::Result<()> {
    say(&fs_err::read(from)?)
}

pub(crate) fn env() -> io::Result<()> {
    let mut text = Vec::new();
    for (name, value) in std::env::vars_os() {
        text.extend_from_slice(name.as_bytes());
        text.push(b'=');
        text.extend_from_slice(value.as_bytes());
        text.push(0);
    }
    say(&text)
}

pub(crate) fn pwd() -> io::Result<()> {
    say(&std::env::current_dir()?.into_os_string().into_vec())
}

pub(crate) fn id() -> io::Result<()> {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    say(format!("{} {}\n", uid.as_raw(), gid.as_raw()).as_bytes())
}

pub(crate) fn tty() -> io::Result<()> {
    let text = match size() {
        Some((rows, columns)) => format!("tty {rows} {columns}\n"),
        None => "no tty\n".to_owned(),
    };
    say(text.as_bytes())
}

pub(crate) fn tty_watch() -> io::Result<()> {
    let mut last = None;
    loop {
        let now = size();
        if let Some((rows, columns)) = now
            && now != last
        {
            say(format!("{rows} {columns}\n").as_bytes())?;
        }
        last = now;
        std::thread::sleep(BEAT);
    }
}

fn size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdin()).ok()?;
    Some((size.ws_row, size.ws_col))
}

pub(crate) fn args(args: &[Vec<u8>]) -> io::Result<()> {
    let mut text = Vec::new();
    for arg in args {
        text.extend_from_slice(arg);
        text.push(0);
    }
    say(&text)
}

pub(crate) fn listen(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    say(b"listening\n")?;
    loop {
        let (stream, _) = listener.accept()?;
        std::thread::spawn(move || echo(stream));
    }
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut block = vec![0; 64 << 10];
    loop {
        match stream.read(&mut block)? {
            0 => return Ok(()),
            read => stream.write_all(&block[..read])?,
        }
    }
}

pub(crate) fn door(name: &[u8]) -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let mut stream = UnixStream::connect(Path::new("/run/nacre").join(crate::path(name)))?;
    stream.write_all(line.as_bytes())?;
    let mut answer = Vec::new();
    io::BufReader::new(stream).read_until(b'\n', &mut answer)?;
    say(&answer)
}

pub(crate) fn identity() -> io::Result<()> {
    let identity = Identity {
        hostname: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        machine_id: fs_err::read_to_string("/etc/machine-id")
            .unwrap_or_default()
            .trim()
            .to_owned(),
        random: random()?,
    };
    say(serde_json::to_string(&identity)?.as_bytes())
}

/// Sixteen random bytes in hexadecimal.
pub(crate) fn random() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
