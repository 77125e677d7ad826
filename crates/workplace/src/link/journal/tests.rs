mod memory;

use proptest::prelude::*;
use wire::link::read_runner;

use super::*;
use memory::Memory;

const KEY: &[u8] = b"a key that only the host knows";

fn limits() -> Limits {
    Limits {
        bytes: 64 << 10,
        records: 200,
        segment: 2 << 10,
    }
}

fn identity(session: &str, boot: &str) -> Identity {
    Identity {
        session: session.to_owned(),
        boot: boot.to_owned(),
    }
}

fn open(disk: &Memory, boot: &str) -> (Journal, Vec<Finding>) {
    let identity = identity("ses_1", boot);
    Journal::open(Box::new(disk.clone()), KEY, identity, limits())
}

/// Everything is sent, and the hub has it up to this number.
fn acknowledge(journal: &mut Journal, boot: &str, seq: u64) {
    let mut cursor = journal.start();
    while let Some((_, next)) = journal.after(cursor) {
        cursor = next;
    }
    journal.mark_sent(cursor);
    journal.acknowledge(boot, seq);
}

fn title(text: &str) -> FromRunner {
    FromRunner::Title {
        title: text.to_owned(),
    }
}

fn say(journal: &mut Journal, text: &str) -> Vec<Finding> {
    journal.append(title(text)).unwrap();
    journal.write()
}

/// Everything that would be sent: boot, number, text.
fn offered(journal: &Journal) -> Vec<(Option<String>, u64, String)> {
    let mut cursor = journal.start();
    let mut offered = Vec::new();
    while let Some((bytes, next)) = journal.after(cursor) {
        cursor = next;
        let frame = read_runner(&bytes).unwrap();
        let FromRunner::Title { title } = frame.body else {
            continue;
        };
        offered.push((frame.from_boot, frame.seq.unwrap(), title));
    }
    offered
}

fn texts(journal: &Journal) -> Vec<String> {
    offered(journal)
        .into_iter()
        .map(|(_, _, text)| text)
        .collect()
}

#[test]
fn what_was_not_acknowledged_is_offered_by_the_next_boot_under_its_own_name() {
    let disk = Memory::default();
    let (mut first, _) = open(&disk, "b1");
    for text in ["one", "two", "three"] {
        say(&mut first, text);
    }
    acknowledge(&mut first, "b1", 1);
    drop(first);

    let (mut second, findings) = open(&disk, "b2");
    say(&mut second, "four");
    assert_eq!(findings, []);
    let b1 = || Some("b1".to_owned());
    assert_eq!(
        offered(&second),
        [
            (b1(), 1, "one".to_owned()),
            (b1(), 2, "two".to_owned()),
            (b1(), 3, "three".to_owned()),
            (None, 1, "four".to_owned()),
        ],
        "what the first boot forgot is on disk until its segment goes"
    );
    assert_eq!(second.offers().len(), 2);
    acknowledge(&mut second, "b1", 3);
    acknowledge(&mut second, "b2", 1);
    assert!(second.is_empty());
    drop(second);

    let (third, _) = open(&disk, "b3");
    assert_eq!(texts(&third), ["four"], "the hub says that it has that one");
}

#[test]
fn a_frame_that_was_never_sent_cannot_be_acknowledged() {
    let mut journal = Journal::in_memory(identity("s", "b"), limits());
    say(&mut journal, "one");
    journal.acknowledge("b", u64::MAX);
    assert_eq!(texts(&journal), ["one"]);
    acknowledge(&mut journal, "b", 1);
    assert!(journal.is_empty());
}

#[test]
fn another_sessions_journal_is_discarded() {
    let disk = Memory::default();
    let (mut parent, _) = open(&disk, "b1");
    say(&mut parent, "the parent's");
    drop(parent);
    let child = identity("ses_2", "b2");
    let key = b"the child's key";
    let (journal, findings) = Journal::open(Box::new(disk.clone()), key, child, limits());
    assert_eq!((texts(&journal).len(), findings), (0, Vec::new()));
    assert_eq!(disk.files().len(), 1, "its own");
    assert!(disk.aside().is_empty());
}

#[test]
fn acknowledged_segments_are_deleted() {
    let disk = Memory::default();
    let (mut journal, _) = open(&disk, "b1");
    for n in 0..100 {
        say(&mut journal, &format!("{n:0200}"));
    }
    assert!(disk.files().len() > 5);
    acknowledge(&mut journal, "b1", 100);
    assert_eq!(disk.files().len(), 1);
    assert!(journal.is_empty());
}

