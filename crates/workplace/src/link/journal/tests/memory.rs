use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use super::{Disk, Tail};

/// A disk in memory that remembers what a crash would leave, and can fail at any step.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) files: BTreeMap<u64, Vec<u8>>,
    /// How much of each survives the machine.
    synced: BTreeMap<u64, usize>,
    aside: Vec<u64>,
    /// Steps until the process is killed, in the middle of the one that is reached.
    steps_left: Option<usize>,
    pub(super) is_killed: bool,
    /// Appends fail, as on a full disk.
    pub(super) is_full: bool,
}

impl Memory {
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.0.lock().unwrap())
    }

    pub(super) fn killed_after(&self, steps: usize) {
        self.with(|inner| inner.steps_left = Some(steps));
    }

    pub(super) fn restarted(&self) {
        self.with(|inner| {
            inner.steps_left = None;
            inner.is_killed = false;
        });
    }

    /// What was not synced is gone.
    pub(super) fn lose_power(&self) {
        self.with(|inner| {
            let synced = inner.synced.clone();
            inner.files.retain(|number, bytes| {
                bytes.truncate(synced.get(number).copied().unwrap_or(0));
                synced.contains_key(number)
            });
        });
    }

    pub(super) fn damage(&self, number: u64, damage: impl FnOnce(&mut Vec<u8>)) {
        self.with(|inner| damage(inner.files.get_mut(&number).unwrap()));
    }

    pub(super) fn aside(&self) -> Vec<u64> {
        self.with(|inner| inner.aside.clone())
    }

    pub(super) fn files(&self) -> BTreeMap<u64, Vec<u8>> {
        self.with(|inner| inner.files.clone())
    }
}

impl Inner {
    /// Whether this step happens: wholly, by half, or not at all.
    fn step(&mut self) -> io::Result<Step> {
        if self.is_killed {
            return Err(io::Error::other("the process is dead"));
        }
        match &mut self.steps_left {
            Some(0) => {
                self.is_killed = true;
                Ok(Step::Broken)
            }
            Some(left) => {
                *left -= 1;
                Ok(Step::Whole)
            }
            None => Ok(Step::Whole),
        }
    }
}

#[derive(PartialEq)]
enum Step {
    Whole,
    Broken,
}

fn dead() -> io::Error {
    io::Error::other("the process died here")
}

impl Disk for Memory {
    fn numbers(&self) -> io::Result<Vec<u64>> {
        Ok(self.with(|inner| inner.files.keys().copied().collect()))
    }

    fn read(&self, number: u64, limit: usize) -> io::Result<Vec<u8>> {
        let bytes = self.with(|inner| inner.files.get(&number).cloned());
        let bytes = bytes.ok_or_else(|| io::Error::other("no such file"))?;
        if bytes.len() > limit {
            return Err(io::Error::other("too long"));
        }
        Ok(bytes)
    }

    fn create(&self, number: u64) -> io::Result<Arc<dyn Tail>> {
        self.with(|inner| {
            let step = inner.step()?;
            inner.files.insert(number, Vec::new());
            if step == Step::Broken {
                return Err(dead());
            }
            Ok(())
        })?;
        Ok(Arc::new(MemoryTail(self.clone(), number)))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        self.with(|inner| {
            if inner.step()? == Step::Broken {
                return Err(dead());
            }
            inner.synced.remove(&number);
            let removed = inner.files.remove(&number).map(drop);
            removed.ok_or_else(|| io::Error::other("no such file"))
        })
    }

    fn set_aside(&self, number: u64) -> io::Result<()> {
        self.remove(number)?;
        self.with(|inner| inner.aside.push(number));
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryTail(Memory, u64);

impl Tail for MemoryTail {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.with(|inner| {
            let step = inner.step()?;
            let half = step == Step::Broken || inner.is_full;
            let length = if half { bytes.len() / 2 } else { bytes.len() };
            let file = inner.files.get_mut(&self.1);
            let file = file.ok_or_else(|| io::Error::other("no such file"))?;
            file.extend_from_slice(&bytes[..length]);
            if half {
                return Err(dead());
            }
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.0.with(|inner| {
            if inner.step()? == Step::Broken {
                return Err(dead());
            }
            let length = inner.files.get(&self.1).map_or(0, Vec::len);
            inner.synced.insert(self.1, length);
            Ok(())
        })
    }
}
