use std::time::{Duration, Instant};

use wire::guest::{FailedKind, Input, Reply, Request};
use wire::{Channel, Frame, Raw};

use crate::runner::{Runner, argv, eventually, is_alive, sh};

#[test]
fn output_and_exit_code_come_back() {
    let runner = Runner::start();
    let outcome = runner.sh("echo out; echo err >&2; exit 7").outcome();
    assert_eq!(outcome.text(), "out\n");
    assert_eq!(outcome.stderr, b"err\n");
    assert_eq!(
        (
            outcome.exited.code,
            outcome.exited.signal,
            outcome.exited.timed_out
        ),
        (7, None, false)
    );
}

#[test]
fn it_works_without_a_cgroup() {
    let runner = Runner::start_without_cgroup();
    let outcome = runner.sh("echo out; exit 3").outcome();
    assert_eq!((outcome.text(), outcome.exited.code), ("out\n", 3));
}

#[test]
fn a_signal_from_the_host_reaches_the_whole_process_group() {
    let runner = Runner::start();
    let mut session =
        runner.sh("trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.01; done");
    session.started();
    session.read_until("ready");
    session.say(&Input::Signal(libc::SIGUSR1));
    let outcome = session.finish();
    assert_eq!((outcome.text(), outcome.exited.code), ("caught\n", 5));

    let mut session = runner.exec(argv(&["sleep", "1000"]));
    session.started();
    session.say(&Input::Signal(libc::SIGTERM));
    let outcome = session.finish();
    assert_eq!(
        (outcome.exited.code, outcome.exited.signal),
        (143, Some(15))
    );
}

#[test]
fn input_of_any_bytes_gets_through_and_ends() {
    let runner = Runner::start();
    let mut session = runner.exec(argv(&["cat"]));
    session.started();
    let bytes: Vec<u8> = (0..=255u8).cycle().take(10_000).collect();
    session.input(&bytes);
    session.input(b"");
    assert_eq!(session.finish().stdout, bytes);
}

#[test]
fn much_output_is_complete() {
    let runner = Runner::start();
    let outcome = runner
        .sh("head -c 33554432 /dev/zero | tr '\\0' x")
        .outcome();
    assert_eq!(outcome.stdout.len(), 32 << 20);
    assert!(outcome.stdout.iter().all(|byte| *byte == b'x'));
}

#[test]
fn a_command_that_does_not_read_does_not_hold_up_its_output_or_end() {
    let runner = Runner::start();
    let mut session = runner.sh("echo first; sleep 0.3; echo second");
    session.started();
    let mut writer = session.stream.try_clone().unwrap();
    let pushing = std::thread::spawn(move || {
        let frame = Frame {
            channel: Channel::Stdin,
            payload: vec![b'x'; 200 << 10],
        };
        while frame.write(&mut writer).is_ok() {}
    });
    let outcome = session.finish();
    assert_eq!(
        (outcome.text(), outcome.exited.code),
        ("first\nsecond\n", 0)
    );
    pushing.join().unwrap();
}

#[test]
fn a_command_that_closes_its_input_goes_on() {
    let runner = Runner::start();
    let mut session = runner.sh("exec 0<&-; echo closed; sleep 0.1; echo end");
    session.started();
    session.read_until("closed");
    for _ in 0..10 {
        session.input(&[b'x'; 1000]);
    }
    assert_eq!(session.finish().text(), "end\n");
}

#[test]
fn a_slow_host_slows_the_command() {
    let runner = Runner::start();
    let marker = camino_tempfile::tempdir().unwrap();
    let file = marker.path().join("done");
    let mut session = runner.sh(&format!("head -c 8000000 /dev/zero; touch {file}"));
    session.started();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!file.exists(), "somebody buffered 8 MB");
    let outcome = session.finish();
    assert_eq!(outcome.stdout.len(), 8_000_000);
    assert!(file.exists());
}

#[test]
fn the_end_is_told_though_the_background_keeps_the_pipe() {
    let runner = Runner::start();
    let start = Instant::now();
    let outcome = runner.sh("sleep 1000 & echo $!; exit 4").outcome();
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(outcome.exited.code, 4);
    let left: i32 = outcome.text().trim().parse().unwrap();
    assert!(
        is_alive(left),
        "what a command left in the background lives on"
    );

    let outcome = runner.sh("yes & exit 0").outcome();
    assert_eq!(outcome.exited.code, 0);
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "one that never falls silent is left, too"
    );
}