#[test]
fn nothing_that_is_said_can_be_read_on_disk() {
    let disk = Memory::default();
    let (mut journal, _) = open(&disk, "b1");
    say(&mut journal, "canary in the journal");
    let found = disk
        .files()
        .into_values()
        .any(|bytes| bytes.windows(6).any(|window| window == b"canary"));
    assert!(!found);
}

#[test]
fn the_highest_term_is_remembered() {
    let disk = Memory::default();
    let (mut journal, _) = open(&disk, "b1");
    journal.note_term(7);
    journal.write();
    drop(journal);
    let (journal, _) = open(&disk, "b2");
    assert_eq!(journal.term(), 7);
    drop(journal);
    assert_eq!(open(&disk, "b3").0.term(), 7);
}

#[test]
fn a_journal_fills_up_by_bytes_and_by_records() {
    let few = Limits {
        records: 16,
        ..limits()
    };
    let mut journal = Journal::in_memory(identity("s", "b"), few);
    let mut rooms = Vec::new();
    for n in 0..16 {
        rooms.push(journal.room());
        say(&mut journal, &n.to_string());
    }
    assert_eq!(rooms[13], Room::Free);
    assert_eq!(rooms[14], Room::Tight);
    assert_eq!(journal.room(), Room::Full);
    acknowledge(&mut journal, "b", 16);
    assert_eq!(journal.room(), Room::Free);

    let mut journal = Journal::in_memory(identity("s", "b"), limits());
    say(&mut journal, &"x".repeat(58 << 10));
    assert_eq!(journal.room(), Room::Tight);
    say(&mut journal, &"x".repeat(8 << 10));
    assert_eq!(journal.room(), Room::Full);
}

#[test]
fn a_frame_that_is_too_long_takes_no_number() {
    let mut journal = Journal::in_memory(identity("s", "b"), limits());
    let long = title(&"x".repeat(MAX_LINK_FRAME));
    assert!(journal.append(long).is_err());
    assert_eq!(journal.append(title("short")), Ok(1));
}

#[test]
fn a_disk_that_fails_is_made_up_for_when_it_is_back() {
    let disk = Memory::default();
    let (mut journal, _) = open(&disk, "b1");
    say(&mut journal, "before");
    disk.with(|inner| inner.is_full = true);
    let findings = say(&mut journal, "meanwhile");
    assert!(matches!(findings[..], [Finding::Unwritable { .. }]));
    assert!(!journal.is_well());
    say(&mut journal, "in memory");
    assert_eq!(texts(&journal).len(), 3, "all of it can be sent");
    assert!(!journal.try_again().is_empty());

    disk.with(|inner| inner.is_full = false);
    assert_eq!(journal.try_again(), []);
    say(&mut journal, "after");
    drop(journal);
    let (journal, findings) = open(&disk, "b2");
    assert_eq!(
        texts(&journal),
        ["before", "meanwhile", "in memory", "after"]
    );
    assert_eq!(findings, []);
}

#[test]
fn what_was_synced_survives_the_machine() {
    let disk = Memory::default();
    let (mut journal, _) = open(&disk, "b1");
    for n in 0..30 {
        say(&mut journal, &format!("{n:0200}"));
    }
    journal.sync().unwrap().run().unwrap();
    say(&mut journal, "not synced");
    drop(journal);
    disk.lose_power();
    let (journal, findings) = open(&disk, "b2");
    assert_eq!(texts(&journal).len(), 30);
    assert_eq!(findings, []);
}

