//! The tools that people have, inside a sandbox with a policed way out: real ones, real registries.

use std::process::{Command, Stdio};

use crate::based::Based;
use crate::world::{Running, eventually};

/// A package each, small and without dependencies, as `user` and as root.
#[test]
#[expect(clippy::print_stderr, reason = "what is skipped is said")]
fn package_managers_and_git_work_behind_the_proxy() {
    let Some(mut based) = Based::slim() else {
        return;
    };
    let repository = Repository::serve();
    let private = format!("[\"{}\"]", repository.host);
    let variable = ("NACRE_EGRESS__PRIVATE".to_owned(), private);
    based.nacre.variables.push(variable);
    let allowed = format!("{}:{}", repository.host, repository.port);
    let id = based.create(&["--net", "proxy", "--allow", &allowed]);

    let apt =
        "sudo apt-get -qq update && sudo apt-get -qq -y install hello >/dev/null && hello -g pearl";
    assert_eq!(based.user_says(&id, apt), "pearl");

    let pip = "pip3 install -q --user --break-system-packages six==1.16.0 2>&1 && python3 -c 'import six; print(six.__version__)'";
    assert_eq!(based.user_says(&id, pip), "1.16.0");

    let npm = "mkdir -p /tmp/n && cd /tmp/n && npm install --silent is-number@7.0.0 && node -p 'require(\"is-number\")(5)'";
    assert_eq!(based.user_says(&id, npm), "true");

    let toolchain = toolchain();
    let place = format!("{id}:/opt/rust");
    let copied = based
        .nacre
        .run(["sandbox", "cp", toolchain.path().as_str(), &place]);
    assert_eq!(copied.code, Some(0), "{}", copied.transcript());
    let fetch = "mkdir -p /tmp/c/src && cd /tmp/c && touch src/lib.rs && \
        printf '[package]\nname = \"c\"\nedition = \"2021\"\n[dependencies]\nitoa = \"=1.0.15\"\n' > Cargo.toml && \
        PATH=/opt/rust/bin:$PATH cargo fetch -q && ls ~/.cargo/registry/src/*/";
    assert_eq!(based.user_says(&id, fetch), "itoa-1.0.15");

    if repository.host == LOOPBACK {
        eprintln!("skipped: git through the proxy, for this machine's name has no address");
    } else {
        let clone =
            format!("cd /tmp && git clone -q http://{allowed}/pearl.git && cat pearl/layers");
        assert_eq!(based.user_says(&id, &clone), "nacre");
    }

    let refused = based.user_says(&id, "curl -s http://refused.example/; true");
    assert!(refused.contains("refused.example"), "{refused}");
    // What is allowed may be written down a moment after it began.
    eventually("every decision is in the log", || {
        let log = based.nacre.run(["--json", "sandbox", "egress", &id]).json();
        let is_there = |host: &str, verdict: &str| {
            let records = log["records"].as_array().into_iter().flatten();
            records
                .filter(|record| record["host"] == host)
                .any(|record| record["verdict"] == verdict)
        };
        let cloned = repository.host == LOOPBACK || is_there(&repository.host, "allowed");
        is_there("refused.example", "refused") && cloned
    });
}

#[test]
fn a_base_has_a_user_who_may_become_root_and_is_built_once() {
    let Some(based) = Based::slim() else { return };
    let again = based.nacre.run(["base", "build", "--slim"]);
    assert!(again.stdout.starts_with("built already\n"), "{again:?}");
    let id = based.create(&[]);
    let script =
        "id -u; sudo id -u; sudo touch /usr/written; echo $HOME; ls -d /workspace/. ~/workspace/.";
    assert_eq!(
        based.user_says(&id, script),
        "1000\n0\n/home/user\n/home/user/workspace/.\n/workspace/."
    );
    let pins: Vec<String> = include_str!("../../../../images/base/versions")
        .lines()
        .filter(|line| line.starts_with("OPENCODE") || line.starts_with("NODE"))
        .filter_map(|line| Some(line.split_once('=')?.1.to_owned()))
        .collect();
    let versions = based.user_says(&id, "opencode --version; node --version | tr -d v");
    assert_eq!(versions.lines().collect::<Vec<_>>(), pins);
}

/// The programs of the toolchain that tests us, without its libraries for other programs.
fn toolchain() -> camino_tempfile::Utf8TempDir {
    let directory = camino_tempfile::tempdir().unwrap();
    let script = "s=$(rustc --print sysroot) && mkdir bin lib && cp $s/bin/cargo $s/bin/rustc bin && \
        cp $s/lib/*.so* lib";
    let copied = Command::new("sh")
        .args(["-c", script])
        .current_dir(directory.path())
        .status()
        .unwrap();
    assert!(copied.success());
    directory
}

const LOOPBACK: &str = "127.0.0.1";

/// A git repository behind plain HTTP, at the name of this machine: what goes to a loopback address
/// by its number never leaves the sandbox.
pub(crate) struct Repository {
    pub(crate) host: String,
    pub(crate) port: u16,
    _server: Running,
    _directory: camino_tempfile::Utf8TempDir,
}

impl Repository {
    /// As a port of the same number on a sandbox's loopback.
    pub(crate) fn forward(&self) -> (u16, std::net::SocketAddr) {
        use std::net::ToSocketAddrs as _;

        let mut addresses = (self.host.as_str(), self.port).to_socket_addrs().unwrap();
        (
            self.port,
            addresses.next().expect("the name has an address"),
        )
    }

    pub(crate) fn serve() -> Self {
        Self::serve_with("true")
    }

    /// With what the script puts into its folder.
    pub(crate) fn serve_with(script: &str) -> Self {
        let directory = camino_tempfile::tempdir().unwrap();
        let script = format!(
            "git init -q -b main work && cd work && echo nacre > layers && {{\n{script}\n}} && git add . && \
             git -c user.name=n -c user.email=n@example.com commit -qm one && cd .. && \
             git clone -q --bare work pearl.git && git -C pearl.git update-server-info"
        );
        let made = Command::new("sh")
            .args(["-ec", &script])
            .current_dir(directory.path())
            .status()
            .unwrap();
        assert!(made.success());
        let name = fs_err::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let free = |host: &str| {
            let listener = std::net::TcpListener::bind((host, 0))?;
            listener.local_addr().map(|address| address.port())
        };
        // A machine that does not know its own name is still good for some of it.
        let (host, port) = match free(name.trim()) {
            Ok(port) => (name.trim(), port),
            Err(_) => (LOOPBACK, free(LOOPBACK).unwrap()),
        };
        let server = Command::new("python3")
            .args(["-m", "http.server", "--bind", host, &port.to_string()])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the repository is served", || {
            std::net::TcpStream::connect((host, port)).is_ok()
        });
        Self {
            host: host.to_owned(),
            port,
            _server: Running(server),
            _directory: directory,
        }
    }
}
