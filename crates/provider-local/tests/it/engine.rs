//! What the local engine does beyond the contract.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use model::{ByteCount, SnapshotId};
use nacre_provider_local::{Config, Local};
use provider::{
    ExecSpec, Forward, Kept, Origin, Provider as _, ProviderError, SandboxId, SandboxSpec,
    SandboxState,
};
use rustix::process::{Signal, kill_process};

use crate::home::TestHome;

pub(crate) async fn sh(local: &Local, id: SandboxId, script: &str) -> String {
    let exec = local
        .exec(id, ExecSpec::new(["sh", "-c", script]))
        .await
        .expect("it starts");
    let finished = exec.finish().await.expect("it ends");
    let stderr = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert_eq!(finished.exit.code, 0, "{script}: {stderr}");
    String::from_utf8_lossy(&finished.stdout).trim().to_owned()
}

pub(crate) async fn bare(local: &Local) -> SandboxId {
    local
        .create(&SandboxSpec::from(Origin::Bare))
        .await
        .expect("a sandbox")
        .id
}

async fn from(local: &Local, snapshot: &SnapshotId) -> SandboxId {
    let spec = SandboxSpec::from(Origin::Snapshot(snapshot.clone()));
    local
        .create(&spec)
        .await
        .expect("a sandbox from the snapshot")
        .id
}

async fn state(local: &Local, id: SandboxId) -> SandboxState {
    let all = local.list(&[]).await.expect("a list");
    all.into_iter()
        .find(|s| s.id == id)
        .expect("it is listed")
        .state
}

/// Whether the file system under the home keeps disk limits by itself.
fn keeps_limits(local: &Local) -> bool {
    local.capabilities().limits.disk == provider::Strength::Hard
}

