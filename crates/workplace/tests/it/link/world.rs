//! A link, a hub, and what is between them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use camino_tempfile::Utf8TempDir;
use testkit::hub::{Carrier, Hub, Way};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use wire::link::{FromRunner, Health, Part, PartContent, Prompt, RunnerFrame};
use workplace::link::journal::{Directory, Disk, Identity, Journal, Limits};
use workplace::link::{
    Clock, Connection, Dial, DialError, Dialling, Dice, Handle, Hears, Link, Makings, Me,
};

pub(crate) const SESSION: &str = "ses_1";
const KEY: &[u8] = b"the session's journal key";

/// Tokio's time, which tests move, and what a freeze adds to it.
#[derive(Debug, Clone)]
pub(crate) struct TestClock {
    start: Instant,
    frozen_ms: Arc<AtomicU64>,
}

impl TestClock {
    pub(crate) fn freeze(&self, time: Duration) {
        let time = u64::try_from(time.as_millis()).unwrap();
        self.frozen_ms.fetch_add(time, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Duration {
        self.start.elapsed() + Duration::from_millis(self.frozen_ms.load(Ordering::SeqCst))
    }
}

/// What happens to somebody who dials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Road {
    Open,
    Closed,
    Refused,
}

/// The way to the hub.
#[derive(Debug, Clone)]
pub(crate) struct ToHub {
    road: Arc<std::sync::Mutex<Road>>,
    dialled: Arc<AtomicUsize>,
    times: Arc<std::sync::Mutex<Vec<Instant>>>,
    accept: mpsc::Sender<DuplexStream>,
}

impl Dial for ToHub {
    fn dial(&mut self) -> Dialling {
        self.dialled.fetch_add(1, Ordering::SeqCst);
        self.times.lock().unwrap().push(Instant::now());
        let road = *self.road.lock().unwrap();
        let accept = self.accept.clone();
        Box::pin(async move {
            match road {
                Road::Open => {
                    let (ours, theirs) = tokio::io::duplex(64 << 10);
                    let _ = accept.send(theirs).await;
                    Ok(Connection::lines(ours))
                }
                Road::Closed => Err(DialError::Silent),
                Road::Refused => Err(DialError::Refused { status: 401 }),
            }
        })
    }
}

pub(crate) struct World {
    pub(crate) hub: Hub,
    pub(crate) clock: TestClock,
    road: ToHub,
    accepted: Option<mpsc::Receiver<DuplexStream>>,
    tasks: JoinSet<()>,
    pub(crate) limits: Limits,
    pub(crate) disk: Option<Utf8TempDir>,
    /// In place of that directory.
    pub(crate) make_disk: Option<Box<dyn Fn() -> Box<dyn Disk>>>,
    boots: u32,
}

pub(crate) struct Runner {
    pub(crate) handle: Handle,
    pub(crate) hears: Hears,
    pub(crate) boot: String,
    task: AbortHandle,
}

impl Runner {
    /// As `kill -9` does: nothing is said, nothing is flushed.
    pub(crate) async fn kill(self) {
        self.task.abort();
        while !self.task.is_finished() {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    pub(crate) async fn connected(&self, times: u64) {
        self.handle
            .wait_until(|state| state.is_connected && state.connections >= times)
            .await;
    }

    pub(crate) async fn say_title(&self, text: &str) {
        self.handle.say(title(text)).await.unwrap();
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let (accept, accepted) = mpsc::channel(16);
        let mut this = Self {
            hub: Hub::new(SESSION, 1),
            clock: TestClock {
                start: Instant::now(),
                frozen_ms: Arc::default(),
            },
            road: ToHub {
                road: Arc::new(std::sync::Mutex::new(Road::Open)),
                dialled: Arc::default(),
                times: Arc::default(),
                accept,
            },
            accepted: Some(accepted),
            tasks: JoinSet::new(),
            limits: Limits::USUAL,
            disk: None,
            make_disk: None,
            boots: 0,
        };
        this.serve();
        this
    }

    pub(crate) fn on_disk() -> Self {
        let mut this = Self::new();
        this.disk = Some(Utf8TempDir::new().unwrap());
        this
    }

    pub(crate) fn in_directory(path: &Path) -> Self {
        let path = path.to_owned();
        let mut this = Self::new();
        this.make_disk = Some(Box::new(move || Box::new(Directory::open(&path).unwrap())));
        this
    }

    /// Nobody answers; the test takes what was dialled.
    pub(crate) fn without_hub() -> (Self, mpsc::Receiver<DuplexStream>) {
        let (accept, accepted) = mpsc::channel(16);
        let mut this = Self::new();
        this.tasks.abort_all();
        this.road.accept = accept;
        (this, accepted)
    }

    fn serve(&mut self) {
        let hub = self.hub.clone();
        let mut accepted = self.accepted.take().unwrap();
        self.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Some(stream) = accepted.recv().await {
                let hub = hub.clone();
                connections.spawn(async move {
                    hub.serve(Carrier::new(stream, Way::Lines).await).await;
                });
            }
        });
    }

