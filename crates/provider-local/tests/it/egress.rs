//! Sandboxes with a way out: what they reach, and what survives what.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use nacre_provider_local::{Config, EgressRecord, EgressSettings, EgressVerdict, Local};
use provider::{ExecSpec, Network, Origin, Pass, Provider as _, SandboxId, SandboxSpec};

use crate::home::TestHome;

/// Answers every request with `pearl`, as long as the test runs.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut asked = [0u8; 4096];
                while stream.read(&mut asked).is_ok_and(|read| read > 0) {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\npearl";
                    let _ = stream.write_all(answer);
                }
            });
        }
    });
    address
}

/// A home whose configuration lets sandboxes reach loopback, if their own list does.
fn open(home: &TestHome) -> Local {
    let egress = EgressSettings {
        registries: false,
        private: vec!["127.0.0.0/8".to_owned()],
        ..EgressSettings::default()
    };
    let config = Config {
        egress,
        ..Config::at(home.path.clone())
    };
    Local::open(&config).expect("the home opens")
}

async fn proxied(local: &Local, allow: &[String]) -> SandboxId {
    let spec = SandboxSpec {
        network: Network::Proxy,
        allow: allow.to_vec(),
        ..SandboxSpec::from(Origin::Bare)
    };
    local.create(&spec).await.expect("a sandbox").id
}

/// What the proxy answers to a request from inside.
async fn ask(local: &Local, id: SandboxId, request: &str) -> String {
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128; printf '{request}\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3"
    );
    let spec = ExecSpec {
        user: Some("user".to_owned()),
        ..ExecSpec::new(["bash", "-c", &script])
    };
    let exec = local.exec(id, spec).await.expect("it starts");
    let finished = exec.finish().await.expect("it ends");
    String::from_utf8_lossy(&finished.stdout).into_owned()
}

async fn get(local: &Local, id: SandboxId, server: SocketAddr) -> String {
    ask(local, id, &format!("GET http://{server}/ HTTP/1.1")).await
}

