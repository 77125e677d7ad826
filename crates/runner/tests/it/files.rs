use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;

use camino::Utf8Path;
use wire::guest::{Below, Entry, EntryKind, Failed, FailedKind, Reply, Request, Work};
use wire::{Channel, Frame, Raw};

use crate::runner::{Runner, eventually};

const SOMEBODY: &str = "4242:4242";

/// An entry as sent, with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    entry: Entry,
    content: Vec<u8>,
}

fn entry(path: impl Into<Raw>, kind: EntryKind, mode: u32) -> Sent {
    Sent {
        entry: Entry {
            path: path.into(),
            kind,
            mode,
            uid: None,
            gid: None,
        },
        content: Vec::new(),
    }
}

fn file(path: impl Into<Raw>, content: &[u8]) -> Sent {
    Sent {
        content: content.to_vec(),
        ..entry(path, EntryKind::File, 0o644)
    }
}

fn directory(path: impl Into<Raw>) -> Sent {
    entry(path, EntryKind::Directory, 0o755)
}

fn link(path: impl Into<Raw>, target: impl Into<Raw>) -> Sent {
    entry(
        path,
        EntryKind::Symlink {
            target: target.into(),
        },
        0o777,
    )
}

fn send(stream: &mut UnixStream, sent: &Sent) -> Result<(), wire::FrameError> {
    Frame::control(&Reply::Entry(sent.entry.clone())).write(stream)?;
    for chunk in sent.content.chunks(50_000) {
        Frame {
            channel: Channel::Data,
            payload: chunk.to_vec(),
        }
        .write(stream)?;
    }
    Frame::control(&Reply::EndOfEntry).write(stream)
}

fn write_as(
    runner: &Runner,
    user: Option<&str>,
    path: &Utf8Path,
    entries: &[Sent],
) -> Result<(), Failed> {
    let request = Request::Write {
        path: path.as_str().into(),
        user: user.map(str::to_owned),
    };
    let mut stream = runner.request(&request);
    // One that refuses closes while we still send; what it said is there to be read.
    let _ = entries
        .iter()
        .try_for_each(|sent| send(&mut stream, sent))
        .and_then(|()| Frame::control(&Reply::Done { missing: false }).write(&mut stream));
    match Frame::read(&mut stream)
        .unwrap()
        .unwrap()
        .message()
        .unwrap()
    {
        Reply::Done { missing: false } => Ok(()),
        Reply::Failed(failed) => Err(failed),
        other => panic!("unexpected: {other:?}"),
    }
}

fn write(runner: &Runner, path: &Utf8Path, entries: &[Sent]) -> Result<(), Failed> {
    write_as(runner, None, path, entries)
}

/// `None` when nothing is there.
fn read_as(
    runner: &Runner,
    user: Option<&str>,
    path: &Utf8Path,
) -> Result<Option<Vec<Sent>>, Failed> {
    let request = Request::Read {
        path: path.as_str().into(),
        user: user.map(str::to_owned),
    };
    let mut stream = runner.request(&request);
    let mut entries: Vec<Sent> = Vec::new();
    let mut open = false;
    loop {
        let frame = Frame::read(&mut stream)
            .unwrap()
            .expect("not closed before the end");
        if frame.channel == Channel::Data {
            assert!(open && frame.payload.len() <= 64 << 10);
            entries.last_mut().unwrap().content.extend(frame.payload);
            continue;
        }
        match frame.message().unwrap() {
            Reply::Entry(entry) => {
                assert!(!std::mem::replace(&mut open, true));
                entries.push(Sent {
                    entry,
                    content: Vec::new(),
                });
            }
            Reply::EndOfEntry => assert!(std::mem::replace(&mut open, false)),
            Reply::Done { missing } => return Ok((!missing).then_some(entries)),
            Reply::Failed(failed) => return Err(failed),
            other => panic!("unexpected: {other:?}"),
        }
    }
}

fn read(runner: &Runner, path: &Utf8Path) -> Vec<Sent> {
    read_as(runner, None, path)
        .unwrap()
        .expect("something there")
}