    pub(crate) fn road(&self, road: Road) {
        *self.road.road.lock().unwrap() = road;
    }

    pub(crate) fn dialled(&self) -> usize {
        self.road.dialled.load(Ordering::SeqCst)
    }

    pub(crate) fn dial_times(&self) -> Vec<Instant> {
        self.road.times.lock().unwrap().clone()
    }

    /// A workplace starts; each start is a boot.
    pub(crate) fn start(&mut self) -> Runner {
        let dial: Option<Box<dyn Dial>> = Some(Box::new(self.road.clone()));
        self.start_with(dial)
    }

    pub(crate) fn start_with(&mut self, dial: Option<Box<dyn Dial>>) -> Runner {
        self.boots += 1;
        let boot = format!("boot.{}", self.boots);
        let identity = Identity {
            session: SESSION.to_owned(),
            boot: boot.clone(),
        };
        let disk: Option<Box<dyn Disk>> = match (&self.make_disk, &self.disk) {
            (Some(make_disk), _) => Some(make_disk()),
            (None, Some(disk)) => {
                let directory = Directory::open(Path::new(disk.path().as_str())).unwrap();
                Some(Box::new(directory))
            }
            (None, None) => None,
        };
        let (journal, findings) = match disk {
            Some(disk) => Journal::open(disk, KEY, identity, self.limits),
            None => (Journal::in_memory(identity, self.limits), Vec::new()),
        };
        let (link, handle, hears) = Link::new(Makings {
            me: Me {
                session: SESSION.to_owned(),
                generation: 1,
                boot: boot.clone(),
            },
            journal,
            findings,
            dial,
            clock: Box::new(self.clock.clone()),
            jitter: Dice(Box::new(|| u32::MAX / 2)),
        });
        let task = self.tasks.spawn(link.run());
        Runner {
            handle,
            hears,
            boot,
            task,
        }
    }
}

pub(crate) fn title(text: &str) -> FromRunner {
    FromRunner::Title {
        title: text.to_owned(),
    }
}

pub(crate) fn delta(part_id: &str, offset: usize, text: &str) -> FromRunner {
    FromRunner::PartDelta {
        message_id: "m".to_owned(),
        part_id: part_id.to_owned(),
        offset: offset as u64,
        text: text.to_owned(),
    }
}

pub(crate) fn whole_part(part_id: &str, text: &str) -> FromRunner {
    FromRunner::Part(Part {
        message_id: "m".to_owned(),
        part_id: part_id.to_owned(),
        open: false,
        content: PartContent::Text {
            text: text.to_owned(),
        },
    })
}

pub(crate) fn prompt(id: &str) -> Box<Prompt> {
    Box::new(Prompt::new(id, "do it"))
}

pub(crate) fn titles(hub: &Hub) -> Vec<String> {
    hub.look(|ledger| {
        ledger
            .bodies()
            .filter_map(|body| match body {
                FromRunner::Title { title } => Some(title.clone()),
                _ => None,
            })
            .collect()
    })
}

/// The first thing that a runner says of its health.
pub(crate) async fn health(hub: &Hub) -> Health {
    let said = hub.wait_for(|body| matches!(body, FromRunner::RunnerHealth(_)));
    match said.await.body {
        FromRunner::RunnerHealth(health) => health,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn nothing_is_lost_or_doubled(hub: &Hub) {
    assert_eq!(hub.look(|ledger| (ledger.gaps, ledger.repeated)), (0, 0));
}

/// The `type` of each frame, as it came.
pub(crate) fn types(frames: &[RunnerFrame]) -> Vec<String> {
    frames
        .iter()
        .map(|frame| {
            let json = serde_json::to_value(frame).unwrap();
            json["type"].as_str().unwrap().to_owned()
        })
        .collect()
}

/// Waits for what has to come, and fails where it does not.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(10), what)
        .await
        .expect("it did not come about in ten minutes of test time")
}
