//! `nacre up` and the browser of whoever typed it.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::Nacre;
use crate::exec::Terminal;
use crate::world::{Running, eventually};

/// A home, and a browser that writes down what it is to show.
fn nacre() -> Nacre {
    let nacre = Nacre::new();
    let browser = nacre.path("browser");
    let opened = nacre.path("opened");
    let script = format!("#!/bin/sh\necho \"$1\" > {opened}.new && mv {opened}.new {opened}\n");
    fs_err::write(&browser, script).unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    fs_err::set_permissions(&browser, mode).unwrap();
    nacre
        .with("DISPLAY", ":7")
        .with("BROWSER", browser.as_str())
}

fn free_address() -> String {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    free.local_addr().unwrap().to_string()
}

/// Starts a server at a terminal, waits until it has said all, and ends it.
fn up(nacre: &Nacre, arguments: &[&str], last_words: &str) {
    let address = free_address();
    let arguments = [&["up", "--listen", &address], arguments].concat();
    let mut terminal = Terminal::open(40, 100);
    let mut command = nacre.command(arguments);
    let command = command
        .stdout(terminal.end())
        .stderr(terminal.end())
        .stdin(terminal.end());
    let mut server = Running(command.spawn().unwrap());
    terminal.shows("Nacre is up at");
    terminal.shows(last_words);
    kill_process(Pid::from_child(&server.0), Signal::INT).unwrap();
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_link_is_opened_before_whoever_started_the_server() {
    let nacre = nacre();
    up(&nacre, &[], "opened in your browser");
    let opened = fs_err::read_to_string(nacre.path("opened")).unwrap();
    assert!(opened.starts_with("http://"), "{opened}");
}

#[test]
fn a_browser_that_fails_changes_nothing() {
    let mut nacre = nacre();
    nacre.variables.retain(|(name, _)| name != "BROWSER");
    let nacre = nacre.with("BROWSER", "/no/such/browser");
    // Nor is there anything behind the display.
    up(&nacre, &[], "Open in a browser");
}

#[test]
fn no_browser_is_opened_for_who_does_not_want_or_see_one() {
    let wanted = nacre();
    up(&wanted, &["--no-open"], "Open in a browser");
    let mut far = nacre();
    far.variables.retain(|(name, _)| name != "DISPLAY");
    up(&far, &[], "Open in a browser");
    // A program reads it.
    let piped = nacre();
    let mut command = piped.command(["up", "--listen", &free_address()]);
    let said = fs_err::File::create(piped.path("said")).unwrap();
    let command = command.stdout(said.into_parts().0).stderr(Stdio::null());
    let mut server = Running(command.spawn().unwrap());
    eventually("it is up", || {
        let said = fs_err::read_to_string(piped.path("said"));
        said.unwrap().contains("Open in a browser")
    });
    kill_process(Pid::from_child(&server.0), Signal::INT).unwrap();
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
    for nacre in [wanted, far, piped] {
        assert!(!nacre.path("opened").exists());
    }
}