#[test]
fn a_timeout_kills_daemonised_grandchildren() {
    let runner = Runner::start();
    let daemon = "setsid sh -c 'echo $$; exec sleep 1000' & wait";
    // Without a cgroup one that left its session and its parent cannot be found.
    let script = if runner.has_cgroup() {
        format!("({daemon}) & sleep 1000")
    } else {
        daemon.to_owned()
    };
    let mut exec = sh(&script);
    exec.timeout_ms = Some(400);
    let mut session = runner.exec(exec);
    let leader = session.started();
    let outcome = session.finish();
    let daemon: i32 = outcome.text().trim().parse().unwrap();
    assert!(outcome.exited.timed_out);
    assert_eq!((outcome.exited.code, outcome.exited.signal), (137, Some(9)));
    eventually("both dead", || !is_alive(daemon) && !is_alive(leader));
    eventually("the group is removed", || runner.groups().is_empty());
}

#[test]
fn a_timeout_without_a_cgroup_kills_the_session_and_the_children() {
    let runner = Runner::start_without_cgroup();
    let mut exec = sh("sh -c 'echo $$; exec sleep 1000' & wait");
    exec.timeout_ms = Some(300);
    let outcome = runner.exec(exec).outcome();
    assert!(outcome.exited.timed_out);
    let child: i32 = outcome.text().trim().parse().unwrap();
    eventually("dead", || !is_alive(child));
}

#[test]
fn a_timeout_without_a_cgroup_finds_daemons_by_their_mark() {
    let runner = Runner::start_without_cgroup();
    let daemon = "(setsid sh -c 'echo $$; exec sleep 1000' &) ; sleep 1000";
    let mut exec = sh(daemon);
    exec.timeout_ms = Some(500);
    let outcome = runner.exec(exec).outcome();
    assert!(outcome.exited.timed_out);
    let child: i32 = outcome.text().trim().parse().unwrap();
    eventually("dead", || !is_alive(child));
}

#[test]
fn closing_the_connection_kills_the_tree() {
    let runner = Runner::start();
    let mut session = runner.sh("setsid sh -c 'echo $$ ready; exec sleep 1000' & sleep 1000");
    let leader = session.started();
    let line = session.read_until("ready");
    let daemon: i32 = line.split_whitespace().next().unwrap().parse().unwrap();
    drop(session);
    eventually("both dead", || !is_alive(daemon) && !is_alive(leader));
    eventually("the group is removed", || runner.groups().is_empty());
}

#[test]
fn closing_is_noticed_while_output_and_input_are_stuck() {
    let runner = Runner::start();
    let mut session = runner.sh("yes");
    let leader = session.started();
    // Enough input to be stuck in the command's pipe, with more waiting in the socket.
    let frame = Frame {
        channel: Channel::Stdin,
        payload: vec![0; 100 << 10],
    }
    .encode();
    session
        .stream
        .set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    while std::io::Write::write_all(&mut session.stream, &frame).is_ok() {}
    assert!(is_alive(leader));
    drop(session);
    eventually("dead", || !is_alive(leader));
}

#[test]
fn what_a_whole_command_leaves_behind_ends_with_it() {
    let runner = Runner::start();
    let daemon = "(setsid sh -c 'echo $$ ready; exec sleep 1000' &) ; sleep 0.2; exit 3";
    let mut session = crate::runner::Session {
        stream: runner.request(&Request::Whole(sh(daemon))),
    };
    session.started();
    let line = session.read_until("ready");
    let left: i32 = line.split_whitespace().next().unwrap().parse().unwrap();
    assert_eq!(session.finish().exited.code, 3);
    eventually("dead", || !is_alive(left));
}

#[test]
fn a_detached_command_outlives_its_connection() {
    let runner = Runner::start();
    let directory = camino_tempfile::tempdir().unwrap();
    let file = directory.path().join("done");
    let mut exec = sh(&format!("echo lost; sleep 0.2; touch {file}"));
    exec.detach = true;
    let mut session = runner.exec(exec);
    session.started();
    assert!(
        Frame::read(&mut session.stream).unwrap().is_none(),
        "closed after Started"
    );
    eventually("it finished", || file.exists());

    let mut exec = argv(&["sleep", "1000"]);
    (exec.detach, exec.timeout_ms) = (true, Some(200));
    let pid = runner.exec(exec).started();
    assert!(is_alive(pid));
    eventually("the timeout applies", || !is_alive(pid));
    eventually("the groups are removed", || runner.groups().is_empty());
}

