//! Taking as much as we are given.

use std::hint::black_box;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::processes::sleeper;
use crate::streams::say;

const MEGABYTE: usize = 1 << 20;
const PAGE: usize = 4096;

pub(crate) fn alloc(megabytes: u64) -> io::Result<()> {
    let mut held: Vec<Vec<u8>> = Vec::new();
    for count in 1..=megabytes {
        let mut block = vec![0u8; MEGABYTE];
        for page in block.chunks_mut(PAGE) {
            page[0] = 1;
        }
        held.push(black_box(block));
        say(format!("{count}\n").as_bytes())?;
    }
    Ok(())
}

pub(crate) fn forks(count: u64) -> io::Result<()> {
    let mut children = Vec::new();
    for _ in 0..count {
        match sleeper() {
            Ok(child) => children.push(child),
            Err(_) => break,
        }
    }
    say(format!("{}\n", children.len()).as_bytes())?;
    for child in &mut children {
        child.kill()?;
    }
    for child in &mut children {
        child.wait()?;
    }
    Ok(())
}

pub(crate) fn spin(time: Duration) -> io::Result<()> {
    let start = Instant::now();
    let mut value = 0u64;
    while start.elapsed() < time {
        for step in 0..1000 {
            value = black_box(value.wrapping_add(step));
        }
    }
    let got = clock_gettime(ClockId::ProcessCPUTime);
    say(format!("{}\n", got.tv_sec * 1000 + got.tv_nsec / 1_000_000).as_bytes())
}

pub(crate) fn fill(path: &Path, megabytes: u64) -> io::Result<()> {
    let mut file = fs_err::File::create(path)?;
    let block = vec![0xa5u8; MEGABYTE];
    let mut got = 0;
    while got < megabytes && file.write_all(&block).is_ok() {
        got += 1;
    }
    say(format!("{got}\n").as_bytes())
}
