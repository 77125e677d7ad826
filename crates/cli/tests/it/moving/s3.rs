//! A store that speaks S3, on this machine: moto's server, in a virtual environment of its own that
//! is made once below the target directory.

use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use camino::Utf8PathBuf;

use super::snapshot;
use crate::Nacre;
use crate::world::{Running, World, eventually, text};

const SERVER: &str = "moto[s3,server]==5.2.5";

/// Where the server's program is; installed if it is not there yet.
fn program() -> Option<Utf8PathBuf> {
    let target = Utf8PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let place = target.join("s3-server");
    let program = place.join("bin/moto_server");
    if program.exists() {
        return Some(program);
    }
    let run = |program: &str, arguments: &[&str]| {
        let status = Command::new(program)
            .args(arguments)
            .stdout(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    let pip = place.join("bin/pip");
    let made = run("python3", &["-m", "venv", place.as_str()])
        && run(pip.as_str(), &["install", "--quiet", SERVER]);
    made.then_some(program)
}

/// A server with one bucket, and the variables that lead to it.
fn serve() -> Option<(Running, Vec<(&'static str, String)>)> {
    let Some(program) = program() else {
        #[expect(clippy::print_stderr, reason = "a test that is left out says so")]
        {
            eprintln!("SKIPPED: {SERVER} could not be installed with python3 and pip");
        }
        return None;
    };
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let child = Command::new(program)
        .args(["-H", "127.0.0.1", "-p", &port.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Running(child);
    eventually("the store answers", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let endpoint = format!("http://127.0.0.1:{port}");
    let made = Command::new("python3")
        .args([
            "-c",
            "import sys, urllib.request as u; u.urlopen(u.Request(sys.argv[1], method='PUT'))",
        ])
        .arg(format!("{endpoint}/pearls"))
        .status()
        .unwrap();
    assert!(made.success(), "the bucket is made");
    let variables = vec![
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "testing".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "testing".to_owned()),
    ];
    Some((server, variables))
}

fn with(variables: &[(&str, String)]) -> World {
    let nacre = variables
        .iter()
        .fold(Nacre::new(), |nacre, (name, value)| nacre.with(name, value));
    World { nacre }
}

#[test]
fn a_snapshot_goes_through_an_s3_store_and_is_not_sent_twice() {
    let Some((_server, variables)) = serve() else {
        return;
    };
    let (here, there) = (with(&variables), with(&variables));
    let id = snapshot(
        &here,
        "head -c 30M /dev/urandom > /root/large; echo grit > /root/seed",
    );
    let place = "s3://pearls/some/where";
    let first = here.ok(&["snapshot", "export", &id, place]);
    assert!(first["sent"]["bytes"].as_u64() > Some(30 << 20), "{first}");
    let second = here.ok(&["snapshot", "export", &id, place]);
    assert_eq!(second["sent"]["bytes"], 0, "{second}");
    let imported = there.ok(&["snapshot", "import", place]);
    assert_eq!(imported["digest"], first["digest"]);
    let sandbox = there.ok(&["sandbox", "create", "--from", &text(&imported["id"])]);
    assert_eq!(there.says(&text(&sandbox["id"]), "cat /root/seed"), "grit");
    // What is not there is said so.
    let ran = there
        .nacre
        .run(["snapshot", "import", "s3://pearls/nowhere"]);
    assert_eq!(ran.code, Some(4), "{}", ran.transcript());
    let ran = here
        .nacre
        .run(["snapshot", "export", &id, "s3://no-such-bucket/x"]);
    assert!(ran.code != Some(0), "{}", ran.transcript());
}