#[test]
fn killed_at_any_step_it_loses_nothing_that_was_written_and_invents_nothing() {
    for steps in 0.. {
        let disk = Memory::default();
        let (mut left, _) = open(&disk, "b0");
        for n in 0..20 {
            say(&mut left, &format!("old {n:0100}"));
        }
        drop(left);
        disk.killed_after(steps);

        // Which frames were written when the kill came, and which the hub has.
        let mut written = Vec::new();
        let (mut journal, _) = open(&disk, "b1");
        for n in 0..20 {
            let text = format!("{n:0100}");
            let well = journal.is_well() && say(&mut journal, &text).is_empty();
            if well && !disk.with(|inner| inner.is_killed) {
                written.push(text);
            }
            if let Some(sync) = journal.sync() {
                let _ = sync.run();
            }
            if n == 10 {
                acknowledge(&mut journal, "b0", 20);
                acknowledge(&mut journal, "b1", 5);
            }
        }
        let was_killed = disk.with(|inner| inner.is_killed);
        drop(journal);
        disk.restarted();

        let (journal, findings) = open(&disk, "b2");
        assert_eq!(findings, [], "killed after {steps} steps");
        let offered = offered(&journal);
        let mine: Vec<&String> = offered
            .iter()
            .filter(|(boot, ..)| boot.as_deref() == Some("b1"))
            .map(|(_, _, text)| text)
            .collect();
        let acknowledged = written.len().min(5);
        let kept = &written[acknowledged..];
        for text in kept {
            assert!(mine.contains(&text), "killed after {steps} steps: {text}");
        }
        let olds = offered.len() - mine.len();
        assert!(
            olds == 20 || written.len() > 10,
            "killed after {steps} steps: {olds}"
        );
        if !was_killed {
            break;
        }
    }
}

/// A journal of one boot with some frames, and its only segment.
fn written() -> (Memory, Vec<String>, u64) {
    let disk = Memory::default();
    let (mut journal, _) = open(&disk, "b1");
    let texts: Vec<String> = ["one", "two", "three", "four"].map(str::to_owned).to_vec();
    for text in &texts {
        say(&mut journal, text);
    }
    (disk, texts, 1)
}

#[test]
fn a_tail_torn_off_at_any_byte_is_cut() {
    let (disk, texts_before, number) = written();
    let whole = disk.files()[&number].clone();
    for length in 0..whole.len() {
        let disk = Memory::default();
        disk.with(|inner| inner.files.insert(number, whole[..length].to_vec()));
        let (journal, findings) = open(&disk, "b2");
        let got = texts(&journal);
        assert!(texts_before.starts_with(&got), "cut at {length}");
        assert_eq!(findings, [], "cut at {length}");
    }
}

#[test]
fn a_tail_of_zeros_is_cut() {
    let (disk, texts_before, number) = written();
    disk.damage(number, |bytes| bytes.extend([0; 4096]));
    let (journal, findings) = open(&disk, "b2");
    assert_eq!((texts(&journal), findings), (texts_before, Vec::new()));
}

#[test]
fn a_byte_changed_anywhere_is_never_believed() {
    let (disk, texts_before, number) = written();
    let whole = disk.files()[&number].clone();
    for place in 0..whole.len() {
        for bit in [0x01, 0x80] {
            let disk = Memory::default();
            let mut bytes = whole.clone();
            bytes[place] ^= bit;
            disk.with(|inner| inner.files.insert(number, bytes));
            let (journal, findings) = open(&disk, "b2");
            let got = texts(&journal);
            assert!(texts_before.starts_with(&got), "changed at {place}");
            assert!(got.len() < texts_before.len(), "changed at {place}");
            // A length that points past the end looks like a torn tail, and another session's
            // name like another session's.
            let _ = findings;
        }
    }
}

#[test]
fn a_damaged_segment_is_reported_and_set_aside_when_its_good_part_has_arrived() {
    let (disk, texts_before, number) = written();
    let last = disk.files()[&number].len() - 1;
    disk.damage(number, |bytes| bytes[last] ^= 1);
    let (mut journal, findings) = open(&disk, "b2");
    assert_eq!(findings, [Finding::Damaged { segment: number }]);
    assert_eq!(texts(&journal), texts_before[..3]);
    acknowledge(&mut journal, "b1", 3);
    assert_eq!(disk.aside(), [number]);
}

#[test]
fn segments_that_changed_places_are_not_believed() {
    let disk = Memory::default();
    let (mut journal, _) = open(&disk, "b1");
    for n in 0..30 {
        say(&mut journal, &format!("{n:0200}"));
    }
    drop(journal);
    disk.with(|inner| {
        let one = inner.files[&1].clone();
        let two = inner.files.insert(2, one).unwrap();
        inner.files.insert(1, two);
    });
    let (journal, findings) = open(&disk, "b2");
    assert!(findings.contains(&Finding::Forged { segment: 1 }));
    assert!(findings.contains(&Finding::Forged { segment: 2 }));
    let numbers: Vec<u64> = offered(&journal).iter().map(|(_, seq, _)| *seq).collect();
    assert!(numbers.is_sorted() && !numbers.contains(&1));
}