fn temporary_directory() -> camino_tempfile::Utf8TempDir {
    let directory = camino_tempfile::tempdir().unwrap();
    fs_err::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    directory
}

fn no_temporaries(path: &Utf8Path) -> bool {
    path.read_dir_utf8()
        .unwrap()
        .flatten()
        .all(|entry| !entry.file_name().starts_with(".nacre-"))
}

#[test]
fn a_tree_survives_the_round_trip() {
    let runner = Runner::start();
    let place = temporary_directory();
    let large: Vec<u8> = (0..=255u8).cycle().take(300_001).collect();
    let mut entries = vec![
        directory(""),
        directory("a"),
        file(Raw(b"a/\xff\xfe\n name".to_vec()), b"\x00\xff"),
        file("a/empty", b""),
        file("a/large", &large),
        link("a/link", Raw(b"\xff/../somewhere".to_vec())),
        directory("b"),
        file("b/file", b"b"),
    ];
    entries[7].entry.mode = 0o4750;
    entries[6].entry.mode = 0o1555;
    let top = place.path().join("new/tree");
    write(&runner, &top, &entries).unwrap();

    let mut found = read(&runner, &top);
    for sent in &mut found {
        assert_eq!(
            (sent.entry.uid.take(), sent.entry.gid.take()),
            (Some(0), Some(0))
        );
    }
    entries.sort_by(|a, b| a.entry.path.cmp(&b.entry.path));
    found.sort_by(|a, b| a.entry.path.cmp(&b.entry.path));
    assert_eq!(found, entries);
    assert!(no_temporaries(&top.join("a")));
    eventually("the groups are removed", || runner.groups().is_empty());
}

