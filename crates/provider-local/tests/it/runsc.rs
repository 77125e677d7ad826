//! What the second runtime does beyond the contract. It needs gVisor's runsc; `make test` installs
//! it, `nacre doctor --fix` too.

use std::time::Duration;

use model::SnapshotId;
use nacre_provider_local::{Config, Local};
use provider::{
    ExecSpec, Isolation, Kept, Origin, Provider as _, Runtime, SandboxId, SandboxSpec, SandboxState,
};
use rustix::process::{Signal, kill_process};

use crate::engine::{sh, until};
use crate::home::TestHome;

fn spec(origin: Origin) -> SandboxSpec {
    SandboxSpec {
        runtime: Runtime::Runsc,
        ..SandboxSpec::from(origin)
    }
}

async fn bare(local: &Local) -> SandboxId {
    let made = local.create(&spec(Origin::Bare)).await;
    made.expect("a sandbox").id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gvisor_sandbox_has_a_kernel_of_its_own_and_says_so() {
    let home = TestHome::new("runsc-kernel");
    let local = home.open();
    let sandbox = local.create(&spec(Origin::Bare)).await.expect("a sandbox");
    assert_eq!(
        (sandbox.runtime, sandbox.isolation),
        (Runtime::Runsc, Isolation::UserKernel)
    );
    let listed = local.list(&[]).await.expect("a list");
    assert_eq!(listed[0].isolation, Isolation::UserKernel);
    let inside = sh(&local, sandbox.id, "cat /proc/version").await;
    let outside = fs_err::read_to_string("/proc/version").expect("a kernel");
    assert_ne!(inside, outside.trim());
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gvisor_sandbox_stays_one_through_fork_and_start_from_disk() {
    let home = TestHome::new("runsc-stays");
    let config = Config {
        to_disk_after: Duration::from_millis(300),
        ..Config::at(home.path.clone())
    };
    let local = Local::open(&config).expect("the home opens");
    let id = bare(&local).await;
    sh(&local, id, "echo pearl > /root/file").await;
    let forks = local.fork(id, 1).await.expect("a fork");
    assert_eq!(forks[0].runtime, Runtime::Runsc);
    assert_eq!(sh(&local, forks[0].id, "cat /root/file").await, "pearl");
    local.pause(id).await.expect("it pauses");
    until(&local, id, &SandboxState::Paused { kept: Kept::Disk }).await;
    local.resume(id).await.expect("it comes back");
    let version = sh(&local, id, "cat /proc/version; cat /root/file").await;
    assert!(version.ends_with("pearl"), "{version}");
    assert_eq!(
        local.show(id).await.expect("shown").sandbox.runtime,
        Runtime::Runsc
    );
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gvisor_sandbox_outlives_its_keeper_and_gets_another() {
    let home = TestHome::new("runsc-keeper");
    let local = home.open();
    let id = bare(&local).await;
    kill_process(home.keeper(id), Signal::KILL).expect("it is there");
    assert_eq!(sh(&local, id, "echo on").await, "on");
    let mut door = local
        .serve(id, "bell")
        .await
        .expect("a new keeper opens it");
    let knock = local
        .exec(
            id,
            ExecSpec::new(["python3", "-c", "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/nacre/bell'); s.sendall(b'knock'); s.recv(1)"]),
        )
        .await
        .expect("it starts");
    let mut stream = tokio::time::timeout(Duration::from_secs(20), door.accept())
        .await
        .expect("someone comes")
        .expect("someone comes in");
    let mut heard = [0; 5];
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut heard)
        .await
        .expect("it says something");
    assert_eq!(&heard, b"knock");
    drop(stream);
    knock.finish().await.expect("it ends");
    local.pause(id).await.expect("it pauses");
    local.resume(id).await.expect("it goes on");
    let stopped = local.stop(id).await.expect("it stops");
    assert!(stopped.snapshot.is_some());
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_gvisor_wrote_is_the_same_disk_under_the_native_runtime() {
    let home = TestHome::new("runsc-disk");
    let local = home.open();
    let id = bare(&local).await;
    let work = "cd /root && mkdir -p a/b && echo one > a/b/f && ln a/b/f hard && ln -s a soft && \
                chown 1000:7 a/b/f && chmod 4750 hard && truncate -s 16M hole && \
                echo tmp > /tmp/kept && rm -f /etc/issue && \
                python3 -c \"import mmap; f = open('m', 'wb+'); f.truncate(8192); \
                m = mmap.mmap(f.fileno(), 8192); m[5000:5005] = b'pearl'\"";
    sh(&local, id, work).await;
    // Sizes and link counts of directories are each kernel's own.
    let look = "cd /root; find . -printf '%P %y %m %U %G %l\n' | sort; \
                find . -type f -printf '%P %n %s\n' | sort; cat a/b/f m /tmp/kept | sha256sum; \
                ls -A /tmp; ls /etc/issue 2> /dev/null; true";
    let before = sh(&local, id, look).await;
    // Live, so that nothing had a reason to be written back.
    let snapshot: SnapshotId = local
        .snapshot(id, None)
        .await
        .expect("a snapshot")
        .snapshot
        .expect("it has a name");
    let native = local
        .create(&SandboxSpec::from(Origin::Snapshot(snapshot)))
        .await
        .expect("a native sandbox from it")
        .id;
    assert_eq!(sh(&local, native, look).await, before);
    let blocks = sh(&local, native, "stat -c %b /root/hole").await;
    assert_eq!(blocks, "0", "a hole is still one");
    assert!(
        before.ends_with("kept"),
        "nothing of ours is left: {before}"
    );
    home.clear().await;
}

/// gVisor says yes to some of it; nothing comes of that.
#[tokio::test(flavor = "multi_thread")]
async fn what_brought_a_gvisor_sandbox_up_is_out_of_reach_once_it_is_up() {
    let home = TestHome::new("runsc-boot");
    let local = home.open();
    let id = bare(&local).await;
    let directory = home.path.join(format!("sandboxes/{id}"));
    assert!(!directory.join("boot").exists());
    let work = "cd /run/nacre; chmod 777 . nacre; chown 5 . nacre; touch x boot/x; mkdir y boot/y; \
                mv nacre z; rm -f nacre; echo > nacre; mount -t tmpfs none boot; \
                python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('boot/guest.sock')\"; \
                python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('bell')\"; \
                (stat -c '%n %a %u' . nacre; ls; ls -A boot) 2> /dev/null";
    let left = sh(&local, id, &format!("({work}) 2> /dev/null; true")).await;
    assert_eq!(left, ". 755 65534\nnacre 711 0\nboot\nenv\nnacre");
    let socket = fs_err::symlink_metadata(directory.join("guest.sock")).expect("our way in");
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&socket) & 0o777, 0o600);
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&socket), 0);
    home.clear().await;
}