#[test]
fn frames_after_a_missing_segment_are_set_aside() {
    let disk = Memory::default();
    let (mut journal, _) = open(&disk, "b1");
    for n in 0..30 {
        say(&mut journal, &format!("{n:0200}"));
    }
    drop(journal);
    disk.with(|inner| inner.files.remove(&2));
    let (journal, findings) = open(&disk, "b2");
    assert!(findings.contains(&Finding::Gap { segment: 3 }));
    let numbers: Vec<u64> = offered(&journal).iter().map(|(_, seq, _)| *seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_journal_written_with_another_key_is_set_aside() {
    let disk = Memory::default();
    let identity = identity("ses_1", "b1");
    let forged = b"a key that somebody made up";
    let (mut journal, _) = Journal::open(Box::new(disk.clone()), forged, identity, limits());
    say(&mut journal, "forged");
    drop(journal);
    let (journal, findings) = open(&disk, "b2");
    assert_eq!(findings, [Finding::Forged { segment: 1 }]);
    assert_eq!(texts(&journal).len(), 0);
    assert_eq!(disk.aside(), [1]);
}

proptest! {
    #[test]
    fn hostile_segments_never_panic(files: Vec<(u64, Vec<u8>)>) {
        let disk = Memory::default();
        disk.with(|inner| inner.files.extend(files));
        let (mut journal, _) = open(&disk, "b1");
        say(&mut journal, "still works");
        prop_assert_eq!(texts(&journal), ["still works"]);
    }

    #[test]
    fn whatever_is_cut_off_and_changed_only_a_beginning_is_believed(
        cut in 0usize..1200,
        changes in prop::collection::vec((0usize..1200, any::<u8>()), 0..4),
    ) {
        let (disk, texts_before, number) = written();
        disk.damage(number, |bytes| {
            bytes.truncate(cut);
            for (place, byte) in changes {
                if let Some(there) = bytes.get_mut(place) {
                    *there = byte;
                }
            }
        });
        let (journal, _) = open(&disk, "b2");
        prop_assert!(texts_before.starts_with(&texts(&journal)));
    }
}

mod on_a_real_disk {
    use super::*;
    use camino_tempfile::Utf8TempDir;
    use rustix::fs::FileType;
    use std::os::unix::fs::MetadataExt as _;

    fn open(directory: &Utf8TempDir, boot: &str) -> (Journal, Vec<Finding>) {
        let path = directory.path().join("state/journal");
        let disk = Directory::open(path.as_std_path()).unwrap();
        Journal::open(Box::new(disk), KEY, identity("ses_1", boot), limits())
    }

    #[test]
    fn it_is_for_root_alone() {
        let directory = Utf8TempDir::new().unwrap();
        let (mut journal, _) = open(&directory, "b1");
        say(&mut journal, "one");
        let path = directory.path().join("state/journal");
        let mode = |path: &str| fs_err::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(path.as_str()), 0o700);
        assert_eq!(mode(path.join("00000001.journal").as_str()), 0o600);
    }

    #[test]
    fn a_pipe_in_a_segments_place_does_not_make_us_wait() {
        let directory = Utf8TempDir::new().unwrap();
        drop(open(&directory, "b1"));
        let place = directory.path().join("state/journal/00000009.journal");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            place.as_std_path(),
            FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        let (mut journal, findings) = open(&directory, "b2");
        assert!(matches!(
            findings[..],
            [Finding::Unreadable { segment: 9, .. }]
        ));
        say(&mut journal, "still works");
        assert_eq!(open(&directory, "b3").1, []);
    }

    #[test]
    fn it_survives_us() {
        let directory = Utf8TempDir::new().unwrap();
        let (mut journal, _) = open(&directory, "b1");
        for n in 0..50 {
            say(&mut journal, &format!("{n:0200}"));
        }
        journal.sync().unwrap().run().unwrap();
        drop(journal);
        let (mut journal, findings) = open(&directory, "b2");
        assert_eq!((texts(&journal).len(), findings), (50, Vec::new()));
        acknowledge(&mut journal, "b1", 50);
        let path = directory.path().join("state/journal");
        assert_eq!(fs_err::read_dir(path).unwrap().count(), 1);
    }
}
