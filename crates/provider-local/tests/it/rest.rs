//! Layers at rest: what they take, whether they are whole, and when they go.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use camino::Utf8PathBuf;
use nacre_provider_local::Local;
use portable::Control;
use provider::{ExecSpec, Origin, Provider as _, ProviderError, SandboxId, SandboxSpec};
use tokio::task::JoinSet;

use crate::home::TestHome;

async fn run(local: &Local, id: SandboxId, script: &str) -> Result<String, ProviderError> {
    let exec = local.exec(id, ExecSpec::new(["sh", "-c", script])).await?;
    let finished = exec.finish().await?;
    assert_eq!(finished.exit.code, 0, "{script}: {finished:?}");
    Ok(String::from_utf8_lossy(&finished.stdout).trim().to_owned())
}

async fn sandbox(local: &Local, origin: Origin) -> SandboxId {
    let made = local.create(&SandboxSpec::from(origin)).await;
    made.expect("a sandbox").id
}

fn du(path: &Utf8PathBuf) -> u64 {
    let output = Command::new("du")
        .args(["-s", "--block-size=1", path.as_str()])
        .output()
        .expect("du runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.split_whitespace().next().expect("a number");
    number.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_adds_up_to_what_du_says() {
    let home = TestHome::new("usage");
    let local = home.open();
    let id = sandbox(&local, Origin::Bare).await;
    let script = "head -c 3M /dev/urandom > /srv/a; ln /srv/a /srv/b; cp /srv/a /srv/c; truncate -s 1G /srv/hole; mkdir -p /srv/many; for i in $(seq 500); do echo $i > /srv/many/$i; done; sync";
    run(&local, id, script).await.expect("it runs");
    let first = local.snapshot(id, Some("first")).await.expect("one");
    run(&local, id, "head -c 1M /dev/urandom > /srv/d; sync")
        .await
        .expect("it runs");
    local.stop(id).await.expect("it stops");
    for snapshot in local.snapshots().await.expect("a list") {
        local.digest_snapshot(&snapshot.id).await.expect("a digest");
    }
    fs_err::write(home.path.join("nacre.toml"), "# somebody's\n").expect("a file");
    let usage = local.usage().await.expect("a sum");
    assert_eq!(usage.total_bytes, du(&home.path), "{usage:?}");
    let by_layer: u64 = usage.by_layer.iter().map(|layer| layer.bytes).sum();
    assert!(usage.layers.bytes - by_layer < 64 << 10, "{usage:?}");
    // The host's skeleton is under both; what each holds itself is not.
    let skeleton = usage
        .by_layer
        .iter()
        .find(|layer| layer.id.starts_with("host-"));
    assert_eq!(skeleton.expect("it is there").snapshots, 2);
    let first = usage
        .by_snapshot
        .iter()
        .find(|s| Some(&s.id) == first.snapshot.as_ref());
    let first = first.expect("it is listed");
    assert!(
        first.own_bytes > 6 << 20 && first.shared_bytes > 0,
        "{first:?}"
    );
    let duplicates = local.duplicates().await.expect("a report");
    // `a` and `c` of each snapshot are one content; `b` is `a` itself.
    let largest = &duplicates.largest[0];
    assert_eq!(
        (largest.size, largest.copies),
        (3 << 20, 4),
        "{duplicates:?}"
    );
    assert!(duplicates.bytes >= 9 << 20, "{duplicates:?}");
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrub_names_the_layer_and_the_path_that_a_flipped_bit_is_in() {
    let home = TestHome::new("scrub");
    let local = home.open();
    let id = sandbox(&local, Origin::Bare).await;
    let script = "head -c 2M /dev/urandom > /srv/pearl; echo hidden > /srv/hidden; echo x > /srv/x";
    run(&local, id, script).await.expect("it runs");
    let lower = local
        .stop(id)
        .await
        .expect("it stops")
        .snapshot
        .expect("one");
    let id = sandbox(&local, Origin::Snapshot(lower.clone())).await;
    run(&local, id, "echo over > /srv/hidden")
        .await
        .expect("it runs");
    let upper = local
        .stop(id)
        .await
        .expect("it stops")
        .snapshot
        .expect("one");
    for id in [&lower, &upper] {
        local.digest_snapshot(id).await.expect("a digest");
    }
    let all = async || {
        local
            .verify_all(Arc::new(Control::default()))
            .await
            .expect("read")
    };
    assert!(all().await.iter().all(|one| one.ok));
    let layer = local.show_snapshot(&lower).await.expect("it").layers[0].clone();
    let flip = |path: &str, at: usize| {
        let file = home.path.join("layers").join(&layer).join("fs").join(path);
        let mut content = fs_err::read(&file).expect("the layer's file");
        content[at] ^= 1;
        fs_err::write(&file, content).expect("the bit is flipped");
    };
    flip("srv/pearl", 1_500_000);
    for one in all().await {
        assert!(!one.ok && one.expected.as_ref() != Some(&one.found));
        assert_eq!((one.damaged.len(), &one.damaged[0].layer), (1, &layer));
        assert_eq!(one.damaged[0].paths, ["/srv/pearl"]);
    }
    flip("srv/pearl", 1_500_000);
    assert!(all().await.iter().all(|one| one.ok), "mended");
    // What an upper layer covers is in no digest of the upper one; it is damaged all the same.
    flip("srv/hidden", 2);
    let one = local.verify_snapshot(&upper).await.expect("read");
    assert_eq!(one.expected.as_ref(), Some(&one.found));
    assert!(!one.ok);
    assert_eq!(one.damaged[0].paths, ["/srv/hidden"]);
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_vanished_or_changed_its_mode_is_found_too() {
    let home = TestHome::new("scrub-modes");
    let local = home.open();
    let id = sandbox(&local, Origin::Bare).await;
    run(&local, id, "echo x > /srv/gone; echo x > /srv/mode")
        .await
        .expect("it runs");
    let snapshot = local
        .stop(id)
        .await
        .expect("it stops")
        .snapshot
        .expect("one");
    let info = local.digest_snapshot(&snapshot).await.expect("a digest");
    let files = home
        .path
        .join("layers")
        .join(&info.layers[0])
        .join("fs/srv");
    fs_err::remove_file(files.join("gone")).expect("it goes");
    fs_err::write(files.join("new"), "").expect("it comes");
    rustix::fs::chmod(files.join("mode").as_std_path(), 0o777.into()).expect("it changes");
    let one = local.verify_snapshot(&snapshot).await.expect("read");
    assert_eq!(one.damaged[0].paths, ["/srv/gone", "/srv/mode", "/srv/new"]);
    home.clear().await;
}

/// Layers that nobody names, and have not for a day.
fn plant_orphans(home: &TestHome, round: usize) -> Vec<Utf8PathBuf> {
    (0..3)
        .map(|number| {
            let name = format!("lay_orphan{round}x{number}");
            let path = home.path.join("layers").join(&name);
            fs_err::create_dir_all(path.join("fs/some/where")).expect("made");
            fs_err::write(path.join("fs/some/where/file"), "garbage").expect("written");
            let json = format!(r#"{{"id":"{name}","created_at":"2020-01-01T00:00:00Z"}}"#);
            fs_err::write(path.join("layer.json"), json).expect("written");
            path
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_collections_takes_what_nobody_names_and_nothing_else() {
    const ROUNDS: usize = 6;
    let home = TestHome::new("gc-storm");
    let local = home.open();
    let id = sandbox(&local, Origin::Bare).await;
    run(&local, id, "echo base > /srv/base")
        .await
        .expect("it runs");
    let origin = local
        .stop(id)
        .await
        .expect("it stops")
        .snapshot
        .expect("one");
    let done = Arc::new(AtomicBool::new(false));
    let mut collectors = JoinSet::new();
    for _ in 0..2 {
        // Each as another process would be.
        let (local, done) = (home.open(), Arc::clone(&done));
        collectors.spawn(async move {
            let mut times = 0;
            while !done.load(Ordering::Relaxed) {
                local.collect_garbage().await.expect("it collects");
                local.usage().await.expect("it adds up meanwhile");
                times += 1;
            }
            times
        });
    }
    let mut workers = JoinSet::new();
    for worker in 0..3 {
        let (local, origin) = (home.open(), origin.clone());
        workers.spawn(async move {
            let mut kept = Vec::new();
            for round in 0..ROUNDS {
                let id = sandbox(&local, Origin::Snapshot(origin.clone())).await;
                let word = format!("{worker}-{round}");
                run(&local, id, &format!("echo {word} > /srv/word"))
                    .await
                    .expect("it runs");
                let forks = local.fork(id, 2).await.expect("it forks");
                let snapshot = local
                    .stop(id)
                    .await
                    .expect("it stops")
                    .snapshot
                    .expect("one");
                local.remove(forks[0].id).await.expect("it goes");
                if round % 2 == 0 {
                    kept.push((snapshot, forks[1].id, word));
                } else {
                    local.remove(forks[1].id).await.expect("it goes");
                    local.delete_snapshot(&snapshot).await.expect("it goes");
                }
            }
            kept
        });
    }
    let mut orphans = Vec::new();
    for round in 0..ROUNDS {
        orphans.extend(plant_orphans(&home, round));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut kept = Vec::new();
    while let Some(result) = workers.join_next().await {
        kept.extend(result.expect("no worker fails"));
    }
    done.store(true, Ordering::Relaxed);
    let mut times = 0;
    while let Some(result) = collectors.join_next().await {
        times += result.expect("no collector fails");
    }
    assert!(times >= 4, "it was collected under load: {times}");
    local.collect_garbage().await.expect("once more");
    assert!(orphans.iter().all(|path| !path.exists()), "garbage is left");
    assert_eq!(kept.len(), 3 * ROUNDS / 2);
    for (snapshot, fork, word) in kept {
        assert!(local.verify_snapshot(&snapshot).await.expect("read").ok);
        let again = sandbox(&local, Origin::Snapshot(snapshot)).await;
        for id in [fork, again] {
            let seen = run(&local, id, "cat /srv/base /srv/word")
                .await
                .expect("it lives");
            assert_eq!(seen, format!("base\n{word}"));
            local.remove(id).await.expect("it goes");
        }
    }
    for snapshot in local.snapshots().await.expect("a list") {
        local.delete_snapshot(&snapshot.id).await.expect("it goes");
    }
    // Nothing but the skeleton, which the next sandbox wants.
    let usage = local.usage().await.expect("a sum");
    let left: Vec<&str> = usage
        .by_layer
        .iter()
        .map(|layer| layer.id.as_str())
        .collect();
    assert!(left.iter().all(|id| id.starts_with("host-")), "{left:?}");
    home.clear().await;
}
