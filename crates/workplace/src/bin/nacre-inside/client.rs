//! HTTP 1.0 over the workplace's socket: one request a connection, and the answer ends with it.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Exit, Failure};

const PATH: &str = "/run/nacre.sock";
/// The workplace may still be starting, or starting again.
const PATIENCE: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(1);
const MAX_HEAD: usize = 64 << 10;
/// Far more than any answer but a log has.
const MAX_BODY: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct Client {
    path: PathBuf,
}

#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    stream: UnixStream,
    /// What came along with the head.
    begun: Vec<u8>,
}

impl Client {
    #[expect(
        clippy::disallowed_methods,
        reason = "tests have their socket elsewhere"
    )]
    pub(super) fn new() -> Self {
        let path = std::env::var_os("NACRE_INSIDE_SOCKET");
        Self {
            path: path.map_or_else(|| PATH.into(), Into::into),
        }
    }

    pub(super) fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.ask("GET", path, b"")
    }

    pub(super) fn delete(&self, path: &str) -> Result<Answer, Failure> {
        self.ask("DELETE", path, b"")
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.ask("POST", path, body.to_string().as_bytes())
    }

    fn ask(&self, method: &str, path: &str, body: &[u8]) -> Result<Answer, Failure> {
        let mut stream = self.connect()?;
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: nacre\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        // In one piece: what is not wanted is then dropped with the rest, and the answer is not lost.
        stream.write_all(&[head.as_bytes(), body].concat())?;
        answer(stream)
    }

    fn connect(&self) -> Result<UnixStream, Failure> {
        let since = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match UnixStream::connect(&self.path) {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            let may_come = matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            );
            if !may_come || since.elapsed() >= PATIENCE {
                let message = format!("the workplace cannot be reached: {error}");
                return Err(Failure::new(Exit::Unavailable, message));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}

fn answer(mut stream: UnixStream) -> Result<Answer, Failure> {
    let broken = || Failure::new(Exit::Unavailable, "the workplace broke off");
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    let end = loop {
        if let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
        let count = stream.read(&mut buffer)?;
        if count == 0 || head.len() > MAX_HEAD {
            return Err(broken());
        }
        head.extend_from_slice(&buffer[..count]);
    };
    let begun = head.split_off(end);
    let head = String::from_utf8_lossy(&head);
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Ok(Answer {
        status: status.ok_or_else(broken)?,
        stream,
        begun,
    })
}

impl Answer {
    pub(super) fn json(self) -> Result<Value, Failure> {
        let status = self.status;
        let body = self.body()?;
        if status != 200 {
            return Err(Self::failure(status, &body));
        }
        serde_json::from_slice(&body)
            .map_err(|_| Failure::new(Exit::Failed, "the workplace's answer is not JSON"))
    }

    /// To standard output, as it comes.
    pub(super) fn copy(mut self) -> Result<(), Failure> {
        if self.status != 200 {
            let status = self.status;
            return Err(Self::failure(status, &self.body()?));
        }
        let mut out = io::stdout().lock();
        let mut buffer = vec![0; 32 << 10];
        let mut piece = std::mem::take(&mut self.begun);
        loop {
            match out.write_all(&piece).and_then(|()| out.flush()) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                other => other?,
            }
            match self.stream.read(&mut buffer)? {
                0 => return Ok(()),
                count => piece = buffer[..count].to_vec(),
            }
        }
    }

    fn body(self) -> Result<Vec<u8>, Failure> {
        let mut body = self.begun;
        self.stream.take(MAX_BODY).read_to_end(&mut body)?;
        Ok(body)
    }
}

/// For a piece of a path or a query.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            encoded.push(char::from(byte));
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            encoded.push('%');
            for digit in [byte >> 4, byte & 15] {
                encoded.push(char::from(DIGITS[usize::from(digit)]));
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_path_cannot_hold_is_encoded() {
        assert_eq!(encode("web-1.dev_~"), "web-1.dev_~");
        assert_eq!(encode("a b/../c?d=ü"), "a%20b%2F..%2Fc%3Fd%3D%C3%BC");
    }
}
