use wire::guest::{Exec, Input, WindowSize};

use crate::runner::{Runner, eventually, is_alive, sh};

fn in_terminal(script: &str) -> Exec {
    let mut exec = sh(script);
    exec.pty = Some(WindowSize {
        rows: 31,
        columns: 97,
    });
    exec
}

#[test]
fn a_terminal_has_its_size_and_changes_it() {
    let runner = Runner::start();
    let script =
        "tty; stty size; trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.01; done";
    let mut session = runner.exec(in_terminal(script));
    session.started();
    let seen = session.read_until("ready");
    assert!(
        seen.contains("31 97") && seen.contains("/dev/pts/"),
        "{seen}"
    );
    session.say(&Input::Resize(WindowSize {
        rows: 50,
        columns: 132,
    }));
    let outcome = session.finish();
    assert!(outcome.text().contains("50 132"), "{outcome:?}");
    assert_eq!(outcome.exited.code, 0);
}

#[test]
fn a_terminal_echoes_interrupts_and_ends_input() {
    let runner = Runner::start();
    let mut session = runner.exec(in_terminal("echo $TERM; cat; echo after"));
    session.started();
    session.read_until("xterm-256color");
    session.input(b"pearl\n");
    let seen = session.read_until("pearl\r\npearl\r\n");
    assert_eq!(seen.matches("pearl").count(), 2, "the echo and cat's");
    session.input(b"");
    assert!(session.finish().text().contains("after"));

    let mut session = runner.exec(in_terminal("echo ready; exec cat"));
    session.started();
    session.read_until("ready");
    session.input(b"\x03");
    assert_eq!(session.finish().exited.signal, Some(libc::SIGINT));
}

#[test]
fn a_users_terminal_is_the_users() {
    let runner = Runner::start();
    let mut exec = in_terminal("stat -c %u $(tty); echo x >$(tty)");
    exec.user = Some("4242".to_owned());
    let outcome = runner.exec(exec).outcome();
    assert!(outcome.text().starts_with("4242\r\nx\r\n"), "{outcome:?}");
}

#[test]
fn hanging_up_kills_what_runs_in_a_terminal() {
    let runner = Runner::start();
    let mut session = runner.exec(in_terminal(
        "trap '' HUP; echo ready; sleep 1000; sleep 1000",
    ));
    let leader = session.started();
    session.read_until("ready");
    drop(session);
    eventually("dead", || !is_alive(leader));
    eventually("the group is removed", || runner.groups().is_empty());
}
