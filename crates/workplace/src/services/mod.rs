//! The user's services: named commands that are kept running, with their logs and their state on
//! disk, so that what ran before a pause runs after it.
//!
//! ```text
//! Services ── Slot (one life of a name) ── supervise ── PID 1: a command whose end ends all of it
//!    │            └── Log
//!    ├── saved ── STATE/services.json
//!    └── preview ── STATE/caddy/user.caddy
//! ```
//!
//! A name that is started again gets a new slot, and only the slot in the table is ever shown: the
//! late end of an old one has nothing to spoil.

mod log;
mod name;
mod preview;
mod saved;
mod slot;
mod supervise;
mod usage;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use model::Clock;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::hands::Hands;
use crate::place::Place;

pub use log::{Follow, LIMIT as LOG_LIMIT, Log};
pub use name::{BadName, MAX_NAME, Name};
pub use preview::Preview;
pub use slot::{Info, Status};

use saved::{Saved, Wanted};
use slot::Slot;

pub const MAX_SERVICES: usize = 64;
pub const MAX_COMMAND: usize = 16 << 10;
const MAX_CWD: usize = 4096;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    pub name: Name,
    /// For a login shell.
    pub command: String,
    /// Below the workspace unless absolute. Default: the workspace.
    #[serde(default)]
    pub cwd: Option<Utf8PathBuf>,
    #[serde(default)]
    pub restart: Restart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// While the crash budget lasts.
    #[default]
    OnFailure,
    Never,
}

#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("there is no service {0}; `nacre services list` shows those there are")]
    NotFound(Name),
    #[error("{0}")]
    Bad(&'static str),
    #[error("there are {MAX_SERVICES} services already; remove one first")]
    TooMany,
    #[error("port {0} is one of ours; expose the port that your service listens on")]
    OurPort(u16),
    #[error("the exposed port cannot be written down")]
    Expose(#[source] std::io::Error),
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Services {
    shared: Rc<Shared>,
}

#[derive(Debug)]
struct Shared {
    hands: Rc<Hands>,
    place: Place,
    clock: Arc<dyn Clock>,
    preview: Rc<dyn Preview>,
    pace: Pace,
    slots: RefCell<BTreeMap<Name, Rc<Slot>>>,
    exposed: Cell<Option<u16>>,
    requests: Cell<u64>,
    served_at: watch::Sender<Option<Timestamp>>,
    changes: watch::Sender<u64>,
    tasks: TaskTracker,
}

/// How services are stopped and started again.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// From the request to end until it is ended.
    pub grace: Duration,
    pub first_delay: Duration,
    pub last_delay: Duration,
    /// One that lived this long fails of something new.
    pub healthy: Duration,
    /// How many failures in a row are too many.
    pub budget: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(5),
            first_delay: Duration::from_millis(500),
            last_delay: Duration::from_secs(30),
            healthy: Duration::from_secs(30),
            budget: 5,
        }
    }
}

impl Services {
    /// Reads what is on disk; starts nothing yet.
    pub fn new(
        hands: Rc<Hands>,
        place: Place,
        clock: Arc<dyn Clock>,
        preview: Rc<dyn Preview>,
        timing: Pace,
    ) -> Self {
        let on_disk = Saved::load(&place);
        let services = Self {
            shared: Rc::new(Shared {
                hands,
                place,
                clock,
                preview,
                pace: timing,
                slots: RefCell::default(),
                exposed: Cell::new(on_disk.exposed_port),
                requests: Cell::new(0),
                served_at: watch::Sender::new(None),
                changes: watch::Sender::new(0),
                tasks: TaskTracker::new(),
            }),
        };
        for (definition, wanted) in on_disk.services {
            let slot = Slot::at_rest(definition, wanted, &services.shared.place);
            let name = slot.definition.name.clone();
            services
                .shared
                .slots
                .borrow_mut()
                .insert(name, Rc::new(slot));
        }
        services
    }

