//! Processes that live long, multiply, and leave their parents.

use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use provider::probe::BEAT;
use rustix::process::Signal;

use crate::streams::random;

const FOR_EVER: Duration = Duration::from_secs(1 << 30);

pub(crate) fn die(signal: i32) -> io::Result<()> {
    let signal = Signal::from_named_raw(signal)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no such signal"))?;
    rustix::process::kill_process(rustix::process::getpid(), signal)?;
    std::thread::sleep(FOR_EVER);
    Ok(())
}

pub(crate) fn tree(file: &Path) -> io::Result<()> {
    let mut children = [
        ourselves()?.arg("beat").arg(file).spawn()?,
        ourselves()?.args(["daemonise", "1"]).arg(file).spawn()?,
        ourselves()?.args(["daemonise", "2"]).arg(file).spawn()?,
    ];
    // The daemonised ones end at once and want to be waited for; the first one never does.
    for child in children.iter_mut().rev() {
        child.wait()?;
    }
    std::thread::sleep(FOR_EVER);
    Ok(())
}

/// Starts, in a session of its own, a process that is `depth` parents away, and ends.
pub(crate) fn daemonise(depth: &[u8], file: &Path) -> io::Result<()> {
    rustix::process::setsid()?;
    if depth == b"2" {
        ourselves()?.args(["daemonise", "1"]).arg(file).spawn()?;
    } else {
        ourselves()?.arg("beat").arg(file).spawn()?;
    }
    Ok(())
}

/// This program again, silent.
fn ourselves() -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(command)
}

pub(crate) fn sleeper() -> io::Result<Child> {
    ourselves()?.args(["sleep", "600000"]).spawn()
}

pub(crate) fn beat(file: &Path) -> io::Result<()> {
    let mut file = fs_err::OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)?;
    let line = format!("beat {}\n", std::process::id());
    loop {
        file.write_all(line.as_bytes())?;
        std::thread::sleep(BEAT);
    }
}

pub(crate) fn counter(file: &Path) -> io::Result<()> {
    let token = random()?;
    let file = fs_err::File::create(file)?;
    for value in 0u64.. {
        // Always as long as before, in one call: a reader never sees half of one.
        file.file()
            .write_all_at(format!("{token} {value:012}\n").as_bytes(), 0)?;
        std::thread::sleep(BEAT);
    }
    Ok(())
}
