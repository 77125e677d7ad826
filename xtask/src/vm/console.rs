//! Runs the virtual machine, writes down what its console says, and shows what is ours of that.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// What `init.sh` and `inside.sh` put before words that are for us.
const OURS: &str = "vm: ";
const ENDED: &str = "vm: ended with ";
/// What is shown of a console that never got to ours.
const LAST: usize = 30;

/// The exit code of what ran inside.
pub(super) fn follow(machine: &mut Command, log: &Path, limit: Duration) -> Result<u8> {
    let mut child = Running(
        machine
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start QEMU")?,
    );
    let lines = lines_of(&mut child.0)?;
    let mut log = fs_err::File::create(log)?;
    let deadline = Instant::now() + limit;
    let mut console = Console::default();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) => {
                writeln!(log, "{line}")?;
                if console.shows(&line) {
                    println!("{line}");
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                bail!(
                    "it was not done within {} minutes",
                    limit.as_secs().div_ceil(60)
                );
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.0.wait()?;
    let Some(code) = console.code else {
        let last: Vec<String> = console.unseen.into();
        bail!(
            "the machine ended before what it was to run did ({status})\n{}",
            last.join("\n")
        );
    };
    Ok(code)
}

/// Ends with us, however we end.
#[derive(Debug)]
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A thread of its own reads them, so that waiting for the next can have a limit; it ends with the
/// machine.
fn lines_of(child: &mut Child) -> Result<Receiver<String>> {
    let output = child.stdout.take().context("QEMU has no output")?;
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    Ok(receiver)
}

/// What was read so far.
#[derive(Debug, Default)]
struct Console {
    begun: bool,
    unseen: VecDeque<String>,
    code: Option<u8>,
}

impl Console {
    /// Whether a person wants to see it: all from the first line of ours to the last.
    fn shows(&mut self, line: &str) -> bool {
        if self.code.is_some() {
            return false;
        }
        self.begun |= line.starts_with(OURS);
        if !self.begun {
            self.unseen.push_back(line.to_owned());
            if self.unseen.len() > LAST {
                self.unseen.pop_front();
            }
            return false;
        }
        self.code = line.strip_prefix(ENDED).and_then(|code| code.parse().ok());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_before_and_after_ours_are_not_shown() {
        let said = [
            "[    0.1] virtio: something",
            "vm: 7.2, started in 6 s",
            "==> doctor",
            "vm: ended with 2",
            "[   70.2] reboot: Power down",
        ];
        let mut console = Console::default();
        let shown: Vec<&str> = said
            .into_iter()
            .filter(|line| console.shows(line))
            .collect();
        assert_eq!(shown, said[1..4]);
        assert_eq!(console.code, Some(2));
    }

    #[test]
    fn a_machine_that_never_got_there_has_no_code_and_its_last_words() {
        let mut console = Console::default();
        assert!(!console.shows("mount: mounting root on /root failed"));
        assert_eq!(console.code, None);
        assert_eq!(console.unseen, ["mount: mounting root on /root failed"]);
    }
}
