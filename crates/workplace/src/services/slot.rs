//! One life of a name, from its start to its end.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::saved::Wanted;
use super::{Definition, Log, Name, Restart};
use crate::place::Place;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Running,
    /// Asked to, or done.
    Stopped,
    /// Ended badly, and is left so.
    Failed,
    /// About to start, or to start again.
    Restarting,
}

/// As people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Info {
    pub name: Name,
    pub command: String,
    pub cwd: Option<Utf8PathBuf>,
    pub restart: Restart,
    pub status: Status,
    pub pid: Option<i32>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub exit_code: Option<i32>,
    /// How often it was started again since somebody started it.
    pub restarts: u32,
    /// Why it is not running, when it is not on purpose.
    pub message: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) status: Status,
    pub(super) pid: Option<i32>,
    pub(super) started_at: Option<Timestamp>,
    pub(super) ended_at: Option<Timestamp>,
    pub(super) exit_code: Option<i32>,
    pub(super) restarts: u32,
    pub(super) message: Option<String>,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) definition: Definition,
    /// After the sandbox comes back.
    pub(super) wanted: Cell<Wanted>,
    pub(super) report: RefCell<Report>,
    pub(super) log: Rc<Log>,
    /// Somebody asked for the end.
    pub(super) stop: CancellationToken,
    /// Nothing of it is left.
    pub(super) ended: CancellationToken,
}

impl Slot {
    pub(super) fn to_run(definition: Definition, log: Rc<Log>) -> Self {
        Self::new(definition, Wanted::Running, Status::Restarting, log)
    }

    /// One that is known from the disk.
    pub(super) fn at_rest(definition: Definition, wanted: Wanted, place: &Place) -> Self {
        let log = open_log(&definition.name, place);
        let slot = Self::new(definition, wanted, Status::Stopped, log);
        slot.ended.cancel();
        slot
    }

    fn new(definition: Definition, wanted: Wanted, status: Status, log: Rc<Log>) -> Self {
        Self {
            definition,
            wanted: Cell::new(wanted),
            report: RefCell::new(Report {
                status,
                pid: None,
                started_at: None,
                ended_at: None,
                exit_code: None,
                restarts: 0,
                message: None,
            }),
            log,
            stop: CancellationToken::new(),
            ended: CancellationToken::new(),
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.ended.is_cancelled()
    }

    pub(super) fn pid(&self) -> Option<i32> {
        self.report.borrow().pid
    }

    pub(super) fn info(&self) -> Info {
        let report = self.report.borrow().clone();
        Info {
            name: self.definition.name.clone(),
            command: self.definition.command.clone(),
            cwd: self.definition.cwd.clone(),
            restart: self.definition.restart,
            status: report.status,
            pid: report.pid,
            started_at: report.started_at,
            ended_at: report.ended_at,
            exit_code: report.exit_code,
            restarts: report.restarts,
            message: report.message,
        }
    }
}

pub(super) fn open_log(name: &Name, place: &Place) -> Rc<Log> {
    let path = place.state.join(format!("logs/{}.log", name.stem()));
    Rc::new(Log::open(path))
}
