//! What was told stays told, whatever dies.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use model::{Id, Session};
use nacre_store::{Config, Location, Replay, Store};

use crate::oracle::Oracle;
use crate::world::runtime;

/// The example `load`, beside this test.
fn load() -> Command {
    let test = Utf8PathBuf::from_path_buf(std::env::current_exe().unwrap()).unwrap();
    let built = test.parent().and_then(Utf8Path::parent).unwrap();
    Command::new(built.join("examples/load"))
}

fn appending(file: &Utf8Path) -> Child {
    load()
        .args(["append", file.as_str(), "5"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Ends it after some lines, and answers what it had been told of: the last number of each session.
fn end(mut process: Child, lines: usize) -> BTreeMap<Id<Session>, u64> {
    let mut said = BufReader::new(process.stdout.take().unwrap());
    let mut text = String::new();
    for _ in 0..lines {
        said.read_line(&mut text).unwrap();
    }
    process.kill().unwrap();
    process.wait().unwrap();
    said.read_to_string(&mut text).unwrap();
    // The last line may have been cut.
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let mut told: BTreeMap<Id<Session>, u64> = BTreeMap::new();
    for line in whole.lines() {
        let (session, seq) = line.split_once(' ').unwrap();
        let last = told.entry(session.parse().unwrap()).or_default();
        let seq: u64 = seq.parse().unwrap();
        assert_eq!(seq, *last + 1, "told in order and without gap");
        *last = seq;
    }
    told
}

async fn verify(file: &Utf8Path, told: &BTreeMap<Id<Session>, u64>) {
    let store = Store::open(&Config::new(Location::File(file.to_owned())))
        .await
        .unwrap();
    for (session, last) in told {
        let mut log = Vec::new();
        while let Replay::Events { events, .. } = store
            .events_after(*session, log.len() as u64, 1000)
            .await
            .unwrap()
            && !events.is_empty()
        {
            log.extend(events);
        }
        let seqs: Vec<u64> = log.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=log.len() as u64).collect::<Vec<u64>>());
        assert!(
            log.len() as u64 >= *last,
            "{last} were told, {} are there",
            log.len()
        );
        let record = store.load_session(*session).await.unwrap();
        assert_eq!(record.last_seq, log.len() as u64);
        let mut messages = Vec::new();
        loop {
            let after = messages
                .last()
                .map_or(0, |m: &nacre_store::transcript::Message| m.position);
            let page = store.messages_after(*session, after, 1000).await.unwrap();
            if page.is_empty() {
                break;
            }
            messages.extend(page);
        }
        assert_eq!(messages, Oracle::of(&log).transcript());
    }
    store.close().await.unwrap();
}

/// A different number of lines each time, without asking for chance: the same ones every time.
fn some(round: usize) -> usize {
    (round * 7919) % 211
}

#[test]
fn nothing_that_was_told_is_lost_when_the_writer_is_killed() {
    let directory = camino_tempfile::tempdir().unwrap();
    let mut events = 0;
    for round in 0..40 {
        // Few files, so that one is opened again after several deaths.
        let file = directory.path().join(format!("{}.db", round % 4));
        let process = appending(&file);
        let told = end(process, some(round));
        events += told.values().sum::<u64>();
        runtime().block_on(verify(&file, &told));
    }
    assert!(events > 1000, "{events} events are no test");
}

#[test]
fn one_of_two_writers_is_killed_and_the_other_goes_on() {
    let directory = camino_tempfile::tempdir().unwrap();
    let file = directory.path().join("nacre.db");
    let stays = appending(&file);
    let mut told = BTreeMap::new();
    for round in 1..=8 {
        told.extend(end(appending(&file), some(round)));
    }
    told.extend(end(stays, 500));
    assert!(told.len() >= 10, "both wrote: {told:?}");
    runtime().block_on(verify(&file, &told));
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn a_full_disk_is_an_error_and_nothing_else() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting a small file system takes root");
        return;
    }
    let directory = camino_tempfile::tempdir().unwrap();
    let load = load().get_program().to_owned();
    let script = "mount -t tmpfs -o size=8m,mode=700 none \"$1\" && \"$2\" full \"$1\"";
    // The mount ends with its namespace.
    let ended = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(directory.path())
        .arg(load)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}{complaint}");
    assert!(said.contains("whole with"), "{said}");
}

#[test]
fn a_writer_that_is_stopped_for_a_while_harms_nobody() {
    let directory = camino_tempfile::tempdir().unwrap();
    let file = directory.path().join("nacre.db");
    let stopped = appending(&file);
    let pid = rustix::process::Pid::from_child(&stopped);
    let signal = |signal| rustix::process::kill_process(pid, signal).unwrap();
    // It may be stopped with the right to write in its hands: then others wait for it.
    signal(rustix::process::Signal::STOP);
    let others = std::thread::spawn({
        let file = file.clone();
        move || end(appending(&file), 100)
    });
    std::thread::sleep(Duration::from_millis(300));
    signal(rustix::process::Signal::CONT);
    let mut told = others.join().unwrap();
    told.extend(end(stopped, 50));
    runtime().block_on(verify(&file, &told));
}