/// Waits until a sandbox is in a state; the deadline is generous because tests share two cores.
pub(crate) async fn until(local: &Local, id: SandboxId, wanted: &SandboxState) {
    for _ in 0..600 {
        if state(local, id).await == *wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{id} is {:?}, not {wanted:?}", state(local, id).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_gets_no_more_disk_than_its_limit_or_is_frozen_over_it() {
    let home = TestHome::new("disk-limit");
    let local = home.open();
    let spec = SandboxSpec {
        disk: Some(ByteCount::new(4 << 20)),
        ..SandboxSpec::from(Origin::Bare)
    };
    let id = local.create(&spec).await.expect("a sandbox").id;
    if keeps_limits(&local) {
        let words = sh(
            &local,
            id,
            "head -c 16M /dev/zero 2>&1 > /root/large || echo refused; rm /root/large; echo > /root/small",
        )
        .await;
        assert!(
            words.contains("quota exceeded") && words.ends_with("refused"),
            "{words}"
        );
        home.clear().await;
        return;
    }
    sh(&local, id, "head -c 16M /dev/zero > /root/large").await;
    until(&local, id, &SandboxState::Paused { kept: Kept::Memory }).await;
    assert_eq!(
        local.show(id).await.expect("it is shown").reason.as_deref(),
        Some("disk_limit")
    );
    let refused = local
        .exec(id, ExecSpec::new(["true"]))
        .await
        .expect_err("it is frozen");
    assert!(
        matches!(refused, ProviderError::Refused { .. }),
        "{refused}"
    );
    local
        .resume(id)
        .await
        .expect("a person may let it go on, to tidy up");
    sh(&local, id, "rm /root/large").await;
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_sandbox_goes_to_disk_after_a_time_and_comes_back_from_it() {
    let home = TestHome::new("to-disk");
    let config = Config {
        to_disk_after: Duration::from_millis(300),
        ..Config::at(home.path.clone())
    };
    let local = Local::open(&config).expect("the home opens");
    let id = bare(&local).await;
    sh(
        &local,
        id,
        "echo pearl > /root/kept; echo gone > /dev/shm/memory",
    )
    .await;
    assert_eq!(local.pause(id).await.expect("it pauses").kept, Kept::Memory);
    until(&local, id, &SandboxState::Paused { kept: Kept::Disk }).await;
    let resumed = local.resume(id).await.expect("it resumes");
    assert_eq!(resumed.kept, Kept::Disk);
    assert_eq!(state(&local, id).await, SandboxState::Running);
    assert_eq!(sh(&local, id, "cat /root/kept; ls /dev/shm").await, "pearl");
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarded_port_leads_from_inside_to_the_host() {
    let home = TestHome::new("forward");
    let local = home.open();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("bound");
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut asked = [0u8; 5];
        stream.read_exact(&mut asked).expect("a question");
        stream.write_all(b"from the host: ").expect("an answer");
        stream.write_all(&asked).expect("an answer");
    });
    let spec = SandboxSpec {
        forwards: vec![Forward { port: 8080, to }],
        ..SandboxSpec::from(Origin::Bare)
    };
    let id = local.create(&spec).await.expect("a sandbox").id;
    let script = "exec 3<>/dev/tcp/127.0.0.1/8080; printf pearl >&3; cat <&3";
    let exec = local
        .exec(id, ExecSpec::new(["bash", "-c", script]))
        .await
        .expect("it starts");
    let finished = exec.finish().await.expect("it ends");
    assert_eq!(
        String::from_utf8_lossy(&finished.stdout),
        "from the host: pearl"
    );
    answering.join().expect("it answered");
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deep_stack_is_flattened_and_is_still_the_same_tree() {
    let home = TestHome::new("flatten");
    let local = home.open();
    let mut id = bare(&local).await;
    sh(
        &local,
        id,
        "mkdir -p /root/dir/sub; echo 0 > /root/dir/sub/file; echo gone > /root/deleted",
    )
    .await;
    let mut snapshot = local
        .stop(id)
        .await
        .expect("it stops")
        .snapshot
        .expect("a snapshot");
    // The host, the first stop, and one layer for each round; past 64 the next create flattens.
    for round in 0..63 {
        id = from(&local, &snapshot).await;
        let script = format!(
            "echo {round} >> /root/log; mv /root/dir /root/dir{round} && mv /root/dir{round} /root/dir; rm -f /root/deleted"
        );
        sh(&local, id, &script).await;
        snapshot = local
            .stop(id)
            .await
            .expect("it stops")
            .snapshot
            .expect("a snapshot");
    }
    let before = local.digest_snapshot(&snapshot).await.expect("a digest");
    assert!(before.layers.len() > 64, "{}", before.layers.len());
    id = from(&local, &snapshot).await;
    assert_eq!(
        local
            .show_snapshot(&snapshot)
            .await
            .expect("it is shown")
            .layers
            .len(),
        1
    );
    let verified = local.verify_snapshot(&snapshot).await.expect("it is read");
    assert!(verified.ok, "flattening changed the tree: {verified:?}");
    assert_eq!(
        sh(
            &local,
            id,
            "wc -l < /root/log; cat /root/dir/sub/file; ls /root"
        )
        .await,
        "63\n0\ndir\nlog"
    );
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_forks_does_not_grow_deeper_than_a_stack_may_be() {
    let home = TestHome::new("fork-chain");
    let local = home.open();
    let mut id = bare(&local).await;
    sh(&local, id, "mkdir /root/dir; echo gone > /root/deleted").await;
    let mut deepest = 0;
    for round in 0..70 {
        let forked = local.fork(id, 1).await.expect("it forks");
        local.remove(id).await.expect("it is removed");
        id = forked[0].id;
        let script = format!("echo {round} > /root/dir/{round}; rm -f /root/deleted");
        sh(&local, id, &script).await;
        let layers = local.show(id).await.expect("it is shown").layers;
        deepest = deepest.max(layers);
    }
    assert_eq!(deepest, 64);
    assert_eq!(
        sh(&local, id, "ls /root; ls /root/dir | wc -l").await,
        "dir\n70"
    );
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_deleted_but_open_counts_against_the_disk_limit() {
    let home = TestHome::new("disk-limit-open");
    let local = home.open();
    if keeps_limits(&local) {
        // The kernel counts blocks, whoever names them; there is nothing to watch.
        home.clear().await;
        return;
    }
    let spec = SandboxSpec {
        disk: Some(ByteCount::new(4 << 20)),
        ..SandboxSpec::from(Origin::Bare)
    };
    for holds in [
        "exec 3<> /root/large; rm /root/large; head -c 16M /dev/zero >&3; sleep 600",
        "head -c 16M /dev/zero > /root/large; exec python3 -c 'import mmap,os,time; \
         f=open(\"/root/large\",\"r+b\"); m=mmap.mmap(f.fileno(),0); os.remove(\"/root/large\"); f.close(); time.sleep(600)'",
    ] {
        let id = local.create(&spec).await.expect("a sandbox").id;
        let mut holder = ExecSpec::new(["sh", "-c", holds]);
        holder.detach = true;
        local.exec(id, holder).await.expect("it starts");
        until(&local, id, &SandboxState::Paused { kept: Kept::Memory }).await;
        assert_eq!(
            local.show(id).await.expect("it is shown").reason.as_deref(),
            Some("disk_limit")
        );
    }
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_that_dies_with_a_question_in_its_ear_is_replaced() {
    let home = TestHome::new("dying-keeper");
    let local = home.open();
    let id = bare(&local).await;
    let first = home.keeper(id);
    // As one that was killed and is not yet taken apart: it can be connected to, and is silent.
    kill_process(first, Signal::STOP).expect("it is there");
    // What nobody accepted yet has no inode.
    let is_asked = || {
        let sockets = fs_err::read_to_string("/proc/net/unix").expect("a list");
        sockets
            .lines()
            .filter(|line| line.ends_with("/keeper.sock"))
            .any(|line| line.split_whitespace().nth(6) == Some("0"))
    };
    let killing = async {
        while !is_asked() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        kill_process(first, Signal::KILL).expect("it is there");
    };
    let (door, ()) = tokio::join!(local.serve(id, "bell"), killing);
    door.expect("a new keeper opens it");
    assert_ne!(home.keeper(id), first);
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_door_is_found_again_by_a_new_keeper() {
    let home = TestHome::new("door-keeper");
    let local = home.open();
    let id = bare(&local).await;
    drop(local.serve(id, "bell").await.expect("a door"));
    let first = home.keeper(id);
    let flags = rustix::process::PidfdFlags::empty();
    let killed = rustix::process::pidfd_open(first, flags).unwrap();
    rustix::process::pidfd_send_signal(&killed, rustix::process::Signal::KILL).unwrap();
    let gone = rustix::event::PollFd::new(&killed, rustix::event::PollFlags::IN);
    rustix::event::poll(&mut [gone], None).unwrap();
    let mut door = local.serve(id, "bell").await.expect("the door again");
    local.serve(id, "other").await.expect("a new door");
    assert_ne!(home.keeper(id), first);
    let knock = local
        .exec(
            id,
            ExecSpec::new([
                "python3",
                "-c",
                "import socket; s=socket.socket(socket.AF_UNIX); s.connect('/run/nacre/bell'); s.send(b'x')",
            ]),
        )
        .await
        .expect("it starts");
    let _visitor = tokio::time::timeout(Duration::from_secs(20), door.accept())
        .await
        .expect("somebody comes")
        .expect("through the door");
    assert_eq!(knock.finish().await.expect("it ends").exit.code, 0);
    assert_eq!(
        sh(
            &local,
            id,
            "ls /run/nacre; touch /run/nacre/x 2>&1 | grep -c Read-only; true"
        )
        .await,
        "bell\nenv\nother\n1"
    );
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_disk_has_the_same_digest_under_another_id_range() {
    let home = TestHome::new("digest");
    let local = home.open();
    let id = bare(&local).await;
    sh(&local, id, "mkdir /home/user/p; echo x > /home/user/p/f; chown -R 1000:1000 /home/user/p; chmod 4750 /home/user/p/f").await;
    let first = local
        .snapshot(id, None)
        .await
        .expect("a snapshot")
        .snapshot
        .expect("an id");
    let fork = local.fork(id, 1).await.expect("a fork").remove(0).id;
    let ranges = (
        local.show(id).await.expect("shown").first_id,
        local.show(fork).await.expect("shown").first_id,
    );
    assert_ne!(ranges.0, ranges.1);
    let second = local
        .stop(fork)
        .await
        .expect("it stops")
        .snapshot
        .expect("a snapshot");
    let digests = (
        local
            .digest_snapshot(&first)
            .await
            .expect("a digest")
            .digest,
        local
            .digest_snapshot(&second)
            .await
            .expect("a digest")
            .digest,
    );
    assert!(digests.0.is_some());
    assert_eq!(digests.0, digests.1);
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_the_last_that_needs_a_layer_removes_the_layer() {
    let home = TestHome::new("layers");
    let local = home.open();
    let layers = || {
        std::fs::read_dir(home.path.join("layers"))
            .expect("the layers")
            .count()
    };
    let id = bare(&local).await;
    let skeleton = layers();
    sh(&local, id, "echo x > /root/x").await;
    let snapshot = local
        .stop(id)
        .await
        .expect("it stops")
        .snapshot
        .expect("a snapshot");
    let child = from(&local, &snapshot).await;
    local
        .delete_snapshot(&snapshot)
        .await
        .expect("it is deleted");
    assert_eq!(
        sh(&local, child, "cat /root/x").await,
        "x",
        "its child still has what it needs"
    );
    assert_eq!(layers(), skeleton + 1);
    local.remove(child).await.expect("it is removed");
    assert_eq!(layers(), skeleton);
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_file_system_comes_from_a_directory_and_from_a_tar() {
    let home = TestHome::new("rootfs");
    let local = home.open();
    let source = camino::Utf8PathBuf::from(format!("{}-source", home.path));
    let _ = std::fs::remove_dir_all(&source);
    fs_err::create_dir_all(source.join("bin")).expect("a directory");
    let probe = testkit::probe_path().expect("the probe");
    // A dynamic program needs its libraries; the runner itself is static and needs nothing.
    fs_err::copy(&probe, source.join("bin/probe")).expect("the probe is copied");
    for library in [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib/x86_64-linux-gnu/libgcc_s.so.1",
        "/lib64/ld-linux-x86-64.so.2",
    ] {
        let to = source.join(library.trim_start_matches('/'));
        fs_err::create_dir_all(to.parent().expect("a parent")).expect("a directory");
        fs_err::copy(library, to).expect("a library is copied");
    }
    let tar = source.with_extension("tar.gz");
    let packed = std::process::Command::new("tar")
        .args(["-C", source.as_str(), "-czf", tar.as_str(), "."])
        .status();
    assert!(packed.expect("tar runs").success());
    let mut digests = Vec::new();
    for path in [&source, &tar, &tar] {
        let id = local
            .create(&SandboxSpec::from(Origin::Rootfs(path.into())))
            .await
            .expect("a sandbox")
            .id;
        let exec = local
            .exec(id, ExecSpec::new(["/bin/probe", "exit", "7"]))
            .await
            .expect("it starts");
        assert_eq!(exec.finish().await.expect("it ends").exit.code, 7);
        let snapshot = local
            .stop(id)
            .await
            .expect("it stops")
            .snapshot
            .expect("a snapshot");
        digests.push(
            local
                .digest_snapshot(&snapshot)
                .await
                .expect("a digest")
                .digest,
        );
    }
    assert_eq!(digests[0], digests[1]);
    assert_eq!(digests[1], digests[2]);
    let _ = std::fs::remove_dir_all(&source);
    let _ = fs_err::remove_file(&tar);
    home.clear().await;
}

/// Programs take two names with one device and inode for one file: `diff` finds them equal, `mv`
/// refuses, `tar` and `rsync` link them.
#[tokio::test(flavor = "multi_thread")]
async fn no_two_files_of_a_sandbox_look_like_one() {
    let home = TestHome::new("inodes");
    let local = home.open();
    let mut id = bare(&local).await;
    for round in 0..3 {
        let make = format!(
            "mkdir /root/{round}; for i in $(seq 40); do echo {round} $i > /root/{round}/$i; done; \
            echo again >> /root/0/7; mv /root/{round}/9 /root/{round}/nine"
        );
        sh(&local, id, &make).await;
        let twice = sh(
            &local,
            id,
            "find /root /etc /srv /var -xdev -type f -links 1 -printf '%D:%i\n' | sort | uniq -d",
        )
        .await;
        assert_eq!(twice, "", "round {round}");
        id = if round == 1 {
            local.fork(id, 1).await.expect("it forks")[0].id
        } else {
            let snapshot = local.stop(id).await.expect("it stops").snapshot;
            from(&local, &snapshot.expect("a snapshot")).await
        };
    }
    home.clear().await;
}