    /// Starts those that ran when the disk was last written, and shows the exposed port again.
    pub fn resume(&self) {
        if let Some(port) = self.shared.exposed.get() {
            // The file is the user's to spoil; the number is checked.
            let _ = preview::write(&self.shared.place, port);
            self.shared.preview.reload();
        }
        let wanted: Vec<Definition> = self
            .shared
            .slots
            .borrow()
            .values()
            .filter(|slot| slot.wanted.get() == Wanted::Running && !slot.is_alive())
            .map(|slot| slot.definition.clone())
            .collect();
        for definition in wanted {
            self.shared.launch(definition);
        }
    }

    /// Starts a service, in the place of one of the same name.
    pub fn start(&self, definition: Definition) -> Result<Info, ServiceError> {
        check(&definition)?;
        let slots = self.shared.slots.borrow();
        if slots.len() >= MAX_SERVICES && !slots.contains_key(&definition.name) {
            return Err(ServiceError::TooMany);
        }
        drop(slots);
        Ok(self.shared.launch(definition))
    }

    /// As [`Services::start`], but leaves alone one that runs as it is wanted already: what starts
    /// by itself may have been started by [`Services::resume`].
    pub fn ensure(&self, definition: Definition) -> Result<Info, ServiceError> {
        match self.shared.slot(&definition.name) {
            Ok(slot) if slot.is_alive() && slot.definition == definition => Ok(slot.info()),
            _ => self.start(definition),
        }
    }

    /// Starts one that is known; leaves it alone when it runs.
    pub fn start_again(&self, name: &Name) -> Result<Info, ServiceError> {
        let slot = self.shared.slot(name)?;
        if slot.is_alive() {
            return Ok(slot.info());
        }
        Ok(self.shared.launch(slot.definition.clone()))
    }

    pub fn restart(&self, name: &Name) -> Result<Info, ServiceError> {
        let slot = self.shared.slot(name)?;
        Ok(self.shared.launch(slot.definition.clone()))
    }

    /// Returns once nothing of it is left.
    pub async fn stop(&self, name: &Name) -> Result<Info, ServiceError> {
        let slot = self.shared.slot(name)?;
        self.end(&slot).await;
        Ok(slot.info())
    }

    /// Stops it and forgets it with its log.
    pub async fn remove(&self, name: &Name) -> Result<(), ServiceError> {
        let slot = self.shared.slot(name)?;
        self.end(&slot).await;
        {
            let mut slots = self.shared.slots.borrow_mut();
            // Somebody may have started it anew meanwhile.
            if !slots
                .get(name)
                .is_some_and(|there| Rc::ptr_eq(there, &slot))
            {
                return Ok(());
            }
            slots.remove(name);
        }
        slot.log.remove();
        self.shared.save();
        self.shared.changed();
        Ok(())
    }

    async fn end(&self, slot: &Slot) {
        slot.wanted.set(Wanted::Stopped);
        self.shared.save();
        slot.stop.cancel();
        slot.ended.cancelled().await;
    }

    /// For the sandbox's end: all stop, and are to run again when it comes back.
    pub async fn rest(&self) {
        let slots: Vec<_> = self.shared.slots.borrow().values().cloned().collect();
        for slot in &slots {
            slot.stop.cancel();
        }
        for slot in &slots {
            slot.ended.cancelled().await;
        }
    }

    pub fn list(&self) -> Vec<Info> {
        let slots = self.shared.slots.borrow();
        slots.values().map(|slot| slot.info()).collect()
    }

    pub fn info(&self, name: &Name) -> Result<Info, ServiceError> {
        Ok(self.shared.slot(name)?.info())
    }

    pub fn log(&self, name: &Name) -> Result<Rc<Log>, ServiceError> {
        Ok(Rc::clone(&self.shared.slot(name)?.log))
    }