#[test]
fn entries_come_sorted_and_without_what_has_no_content() {
    let runner = Runner::start();
    let place = temporary_directory();
    for name in ["c", "a", "b"] {
        fs_err::write(place.path().join(name), name).unwrap();
    }
    let _socket = std::os::unix::net::UnixListener::bind(place.path().join("socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path().join("fifo").as_str(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let paths: Vec<Raw> = read(&runner, place.path())
        .into_iter()
        .map(|sent| sent.entry.path)
        .collect();
    assert_eq!(paths, ["", "a", "b", "c"].map(Raw::from));
}

#[test]
fn one_file_is_one_entry_also_through_a_link() {
    let runner = Runner::start();
    let place = temporary_directory();
    let (path, alias) = (place.path().join("file"), place.path().join("alias"));
    write(&runner, &path, &[file("", b"first")]).unwrap();
    symlink(&path, &alias).unwrap();
    write(&runner, &alias, &[file("", b"second")]).unwrap();
    assert!(
        fs_err::symlink_metadata(&alias).unwrap().is_symlink(),
        "the link stays a link"
    );
    for path in [&path, &alias] {
        let found = read(&runner, path);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (&found[0].entry.path, &found[0].content[..]),
            (&"".into(), &b"second"[..])
        );
    }
}

#[test]
fn nothing_there_is_missing_and_not_a_failure() {
    let runner = Runner::start();
    let place = temporary_directory();
    assert_eq!(
        read_as(&runner, None, &place.path().join("nothing")),
        Ok(None)
    );
    assert_eq!(
        read_as(&runner, None, &place.path().join("no/thing")),
        Ok(None)
    );
}

#[test]
fn a_planted_link_is_not_followed_on_the_way_down() {
    let runner = Runner::start();
    let place = temporary_directory();
    let (top, outside) = (place.path().join("top"), place.path().join("outside"));
    fs_err::create_dir(&top).unwrap();
    fs_err::create_dir(&outside).unwrap();
    fs_err::write(outside.join("precious"), "kept").unwrap();
    symlink(&outside, top.join("planted")).unwrap();
    symlink("../outside", top.join("relative")).unwrap();
    symlink(outside.join("precious"), top.join("file")).unwrap();

    for entry in [
        file("planted/precious", b"lost"),
        file("planted/new/deeper", b"lost"),
        file("relative/precious", b"lost"),
        directory("planted"),
    ] {
        let failed = write(&runner, &top, std::slice::from_ref(&entry)).unwrap_err();
        assert_eq!(failed.kind, FailedKind::Refused, "{entry:?} {failed:?}");
    }
    write(&runner, &top, &[file("file", b"replaced")]).unwrap();
    assert_eq!(fs_err::read(outside.join("precious")).unwrap(), b"kept");
    assert_eq!(fs_err::read(top.join("file")).unwrap(), b"replaced");
    assert_eq!(outside.read_dir_utf8().unwrap().count(), 1);
    assert!(no_temporaries(&top));
}

#[test]
fn ways_out_are_refused() {
    let runner = Runner::start();
    let place = temporary_directory();
    let long = "x/".repeat(2048) + "x";
    for path in [
        "..",
        "../x",
        "a/../../x",
        "/etc/x",
        "a//b",
        "a/",
        ".",
        "a\0b",
        &long,
    ] {
        let failed = write(&runner, place.path(), &[file(path, b"x")]).unwrap_err();
        assert_eq!(failed.kind, FailedKind::Refused, "{path:?}");
    }
    assert_eq!(place.path().read_dir_utf8().unwrap().count(), 0);
    for path in ["relative", ""] {
        assert_eq!(
            write(&runner, path.into(), &[]).unwrap_err().kind,
            FailedKind::Refused
        );
        assert_eq!(
            read_as(&runner, None, path.into()).unwrap_err().kind,
            FailedKind::Refused
        );
    }
}

#[test]
fn the_work_is_done_with_the_ids_of_whoever_it_is_for() {
    let runner = Runner::start();
    let place = temporary_directory();
    let secret = place.path().join("secret");
    fs_err::write(&secret, "root's").unwrap();
    fs_err::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();

    let failed = read_as(&runner, Some(SOMEBODY), &secret).unwrap_err();
    assert_eq!(failed.kind, FailedKind::Refused);
    assert!(failed.message.contains("permission denied"), "{failed:?}");
    let failed = write_as(&runner, Some(SOMEBODY), place.path(), &[file("new", b"x")]).unwrap_err();
    assert_eq!(failed.kind, FailedKind::Refused);
    let failed = write_as(&runner, Some("ghost"), place.path(), &[]).unwrap_err();
    assert_eq!(failed.kind, FailedKind::NotFound);

    let home = place.path().join("home");
    let mut theirs = directory("");
    (theirs.entry.uid, theirs.entry.gid) = (Some(4242), Some(4242));
    write(&runner, &home, &[theirs]).unwrap();
    let mut wishful = file("mine", b"x");
    wishful.entry.uid = Some(0);
    write_as(&runner, Some(SOMEBODY), &home, &[wishful]).unwrap();
    assert_eq!(
        fs_err::metadata(home.join("mine")).unwrap().uid(),
        4242,
        "nobody gives files to root"
    );
}

#[test]
fn existing_directories_keep_what_they_hold_and_files_are_replaced() {
    let runner = Runner::start();
    let place = temporary_directory();
    write(
        &runner,
        place.path(),
        &[directory("d"), file("d/old", b"old"), file("d/same", b"1")],
    )
    .unwrap();
    write(
        &runner,
        place.path(),
        &[directory("d"), file("d/same", b"2"), link("l", "d")],
    )
    .unwrap();
    write(&runner, place.path(), &[link("l", "elsewhere")]).unwrap();
    assert_eq!(fs_err::read(place.path().join("d/old")).unwrap(), b"old");
    assert_eq!(fs_err::read(place.path().join("d/same")).unwrap(), b"2");
    assert_eq!(
        fs_err::read_link(place.path().join("l")).unwrap().to_str(),
        Some("elsewhere")
    );
    assert_eq!(
        write(&runner, place.path(), &[file("d", b"x")])
            .unwrap_err()
            .kind,
        FailedKind::Refused
    );
    assert!(no_temporaries(place.path()));
}

#[test]
fn a_host_that_goes_away_leaves_nothing_half_written() {
    let runner = Runner::start();
    let place = temporary_directory();
    let request = Request::Write {
        path: place.path().as_str().into(),
        user: None,
    };
    let mut stream = runner.request(&request);
    Frame::control(&Reply::Entry(file("half", b"").entry))
        .write(&mut stream)
        .unwrap();
    Frame {
        channel: Channel::Data,
        payload: vec![1; 1000],
    }
    .write(&mut stream)
    .unwrap();
    eventually("under way", || !no_temporaries(place.path()));
    drop(stream);
    eventually("cleaned", || {
        place.path().read_dir_utf8().unwrap().count() == 0
    });
}

#[test]
fn what_is_too_deep_is_refused() {
    let runner = Runner::start();
    let place = temporary_directory();
    let deep = "d/".repeat(300);
    fs_err::create_dir_all(place.path().join(deep)).unwrap();
    let failed = read_as(&runner, None, place.path()).unwrap_err();
    assert_eq!(failed.kind, FailedKind::Refused);
    assert!(failed.message.contains("deep"), "{failed:?}");
}

#[test]
fn an_answer_reaches_a_host_that_is_still_sending() {
    let runner = Runner::start();
    let place = temporary_directory();
    let large = vec![7; 4 << 20];
    let failed = write_as(&runner, Some(SOMEBODY), place.path(), &[file("x", &large)]).unwrap_err();
    assert_eq!(failed.kind, FailedKind::Refused);
}

fn below(runner: &Runner, root: &Utf8Path, work: Work) -> UnixStream {
    runner.request(&Request::Below(Below {
        root: root.as_str().into(),
        user: None,
        work,
    }))
}

fn settled(mut stream: UnixStream) -> Reply {
    loop {
        let frame = Frame::read(&mut stream).unwrap().expect("an answer");
        if frame.channel == Channel::Control {
            match frame.message().unwrap() {
                Reply::Listed(_) => {}
                reply => return reply,
            }
        }
    }
}

#[test]
fn work_below_a_directory_passes_through_no_link() {
    let runner = Runner::start();
    let place = camino_tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    fs_err::create_dir_all(root.join("in")).unwrap();
    fs_err::write(place.path().join("secret"), "canary").unwrap();
    fs_err::write(root.join("in/file"), "inside").unwrap();
    symlink(place.path(), root.join("out")).unwrap();
    symlink(&root, place.path().join("link")).unwrap();
    let done = |work: Work| matches!(settled(below(&runner, &root, work)), Reply::Done { .. });
    let look = |path: &str| Work::Look { path: path.into() };
    let list = |path: &str| Work::List {
        path: path.into(),
        limit: 10,
    };
    let read = |path: &str| Work::Read {
        path: path.into(),
        offset: 0,
        length: 10,
    };
    assert!(done(list("")) && done(list("in")) && done(look("out")));
    for path in [
        "..",
        "../secret",
        "/etc/passwd",
        "out/secret",
        "in/../../secret",
    ] {
        let remove = Work::Remove { path: path.into() };
        let rename = Work::Rename {
            from: "in/file".into(),
            to: path.into(),
        };
        let link = Work::Link {
            path: path.into(),
            target: "x".into(),
        };
        for work in [look(path), list(path), read(path), remove, rename, link] {
            assert!(!done(work.clone()), "{work:?}");
        }
    }
    assert!(!done(list("out")) && !done(read("out")));
    let through = settled(below(&runner, &place.path().join("link"), list("in")));
    assert!(
        matches!(through, Reply::Failed(_)),
        "the root itself is no link"
    );
    assert_eq!(
        fs_err::read_to_string(root.join("in/file")).unwrap(),
        "inside"
    );
    assert_eq!(
        fs_err::read_to_string(place.path().join("secret")).unwrap(),
        "canary"
    );
    assert!(
        done(Work::Remove { path: "out".into() }),
        "the link itself goes"
    );
    assert!(place.path().join("secret").exists());
}
