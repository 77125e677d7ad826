//! A layer's tar as anybody may have written it: read to its end or refused, never more memory than
//! the limits allow, and never anything but files below the directory that it goes into.
//!
//! `cargo +nightly fuzz run import`. The first byte of an input says what kind of archive it is; with
//! root's rights it is unpacked too, into a directory in memory.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use nacre_portable::tar::{Limits, Reader};
use nacre_portable::{Control, Index, Rules, unpack};

const LIMITS: Limits = Limits {
    entries: 1000,
    path: 4096,
    depth: 64,
    extension: 64 << 10,
    bytes: 1 << 24,
};

fuzz_target!(|input: &[u8]| {
    let Some((kind, input)) = input.split_first() else {
        return;
    };
    let _ = Index::parse(input);
    read(input);
    if kind % 4 == 0 && rustix::process::geteuid().is_root() {
        write(input, *kind);
    }
});

fn read(input: &[u8]) {
    let mut reader = Reader::new(Cursor::new(input), LIMITS);
    while let Ok(Some(entry)) = reader.next_entry() {
        assert!(!entry.path.starts_with(b"/") && !entry.path.contains(&0));
        assert!(entry.path.split(|byte| *byte == b'/').all(|name| name != b".."));
        assert!(entry.size <= LIMITS.bytes);
        loop {
            match reader.data() {
                Ok([]) | Err(_) => break,
                Ok(data) => {
                    let length = data.len();
                    reader.used(length);
                }
            }
        }
    }
}

fn write(input: &[u8], kind: u8) {
    let rules = match kind % 3 {
        0 => Rules::RootFileSystem,
        1 => Rules::Layer,
        _ => Rules::LowestLayer,
    };
    let base = std::path::Path::new("/dev/shm").join(format!("nacre-fuzz-{}", std::process::id()));
    let layer = base.join("layer");
    std::fs::create_dir_all(&layer).expect("a directory in memory");
    let root = std::fs::File::open(&layer).expect("it is there").into();
    let control = Control::default();
    let _ = unpack(Cursor::new(input), root, rules, LIMITS, &control, &mut ());
    let beside = std::fs::read_dir(&base).expect("it is there").count();
    assert_eq!(beside, 1, "something was made outside");
    std::fs::remove_dir_all(&base).expect("it goes");
}