    /// Moves whenever [`Services::list`] or the exposed port would read differently.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Makes a port the one that the preview shows.
    pub fn expose(&self, port: u16) -> Result<(), ServiceError> {
        if port == 0 {
            return Err(ServiceError::Bad("a port is a number from 1 to 65535"));
        }
        if crate::ports::is_ours(port) {
            return Err(ServiceError::OurPort(port));
        }
        preview::write(&self.shared.place, port).map_err(ServiceError::Expose)?;
        self.shared.exposed.set(Some(port));
        self.shared.save();
        self.shared.preview.reload();
        self.shared.changed();
        Ok(())
    }

    pub fn exposed(&self) -> Option<u16> {
        self.shared.exposed.get()
    }

    /// Whoever carries a request to a service says so here: a service that is used is not idle.
    pub fn served(&self) {
        self.shared.requests.set(self.shared.requests.get() + 1);
        let now = self.shared.clock.now();
        self.shared.served_at.send_replace(Some(now));
    }

    pub fn requests(&self) -> u64 {
        self.shared.requests.get()
    }

    pub fn served_at(&self) -> Option<Timestamp> {
        *self.shared.served_at.borrow()
    }

    /// Every request from now on.
    pub fn served_changes(&self) -> watch::Receiver<Option<Timestamp>> {
        self.shared.served_at.subscribe()
    }

    /// Processor time that each running service has used so far. Walks `/proc`: ask now and then.
    pub fn processor_time(&self) -> BTreeMap<Name, Duration> {
        let slots = self.shared.slots.borrow();
        let leaders: Vec<(Name, i32)> = slots
            .iter()
            .filter_map(|(name, slot)| Some((name.clone(), slot.pid()?)))
            .collect();
        drop(slots);
        usage::processor_time(&leaders)
    }
}

impl Shared {
    fn slot(&self, name: &Name) -> Result<Rc<Slot>, ServiceError> {
        let slots = self.slots.borrow();
        let slot = slots.get(name).map(Rc::clone);
        slot.ok_or_else(|| ServiceError::NotFound(name.clone()))
    }

    fn launch(self: &Rc<Self>, definition: Definition) -> Info {
        let name = definition.name.clone();
        let before = self.slots.borrow_mut().remove(&name);
        let log = match &before {
            Some(before) => Rc::clone(&before.log),
            None => slot::open_log(&definition.name, &self.place),
        };
        let slot = Rc::new(Slot::to_run(definition, log));
        self.slots.borrow_mut().insert(name, Rc::clone(&slot));
        self.save();
        let keeping = supervise::keep(Rc::clone(self), Rc::clone(&slot), before);
        self.tasks.spawn_local(keeping);
        self.changed();
        slot.info()
    }

    /// A disk that cannot be written costs the memory of what ran, not the service.
    fn save(&self) {
        let slots = self.slots.borrow();
        let saved = Saved {
            services: slots
                .values()
                .map(|slot| (slot.definition.clone(), slot.wanted.get()))
                .collect(),
            exposed_port: self.exposed.get(),
        };
        let _ = saved.store(&self.place);
    }

    fn changed(&self) {
        self.changes
            .send_modify(|count| *count = count.wrapping_add(1));
    }
}

fn check(definition: &Definition) -> Result<(), ServiceError> {
    if definition.command.trim().is_empty() {
        return Err(ServiceError::Bad("`command` is empty; say what to run"));
    }
    if definition.command.len() > MAX_COMMAND || definition.command.contains('\0') {
        return Err(ServiceError::Bad(
            "`command` is longer than 16 KiB or has a NUL in it",
        ));
    }
    if definition
        .cwd
        .as_ref()
        .is_some_and(|cwd| cwd.as_str().len() > MAX_CWD || cwd.as_str().contains('\0'))
    {
        return Err(ServiceError::Bad(
            "`cwd` is longer than 4096 bytes or has a NUL in it",
        ));
    }
    Ok(())
}
