//! Reading on in the log from where somebody was: for whoever looks again and again.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

use crate::log::{CURRENT, PREVIOUS, Record, Verdict};

/// Of one file in one look. Who fills more of it between two looks is not read whole.
const MOST: u64 = 256 << 10;

/// What was refused since the mark of an earlier look, the oldest first, and the next mark. As with
/// [`log::read`](crate::log::read), what is there is hostile.
pub fn refused_since(
    directory: &Path,
    mark: Option<&str>,
) -> std::io::Result<(Vec<Record>, String)> {
    let was_at = mark.and_then(Place::read);
    let Some((mut current, inode)) = opened(directory, CURRENT)? else {
        return Ok((Vec::new(), mark.unwrap_or_default().to_owned()));
    };
    let mut records = Vec::new();
    let mut from = 0;
    match was_at {
        Some(place) if place.inode == inode => from = place.offset,
        _ => {
            // The current one was opened first: if it was put away since, it is both.
            if let Some((mut previous, older)) = opened(directory, PREVIOUS)?
                && older != inode
            {
                let known = was_at.filter(|place| place.inode == older);
                let from = known.map_or(0, |place| place.offset);
                read_on(&mut previous, from, &mut records)?;
            }
        }
    }
    let offset = read_on(&mut current, from, &mut records)?;
    Ok((records, Place { inode, offset }.to_string()))
}

#[derive(Debug, Clone, Copy)]
struct Place {
    inode: u64,
    offset: u64,
}

impl Place {
    fn read(mark: &str) -> Option<Self> {
        let (inode, offset) = mark.split_once(':')?;
        Some(Self {
            inode: inode.parse().ok()?,
            offset: offset.parse().ok()?,
        })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.inode, self.offset)
    }
}

fn opened(directory: &Path, name: &str) -> std::io::Result<Option<(File, u64)>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match open(directory.join(name), flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let about = file.metadata()?;
    Ok(about.is_file().then(|| (file, about.ino())))
}

/// Whole lines from there on, and where they end.
fn read_on(file: &mut File, from: u64, records: &mut Vec<Record>) -> std::io::Result<u64> {
    let size = file.metadata()?.len();
    let from = if from > size { 0 } else { from };
    let start = from.max(size.saturating_sub(MOST));
    file.seek(SeekFrom::Start(start))?;
    let mut text = Vec::new();
    file.take(MOST).read_to_end(&mut text)?;
    let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else {
        // A line that is longer than all we read is none of ours.
        return Ok(if start > from { size } else { from });
    };
    let mut lines = text[..end].split(|byte| *byte == b'\n');
    if start > from {
        lines.next();
    }
    let read = lines.filter_map(|line| serde_json::from_slice::<Record>(line).ok());
    records.extend(read.filter(|record| record.verdict == Verdict::Refused));
    Ok(start + end as u64 + 1)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use model::SystemClock;

    use super::*;
    use crate::log::{Decision, Log};

    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("nacre-tail-{name}-{}", std::process::id()));
            fs_err::create_dir_all(&path).expect("a directory");
            Self(path)
        }

        fn log(&self) -> Log {
            let directory = fs_err::File::open(&self.0).expect("it opens");
            let directory = OwnedFd::from(directory.into_parts().0);
            Log::in_directory(directory, Arc::new(SystemClock)).expect("a log")
        }

        fn look(&self, mark: &mut Option<String>) -> Vec<String> {
            let (records, next) = refused_since(&self.0, mark.as_deref()).expect("it is read");
            *mark = Some(next);
            records.into_iter().map(|record| record.host).collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs_err::remove_dir_all(&self.0);
        }
    }

    fn refuse(log: &Log, host: &str) {
        let decision = Decision {
            host: host.to_owned(),
            port: 443,
            ..Decision::default()
        };
        log.decided(Verdict::Refused, decision);
    }

    #[test]
    fn each_look_gives_what_came_since_and_nothing_twice() {
        let scratch = Scratch::new("since");
        let mut mark = None;
        assert!(scratch.look(&mut mark).is_empty());
        let log = scratch.log();
        refuse(&log, "a");
        log.decided(Verdict::Allowed, Decision::default());
        log.write();
        assert_eq!(scratch.look(&mut mark), ["a"]);
        assert!(scratch.look(&mut mark).is_empty());
        refuse(&log, "b");
        refuse(&log, "c");
        assert_eq!(scratch.look(&mut mark), ["b", "c"]);
    }

    #[test]
    fn a_file_that_was_put_away_is_read_to_its_end() {
        let scratch = Scratch::new("rotated");
        let log = scratch.log();
        let mut mark = None;
        refuse(&log, "first");
        assert_eq!(scratch.look(&mut mark), ["first"]);
        refuse(&log, "last of the old");
        let (old, new) = (scratch.0.join(CURRENT), scratch.0.join(PREVIOUS));
        fs_err::rename(old, new).expect("renamed");
        let log = scratch.log();
        refuse(&log, "first of the new");
        assert_eq!(
            scratch.look(&mut mark),
            ["last of the old", "first of the new"]
        );
        assert!(scratch.look(&mut mark).is_empty());
    }

    #[test]
    fn of_a_flood_the_newest_are_read_and_no_more_than_a_look_may_cost() {
        let scratch = Scratch::new("flood");
        let log = scratch.log();
        let mut mark = None;
        for number in 0..6_000 {
            refuse(&log, &format!("host-{number}"));
        }
        let read = scratch.look(&mut mark);
        assert!(read.len() < 3_000, "{}", read.len());
        assert_eq!(read.last().map(String::as_str), Some("host-5999"));
        assert!(scratch.look(&mut mark).is_empty());
    }

    #[test]
    fn marks_and_files_that_mean_nothing_do_no_harm() {
        let scratch = Scratch::new("odd");
        refuse(&scratch.log(), "a");
        for mark in ["", ":", "x:y", "1:99999999999999999999", "0:0"] {
            let mut mark = Some(mark.to_owned());
            assert_eq!(scratch.look(&mut mark), ["a"]);
        }
        fs_err::write(scratch.0.join(CURRENT), vec![b'x'; 600 << 10]).expect("written");
        let mut mark = None;
        assert!(scratch.look(&mut mark).is_empty());
        assert!(scratch.look(&mut mark).is_empty());
    }
}