#[test]
fn what_is_not_there_is_named() {
    let runner = Runner::start();
    let failed = runner.exec(argv(&["no-such-program"])).failed();
    assert_eq!(failed.kind, FailedKind::NotFound);
    assert!(failed.message.contains("no-such-program"), "{failed:?}");

    let failed = runner.exec(argv(&["/etc/passwd"])).failed();
    assert_eq!(failed.kind, FailedKind::Refused);
    assert!(failed.message.contains("permission denied"), "{failed:?}");

    let mut exec = argv(&["true"]);
    exec.cwd = Some("/no/such/directory".into());
    let failed = runner.exec(exec).failed();
    assert_eq!(failed.kind, FailedKind::NotFound);
    assert!(failed.message.contains("/no/such/directory"), "{failed:?}");

    for user in ["ghost", "root:ghosts"] {
        let mut exec = argv(&["true"]);
        exec.user = Some(user.to_owned());
        let failed = runner.exec(exec).failed();
        assert_eq!(failed.kind, FailedKind::NotFound);
        assert!(failed.message.contains("ghost"), "{failed:?}");
    }

    let directory = camino_tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    fs_err::write(&script, "#!/no/such/interpreter\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(&script, executable).unwrap();
    let failed = runner.exec(argv(&[script.as_str()])).failed();
    assert!(failed.message.contains("interpreter"), "{failed:?}");
    eventually("the groups are removed", || runner.groups().is_empty());
}

#[test]
fn the_environment_is_the_default_the_sandboxs_and_the_execs() {
    let runner = Runner::start();
    let mut exec = argv(&["env"]);
    exec.env = vec![
        ("BOTH".into(), "exec".into()),
        (Raw(vec![b'R', 0xff]), Raw(vec![0xfe])),
    ];
    let outcome = runner.exec(exec).outcome();
    let lines: Vec<&[u8]> = outcome.stdout.split(|byte| *byte == b'\n').collect();
    for line in [
        "FROM_CONFIG=yes",
        "BOTH=exec",
        "HOME=/root",
        "USER=root",
        "LANG=C.UTF-8",
    ] {
        assert!(lines.contains(&line.as_bytes()), "{line} in {lines:?}");
    }
    assert!(lines.contains(&&[b'R', 0xff, b'=', 0xfe][..]));
    assert!(
        !lines
            .iter()
            .any(|line| line.starts_with(b"TERM=") || line.starts_with(b"CARGO"))
    );
}

#[test]
fn a_command_gets_the_asked_for_ids_and_nothing_of_ours() {
    let runner = Runner::start();
    let mut exec = sh(
        "id -u; id -g; ls /proc/self/fd; umask; grep -E 'Sig(Blk|Ign)' /proc/self/status; \
                       ps -o sid= -p $$; echo $$; echo x >/dev/stdout; cat /proc/self/oom_score_adj",
    );
    exec.user = Some("4242:4343".to_owned());
    let outcome = runner.exec(exec).outcome();
    let lines: Vec<&str> = outcome.text().split_whitespace().collect();
    assert_eq!(lines[..2], ["4242", "4343"]);
    // `ls` itself has the directory open as 3.
    assert_eq!(lines[2..6], ["0", "1", "2", "3"]);
    assert_eq!(lines[6], "0022");
    assert_eq!(
        lines[7..11],
        ["SigBlk:", "0000000000000000", "SigIgn:", "0000000000000000"]
    );
    assert_eq!(lines[11], lines[12], "its own session");
    assert_eq!(lines[13..], ["x", "500"]);
}

#[test]
fn fifty_at_once_each_get_their_own() {
    let runner = Runner::start();
    let sessions: Vec<_> = (0..50)
        .map(|n| runner.sh(&format!("sleep 0.2; echo {n}; exit {n}")))
        .collect();
    for (n, session) in sessions.into_iter().enumerate() {
        let outcome = session.outcome();
        assert_eq!(outcome.text(), format!("{n}\n"));
        assert_eq!(usize::try_from(outcome.exited.code).unwrap(), n);
    }
    eventually("the groups are removed", || runner.groups().is_empty());
}

#[test]
fn one_operation_too_many_is_turned_away() {
    let runner = Runner::start();
    let held: Vec<_> = (0..256).map(|_| runner.connect()).collect();
    let mut session = runner.sh("true");
    assert_eq!(session.failed().kind, FailedKind::Exhausted);
    drop(held);
    eventually("room again", || {
        let mut session = runner.sh("true");
        matches!(session.reply(), Reply::Started { .. })
    });
}
