use std::io::Write as _;

use wire::guest::{PROTOCOL, Reply, Request};
use wire::{Channel, Frame};

use crate::runner::{Runner, eventually, is_alive};

#[test]
fn hello_says_who_it_is() {
    let runner = Runner::start();
    let mut stream = runner.request(&Request::Hello);
    let reply: Reply = Frame::read(&mut stream)
        .unwrap()
        .unwrap()
        .message()
        .unwrap();
    let Reply::Hello(hello) = reply else {
        panic!("{reply:?}")
    };
    assert_eq!((hello.protocol, hello.generation), (PROTOCOL, 3));
    assert_eq!(
        (hello.sandbox.as_str(), hello.boot.as_str()),
        ("sandbox-1", "boot-1")
    );
}

#[test]
fn nonsense_closes_the_connection_and_nothing_else() {
    let runner = Runner::start();
    let too_long = [u32::MAX.to_le_bytes().as_slice(), &[0]].concat();
    let nonsense: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &too_long,
        &Frame {
            channel: Channel::Control,
            payload: b"{\"dance\":1}".to_vec(),
        }
        .encode(),
        &Frame {
            channel: Channel::Stdin,
            payload: b"x".to_vec(),
        }
        .encode(),
        b"",
    ];
    for bytes in nonsense {
        let mut stream = runner.connect();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(
            !matches!(Frame::read(&mut stream), Ok(Some(_))),
            "{bytes:?}"
        );
    }
    assert_eq!(runner.sh("exit 0").outcome().exited.code, 0);
}

#[test]
fn orphans_are_reaped() {
    let runner = Runner::start();
    let outcome = runner.sh("(sleep 0.1 & echo $!) ; exit 0").outcome();
    let orphan = outcome.text().trim().to_owned();
    eventually("reaped", || {
        !std::path::Path::new(&format!("/proc/{orphan}")).exists()
    });
    eventually("the group is removed", || runner.groups().is_empty());
}

#[test]
fn terminating_it_ends_what_runs() {
    let mut runner = Runner::start();
    let pid = runner.sh("exec sleep 1000").started();
    let mut session = runner.sh("exec sleep 1000");
    let kept = session.started();
    let runner_pid = rustix::process::Pid::from_raw(runner.pid()).unwrap();
    rustix::process::kill_process(runner_pid, rustix::process::Signal::TERM).unwrap();
    assert!(runner.wait().success());
    eventually("both dead", || !is_alive(pid) && !is_alive(kept));
}

#[test]
fn as_pid_one_it_is_ended_from_outside_alone() {
    testkit::apart::start_anew_with_pid_one().expect("a PID 1 needs root");
    let mut runner = Runner::start();
    for signal in ["TERM", "INT", "HUP", "KILL"] {
        let outcome = runner.sh(&format!("kill -{signal} 1")).outcome();
        assert_eq!(outcome.exited.code, 0, "{signal}");
        assert_eq!(runner.sh("exit 5").outcome().exited.code, 5, "{signal}");
    }
    let pid = rustix::process::Pid::from_raw(runner.pid()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(runner.wait().success());
}

#[test]
fn it_cannot_be_looked_into() {
    let runner = Runner::start();
    let mut session = runner.sh("cat");
    session.started();
    let status = fs_err::metadata(format!("/proc/{}/environ", runner.pid())).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&status), 0);
    let mut exec = crate::runner::sh(&format!("cat /proc/{}/maps", runner.pid()));
    exec.user = Some("4242:4242".to_owned());
    let outcome = runner.exec(exec).outcome();
    assert_ne!(outcome.exited.code, 0);
    assert!(outcome.stdout.is_empty());
}
