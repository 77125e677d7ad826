//! A hostile root, and a hostile user, inside: `nacre-intruder` makes every attempt it knows, and
//! none may succeed. The attempts by name are in `docs/guarantees.md`.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Command};

use bytes::Bytes;
use model::ByteCount;
use nacre_provider_local::Local;
use provider::{
    ExecInput, ExecOutput, ExecSpec, FileEntry, FileKind, Origin, Provider as _, Runtime,
    SandboxId, SandboxSpec, files_from,
};

use crate::home::TestHome;

const INTRUDER: &str = "/opt/nacre-intruder";

/// Mounts that a sandbox on the host's `/usr` has beyond those of every sandbox.
const EXPECTED_MOUNTS: [&str; 5] = [
    "/usr",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/machine-id",
    "/etc/resolv.conf",
];

/// Things of the host that nobody inside may see.
struct Canaries {
    sleeper: Child,
    port: TcpListener,
    socket_name: String,
    _socket: UnixListener,
    file: camino::Utf8PathBuf,
}

impl Canaries {
    fn plant(home: &TestHome) -> Self {
        let socket_name = format!("nacre-canary-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&socket_name).expect("a valid name");
        let file = camino::Utf8PathBuf::from(format!("{}-canary", home.path));
        fs_err::write(&file, "canary").expect("the canary can be written");
        Self {
            sleeper: Command::new("sleep")
                .arg("98765")
                .spawn()
                .expect("sleep runs"),
            port: TcpListener::bind("127.0.0.1:0").expect("a port"),
            _socket: UnixListener::bind_addr(&address).expect("the abstract socket"),
            socket_name,
            file,
        }
    }

    fn arguments(&self, home: &TestHome) -> Vec<String> {
        let mut arguments: Vec<String> = ["--inside", "--canary-cmdline", "98765"]
            .map(str::to_owned)
            .into();
        let host = rustix::system::uname();
        let pairs = [
            ("--canary-file", self.file.to_string()),
            ("--canary-pid", self.sleeper.id().to_string()),
            (
                "--canary-name",
                host.nodename().to_string_lossy().into_owned(),
            ),
            ("--abstract-socket", self.socket_name.clone()),
            (
                "--host-port",
                self.port.local_addr().expect("bound").port().to_string(),
            ),
            ("--layer-dir", home.path.to_string()),
        ];
        for (name, value) in pairs {
            arguments.extend([name.to_owned(), value]);
        }
        for mount in EXPECTED_MOUNTS {
            arguments.extend(["--expect-mount".to_owned(), mount.to_owned()]);
        }
        arguments
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        let _ = self.sleeper.kill();
        let _ = self.sleeper.wait();
        let _ = fs_err::remove_file(&self.file);
    }
}

async fn sandbox_with_intruder(local: &Local, runtime: Runtime) -> SandboxId {
    let spec = SandboxSpec {
        runtime,
        memory: Some(ByteCount::new(512 << 20)),
        pids: Some(256),
        cpu_millis: Some(2000),
        ..SandboxSpec::from(Origin::Bare)
    };
    let id = local.create(&spec).await.expect("a sandbox").id;
    let intruder = testkit::program_path("nacre-intruder").expect("the intruder is built");
    let entry = FileEntry {
        path: b"nacre-intruder".to_vec(),
        kind: FileKind::File,
        mode: 0o755,
        uid: None,
        gid: None,
    };
    let content = Bytes::from(fs_err::read(intruder).expect("the intruder can be read"));
    local
        .write_files(id, b"/opt", None, files_from(vec![(entry, content)]))
        .await
        .expect("it is written");
    id
}

async fn nothing_gives(name: &str, user: &str, extra: &[&str]) {
    let (lines, code) = attempts(name, user, &[extra], Runtime::Native).await;
    let broken: Vec<&str> = lines.lines().filter(|line| got_through(line)).collect();
    assert!(
        broken.is_empty(),
        "attempts that got through:\n{}",
        broken.join("\n")
    );
    assert_eq!(code, 0, "{lines}");
    assert!(lines.lines().count() > 100, "the whole corpus ran: {lines}");
}

fn got_through(line: &str) -> bool {
    line.contains("\"held\":false")
}

/// What the intruder, run with each of these arguments, says of its attempts, a line each; and the
/// worst of its exit codes.
async fn attempts(name: &str, user: &str, runs: &[&[&str]], runtime: Runtime) -> (String, i32) {
    let home = TestHome::new(name);
    let local = home.open();
    let id = sandbox_with_intruder(&local, runtime).await;
    let canaries = Canaries::plant(&home);
    let (mut lines, mut code) = (String::new(), 0);
    for extra in runs {
        let mut argv = vec![INTRUDER.to_owned()];
        argv.extend(canaries.arguments(&home));
        argv.extend(extra.iter().map(|e| (*e).to_owned()));
        let spec = ExecSpec {
            user: Some(user.to_owned()),
            ..ExecSpec::new(argv)
        };
        let exec = local.exec(id, spec).await.expect("it starts");
        let finished = exec.finish().await.expect("it ends");
        lines.push_str(&String::from_utf8_lossy(&finished.stdout));
        code = code.max(finished.exit.code);
    }
    home.clear().await;
    (lines, code)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_root_gets_nowhere() {
    nothing_gives("sealed-root", "root", &["--bombs"]).await;
}

/// Those attempts that aim at something of the host's or of ours. The others ask what the kernel
/// inside allows, and under gVisor that is not the host's. There root may end PID 1, and the sandbox
/// with it, and see its map of memory, though not its memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_root_in_gvisor_gets_to_nothing_outside() {
    let aims = [
        "processes/",
        "pid-1/overwrite-program",
        "pid-1/process-vm",
        "pid-1/trace",
        "pid-1/steal-descriptor",
        "pid-1/root-and-directory",
        "files/see-",
        "doors/links",
        "doors/write-to-usr",
        "network/vsock",
        "network/packet",
        "network/raw-sockets",
        "network/interfaces",
        "network/routes",
        "network/host-port",
        "network/abstract-socket",
    ]
    .map(|aim| ["--only", aim]);
    let runs = aims.each_ref().map(<[&str; 2]>::as_slice);
    let (lines, _) = attempts("sealed-runsc", "root", &runs, Runtime::Runsc).await;
    let broken: Vec<&str> = lines.lines().filter(|line| got_through(line)).collect();
    assert!(
        broken.is_empty(),
        "attempts that got through:\n{}",
        broken.join("\n")
    );
    assert!(lines.lines().count() > 16, "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_user_gets_nowhere() {
    nothing_gives("sealed-user", "user", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_sandbox_cannot_use_up_what_another_needs() {
    let home = TestHome::new("sealed-budgets");
    let local = home.open();
    let (greedy, modest) = (
        sandbox_with_intruder(&local, Runtime::Native).await,
        sandbox_with_intruder(&local, Runtime::Native).await,
    );
    let hoard = ["--inside", "--hold", "--only", "budgets/"];
    let spec = |argv: &[&str]| ExecSpec::new(std::iter::once(INTRUDER).chain(argv.iter().copied()));
    let mut holding = local.exec(greedy, spec(&hoard)).await.expect("it starts");
    // It has taken all it can once it has reported every budget; it holds them until its input ends.
    let mut reported = String::new();
    while !reported.contains("budgets/locked-memory") {
        match holding
            .output
            .recv()
            .await
            .expect("it goes on")
            .expect("its output comes")
        {
            ExecOutput::Stdout(bytes) => reported.push_str(&String::from_utf8_lossy(&bytes)),
            ExecOutput::Stderr(_) => {}
            ExecOutput::Exit(exit) => panic!("it ended early: {exit:?}\n{reported}"),
        }
    }
    let free = ["--inside", "--only", "budgets/"];
    let other = local
        .exec(modest, spec(&free))
        .await
        .expect("it starts")
        .finish()
        .await
        .expect("it ends");
    let third = local.create(&SandboxSpec::from(Origin::Bare)).await;
    let _ = holding.input.send(ExecInput::Eof).await;
    drop(holding);
    home.clear().await;
    third.expect("another sandbox can still be made");
    let lines = String::from_utf8_lossy(&other.stdout).into_owned();
    assert_eq!(
        other.exit.code, 0,
        "the other sandbox lacks something:\n{lines}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runner_cannot_be_read_and_no_descriptor_leaks() {
    let home = TestHome::new("sealed-runner");
    let local = home.open();
    let id = local
        .create(&SandboxSpec::from(Origin::Bare))
        .await
        .expect("a sandbox")
        .id;
    let script = "cat /proc/1/exe; cat /proc/1/environ; ls /proc/1/fd; ls /proc/self/fd | wc -l";
    let finished = local
        .exec(id, ExecSpec::new(["sh", "-c", script]))
        .await
        .expect("it starts")
        .finish()
        .await
        .expect("it ends");
    home.clear().await;
    let (stdout, stderr) = (
        String::from_utf8_lossy(&finished.stdout),
        String::from_utf8_lossy(&finished.stderr),
    );
    // `ls` itself holds the directory: 0, 1, 2 and that one.
    assert_eq!(stdout.trim(), "4", "{stdout}");
    assert_eq!(stderr.matches("ermission denied").count(), 3, "{stderr}");
}