/// Measured on the host: gVisor's own account of processor time goes on while it is throttled.
#[tokio::test(flavor = "multi_thread")]
async fn a_gvisor_sandbox_gets_no_more_processor_than_its_share() {
    let home = TestHome::new("runsc-cpu");
    let local = home.open();
    let limited = SandboxSpec {
        cpu_millis: Some(250),
        ..spec(Origin::Bare)
    };
    let id = local.create(&limited).await.expect("a sandbox").id;
    let pid = local.show(id).await.expect("shown").pid.expect("it runs");
    let before = used_micros(pid);
    let spin = "timeout 2 sh -c 'while :; do :; done'; true";
    let began = std::time::Instant::now();
    sh(&local, id, spin).await;
    let (used, took) = (used_micros(pid) - before, began.elapsed().as_micros());
    // A quarter, and a period or two more.
    let most = took / 4 + 150_000;
    assert!(u128::from(used) <= most, "{used} µs in {took} µs");
    home.clear().await;
}

/// What the cgroup of a process has used; the v2 hierarchy counts it on every machine.
fn used_micros(pid: i32) -> u64 {
    let mounts = fs_err::read_to_string("/proc/self/mounts").expect("mounts");
    let mut mounts = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let place = mounts.find(|fields| fields.get(2) == Some(&"cgroup2"));
    let place = place.expect("a v2 hierarchy")[1].to_owned();
    let groups = fs_err::read_to_string(format!("/proc/{pid}/cgroup")).expect("its cgroups");
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let path = format!("{place}{}/cpu.stat", group.expect("a v2 cgroup"));
    let text = fs_err::read_to_string(path).expect("its use");
    let used = text
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "));
    used.and_then(|number| number.parse().ok())
        .expect("a number")
}
