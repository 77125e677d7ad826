//! What is on the disk, and when.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use camino_tempfile::Utf8TempDir;
use wire::link::{FromRunner, HealthKind};
use workplace::link::SayError;
use workplace::link::journal::{Directory, Disk, Tail};

use super::world::{Road, World, health, nothing_is_lost_or_doubled, soon, title, titles};

/// A disk that counts, and fails when told to.
#[derive(Debug, Clone, Default)]
struct Watch {
    syncs: Arc<AtomicUsize>,
    appends: Arc<AtomicUsize>,
    is_broken: Arc<AtomicBool>,
    cannot_sync: Arc<AtomicBool>,
}

impl Watch {
    fn syncs(&self) -> usize {
        self.syncs.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct Watched<T>(T, Watch);

impl Disk for Watched<Directory> {
    fn numbers(&self) -> io::Result<Vec<u64>> {
        self.0.numbers()
    }
    fn read(&self, number: u64, limit: usize) -> io::Result<Vec<u8>> {
        self.0.read(number, limit)
    }
    fn reopen(&self, number: u64) -> io::Result<Arc<dyn Tail>> {
        self.0.reopen(number)
    }
    fn create(&self, number: u64) -> io::Result<Arc<dyn Tail>> {
        if self.1.is_broken.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let tail = self.0.create(number)?;
        Ok(Arc::new(Watched(tail, self.1.clone())))
    }
    fn remove(&self, number: u64) -> io::Result<()> {
        self.0.remove(number)
    }
    fn set_aside(&self, number: u64) -> io::Result<()> {
        self.0.set_aside(number)
    }
}

impl Tail for Watched<Arc<dyn Tail>> {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.1.appends.fetch_add(1, Ordering::SeqCst);
        if self.1.is_broken.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.append(bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.1.syncs.fetch_add(1, Ordering::SeqCst);
        if self.1.cannot_sync.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is dying"));
        }
        self.0.sync()
    }
}

fn watched() -> (World, Utf8TempDir, Watch) {
    let mut world = World::new();
    let directory = Utf8TempDir::new().unwrap();
    let watch = Watch::default();
    let path = directory.path().to_owned();
    let disk = watch.clone();
    world.make_disk = Some(Box::new(move || {
        let directory = Directory::open(Path::new(path.as_str())).unwrap();
        Box::new(Watched(directory, disk.clone()))
    }));
    (world, directory, watch)
}

#[tokio::test(start_paused = true)]
async fn a_prompt_is_synced_before_it_counts_as_accepted() {
    let (mut world, _directory, watch) = watched();
    world.road(Road::Closed);
    let runner = world.start();
    let before = watch.syncs();
    runner.handle.accept("p1", "web:default").await.unwrap();
    assert_eq!(watch.syncs(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_hub_has_soon_costs_no_sync() {
    let (mut world, _directory, watch) = watched();
    let runner = world.start();
    runner.connected(1).await;
    for n in 0..1000 {
        runner.say_title(&n.to_string()).await;
        soon(runner.handle.drain()).await.unwrap();
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(watch.syncs() <= 2, "{}", watch.syncs());
}

#[tokio::test(start_paused = true)]
async fn while_the_hub_is_away_everything_is_synced_together() {
    let (mut world, _directory, watch) = watched();
    world.road(Road::Closed);
    let runner = world.start();
    for n in 0..1000 {
        runner.say_title(&n.to_string()).await;
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    let syncs = watch.syncs();
    assert!((1..=20).contains(&syncs), "{syncs}");
    let appends = watch.appends.load(Ordering::SeqCst);
    assert!(
        appends < 100,
        "frames that come together are written together: {appends}"
    );
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(watch.syncs(), syncs, "nothing new, nothing synced");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_fails_accepts_no_prompt_and_loses_nothing() {
    let (mut world, _directory, watch) = watched();
    world.road(Road::Closed);
    let runner = world.start();
    runner.say_title("before").await;
    watch.is_broken.store(true, Ordering::SeqCst);
    let refused = runner.handle.accept("p1", "web:default").await;
    assert_eq!(refused, Err(SayError::NotDurable));
    let refused = runner.handle.accept("never said", "web:default").await;
    assert_eq!(refused, Err(SayError::NotDurable));
    runner.say_title("meanwhile").await;
    watch.is_broken.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(10)).await;
    runner.handle.accept("p2", "web:default").await.unwrap();
    runner.kill().await;

    world.road(Road::Open);
    let next = world.start();
    soon(next.connected(1)).await;
    soon(next.handle.drain()).await.unwrap();
    assert_eq!(titles(&world.hub), ["before", "meanwhile"]);
    let promised = world.hub.look(|ledger| {
        ledger.bodies().any(
            |body| matches!(body, FromRunner::Accepted { prompt_id, .. } if prompt_id == "never said"),
        )
    });
    assert!(!promised);
    let told = world.hub.look(|ledger| {
        ledger.bodies().any(|body| {
            matches!(body, FromRunner::RunnerHealth(health) if health.kind == HealthKind::JournalUnwritable)
        })
    });
    assert!(told);
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_fails_is_not_believed_later_either() {
    let (mut world, _directory, watch) = watched();
    world.road(Road::Closed);
    let runner = world.start();
    watch.cannot_sync.store(true, Ordering::SeqCst);
    let refused = runner.handle.accept("p1", "web:default").await;
    assert_eq!(refused, Err(SayError::NotDurable));
    watch.cannot_sync.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(10)).await;
    runner.handle.accept("p2", "web:default").await.unwrap();
    runner.handle.say(title("last")).await.unwrap();
    runner.handle.accept("p3", "web:default").await.unwrap();
    runner.kill().await;
    world.road(Road::Open);
    let next = world.start();
    soon(next.connected(1)).await;
    soon(next.handle.drain()).await.unwrap();
    let accepted = world.hub.look(|ledger| {
        ledger
            .bodies()
            .filter(|body| matches!(body, FromRunner::Accepted { .. }))
            .count()
    });
    assert_eq!(accepted, 3, "said once each, whatever the disk did");
    nothing_is_lost_or_doubled(&world.hub);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_journal_is_reported_to_the_hub() {
    let mut world = World::on_disk();
    world.road(Road::Closed);
    let runner = world.start();
    runner.say_title("genuine").await;
    runner.handle.accept("p1", "web:default").await.unwrap();
    runner.kill().await;
    let path = world.disk.as_ref().unwrap().path().join("00000001.journal");
    let mut bytes = fs_err::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs_err::write(&path, bytes).unwrap();

    world.road(Road::Open);
    let next = world.start();
    soon(next.handle.drain()).await.unwrap();
    assert_eq!(titles(&world.hub), ["genuine"]);
    let health = health(&world.hub).await;
    assert_eq!(health.kind, HealthKind::JournalDamaged);
    assert!(
        !path.exists(),
        "it is set aside once its good part has arrived"
    );
}