/// What was decided, once there is so much of it.
async fn decided(local: &Local, id: SandboxId, count: usize) -> Vec<EgressRecord> {
    let begun = Instant::now();
    loop {
        let mut records = local.egress_log(id).await.expect("a log");
        // The end of what was allowed is told too, together with it or a moment later.
        records.retain(|record| record.verdict != EgressVerdict::Closed);
        if records.len() >= count || begun.elapsed() > Duration::from_secs(10) {
            return records;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The processes of this home's proxies.
fn proxies(home: &TestHome) -> Vec<i32> {
    let program = format!("{}/bin/", home.path);
    let is_ours = |pid: &i32| {
        std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| {
            let path = path.to_string_lossy().into_owned();
            path.starts_with(&program) && path.ends_with("/nacre-egress")
        })
    };
    std::fs::read_dir("/proc")
        .expect("proc")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_ours)
        .collect()
}

async fn until(what: &str, mut check: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !check() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a process");
    let flags = rustix::process::PidfdFlags::empty();
    let process = rustix::process::pidfd_open(pid, flags).expect("it lives");
    rustix::process::pidfd_send_signal(&process, rustix::process::Signal::KILL).expect("killed");
    let gone = rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN);
    rustix::event::poll(&mut [gone], None).expect("it is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listed_server_is_reached_and_the_rest_is_refused_with_a_reason() {
    let home = TestHome::new("egress-listed");
    let local = open(&home);
    let server = server();
    let id = proxied(&local, &[server.to_string(), "*".to_owned()]).await;
    let answer = get(&local, id, server).await;
    assert!(answer.ends_with("\r\n\r\npearl"), "{answer}");
    for (request, reason) in [
        (
            "GET http://169.254.169.254/latest/meta-data/ HTTP/1.1",
            "metadata",
        ),
        ("CONNECT 127.0.0.1:22 HTTP/1.1", "port-not-listed"),
        ("CONNECT [::1]:443 HTTP/1.1", "loopback"),
        ("CONNECT 0x7f.1:443 HTTP/1.1", "odd-address"),
        ("CONNECT pypi.org.:443 HTTP/1.1", "trailing-dot"),
    ] {
        let answer = ask(&local, id, request).await;
        let told = format!("X-Nacre-Egress: refused; reason={reason}\r\n");
        assert!(answer.contains(&told), "{request}: {answer}");
    }
    let records = decided(&local, id, 6).await;
    let told: Vec<_> = records
        .iter()
        .map(|r| (r.verdict, r.reason.as_deref().unwrap_or("-")))
        .collect();
    assert_eq!(told[0], (EgressVerdict::Allowed, "-"), "{records:?}");
    assert_eq!(told[1], (EgressVerdict::Refused, "metadata"), "{records:?}");
    assert_eq!(told.len(), 6, "{records:?}");
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_list_nothing_is_reached_and_the_environment_says_how_to_try() {
    let home = TestHome::new("egress-none");
    let local = open(&home);
    let server = server();
    let id = proxied(&local, &[]).await;
    let answer = get(&local, id, server).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("reason=not-listed"), "{answer}");
    // The host lends its sudo; `make test` installs one.
    let script = "echo $https_proxy $HTTP_PROXY; sudo -n sh -c 'echo $https_proxy'";
    let spec = ExecSpec {
        user: Some("user".to_owned()),
        ..ExecSpec::new(["sh", "-c", script])
    };
    let finished = local.exec(id, spec).await.expect("it starts");
    let finished = finished.finish().await.expect("it ends");
    let proxy = "http://127.0.0.1:3128";
    assert_eq!(
        String::from_utf8_lossy(&finished.stdout),
        format!("{proxy} {proxy}\n{proxy}\n")
    );
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_is_killed_is_started_again_and_ends_with_its_sandbox() {
    let home = TestHome::new("egress-killed");
    let local = open(&home);
    let server = server();
    let id = proxied(&local, &[server.to_string()]).await;
    until("a proxy runs", || proxies(&home).len() == 1).await;
    let first = proxies(&home)[0];
    kill(first);
    until("another runs", || {
        proxies(&home).iter().any(|pid| *pid != first)
    })
    .await;
    assert!(get(&local, id, server).await.ends_with("pearl"));
    local.remove(id).await.expect("it is removed");
    until("no proxy is left", || proxies(&home).is_empty()).await;
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_keeper_takes_its_proxy_along_and_the_next_has_another() {
    let home = TestHome::new("egress-keeper");
    let local = open(&home);
    let server = server();
    let id = proxied(&local, &[server.to_string()]).await;
    assert!(get(&local, id, server).await.ends_with("pearl"));
    let path = home.path.join(format!("sandboxes/{id}/keeper.json"));
    let json: serde_json::Value =
        serde_json::from_str(&fs_err::read_to_string(path).expect("written")).expect("json");
    kill(i32::try_from(json["keeper"].as_i64().expect("a number")).expect("a process"));
    until("its proxy is gone", || proxies(&home).is_empty()).await;
    // The next nacre process to come along.
    drop(local);
    let local = open(&home);
    drop(local.serve(id, "bell").await.expect("a door"));
    until("a proxy runs", || proxies(&home).len() == 1).await;
    assert!(get(&local, id, server).await.ends_with("pearl"));
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_reaches_what_its_origin_may_whatever_the_configuration_says_by_now() {
    let home = TestHome::new("egress-fork");
    let local = open(&home);
    let server = server();
    let id = proxied(&local, &[server.to_string()]).await;
    // This one knows of no private address.
    let other = home.open();
    let fork = other.fork(id, 1).await.expect("a fork")[0].id;
    assert!(get(&other, fork, server).await.ends_with("pearl"));
    let fresh = proxied(&other, &[server.to_string()]).await;
    let answer = get(&other, fresh, server).await;
    assert!(answer.contains("reason=loopback"), "{answer}");
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_without_a_proxy_has_no_way_out_and_no_log() {
    let home = TestHome::new("egress-without");
    let local = open(&home);
    let spec = SandboxSpec::from(Origin::Bare);
    let id = local.create(&spec).await.expect("a sandbox").id;
    assert_eq!(ask(&local, id, "CONNECT a:443 HTTP/1.1").await, "");
    local.egress_log(id).await.expect_err("there is none");
    let listed = SandboxSpec {
        allow: vec!["pypi.org".to_owned()],
        ..spec
    };
    let refused = local.create(&listed).await.expect_err("a list for nothing");
    assert!(refused.to_string().contains("--net proxy"), "{refused}");
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_flight_at_the_proxy_does_not_keep_the_disk() {
    let home = TestHome::new("egress-flight");
    let local = open(&home);
    let id = proxied(&local, &[]).await;
    until("a proxy runs", || proxies(&home).len() == 1).await;
    let script = "import socket, os, array, time
s = socket.socket(socket.AF_UNIX); s.connect('/run/nacre/egress')
f = os.open('/root/held', os.O_CREAT | os.O_RDWR)
s.sendmsg([b'G'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [f]))])
print('sent', flush=True); time.sleep(600)";
    let mut exec = local
        .exec(id, ExecSpec::new(["python3", "-c", script]))
        .await
        .expect("it starts");
    exec.output
        .recv()
        .await
        .expect("it says so")
        .expect("it runs");
    let begun = Instant::now();
    local.stop(id).await.expect("it stops");
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(exec);
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_is_told_and_can_be_let_through_while_the_sandbox_runs() {
    let home = TestHome::new("egress-passes");
    let local = open(&home);
    let server = server();
    let id = proxied(&local, &[]).await;
    let looked = local.refusals(id, None).await.expect("nothing yet");
    assert_eq!(looked.blocked, []);
    assert!(get(&local, id, server).await.contains("reason=not-listed"));
    let looked = local.refusals(id, Some(&looked.mark)).await.expect("told");
    let told: Vec<_> = looked
        .blocked
        .iter()
        .map(|b| (&*b.host, b.port, &*b.reason))
        .collect();
    assert_eq!(told, [("127.0.0.1", server.port(), "not-listed")]);
    let again = local.refusals(id, Some(&looked.mark)).await.expect("told");
    assert_eq!(again.blocked, [], "told twice");
    let pass = |rule: String| Pass { rule, until: None };
    let passes = [pass(server.to_string()), pass("*".to_owned())];
    local.let_out(id, &passes).await.expect("let out");
    assert!(get(&local, id, server).await.ends_with("pearl"));
    // Not even everything is what is private.
    let answer = ask(&local, id, "CONNECT 169.254.169.254:80 HTTP/1.1").await;
    assert!(answer.contains("reason=metadata"), "{answer}");
    // It is the sandbox's, whoever keeps it: in memory and through another proxy.
    local.pause(id).await.expect("it pauses");
    local
        .let_out(id, &passes)
        .await
        .expect("while it is paused");
    local.resume(id).await.expect("it goes on");
    let first = proxies(&home)[0];
    kill(first);
    until("another runs", || {
        proxies(&home).iter().any(|pid| *pid != first)
    })
    .await;
    assert!(get(&local, id, server).await.ends_with("pearl"));
    // A fork has what its origin was made with, and no more.
    let fork = local.fork(id, 1).await.expect("a fork")[0].id;
    assert!(
        get(&local, fork, server)
            .await
            .contains("reason=not-listed")
    );
    let wrong = [pass("https://pearl.example".to_owned())];
    local.let_out(id, &wrong).await.expect_err("no rule");
    local.let_out(id, &[]).await.expect("nothing more");
    assert!(get(&local, id, server).await.contains("reason=not-listed"));
    // Nobody inside sees where it is written, or writes there.
    let script = "find / -xdev -name 'passes.json*' 2>/dev/null; ls /run/nacre";
    let exec = local.exec(id, ExecSpec::new(["sh", "-c", script])).await;
    let found = exec.expect("it starts").finish().await.expect("it ends");
    let found = String::from_utf8_lossy(&found.stdout);
    assert!(!found.contains("passes"), "{found}");
    home.clear().await;
}
