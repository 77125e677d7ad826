//! Which TCP ports are listened on. The kernel tells nobody when one appears, and our system-call
//! filter lets through no netlink that could be asked, so `/proc/net/tcp` is read: at once when
//! somebody says that something happened, and otherwise the more rarely the longer nothing changes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::rc::Rc;
use std::time::Duration;

use fs_err as fs;
use serde::Serialize;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use wire::workplace::OUR_PORTS;

/// A server takes a moment from its start to its port.
const FIRST: Duration = Duration::from_millis(250);
const LAST: Duration = Duration::from_secs(15);
/// However often it is asked for, the table is not read more often than this.
const LEAST: Duration = Duration::from_millis(50);
/// For each moment of reading, so many without.
const REST: u32 = 20;
/// Those that listen come first in the table.
const MAX_TABLE: u64 = 4 << 20;
/// As many as are shown.
const MAX_PORTS: usize = 256;

pub fn is_ours(port: u16) -> bool {
    OUR_PORTS.contains(&port)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Port {
    pub port: u16,
    pub reach: Reach,
}

/// Who inside the sandbox's network can reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    Loopback,
    All,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ports {
    shared: Rc<Shared>,
}

#[derive(Debug)]
struct Shared {
    seen: watch::Sender<Vec<Port>>,
    hint: Notify,
    /// Others of ours that nobody but their owner knows.
    also_ours: RefCell<BTreeSet<u16>>,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            shared: Rc::new(Shared {
                seen: watch::Sender::new(Vec::new()),
                hint: Notify::new(),
                also_ours: RefCell::default(),
            }),
        }
    }
}

impl Ports {
    /// Looks from time to time, for as long as it is polled.
    pub async fn watch(&self) {
        let mut pause = FIRST;
        loop {
            let before = self.shared.seen.borrow().clone();
            let since = Instant::now();
            if self.list() != before {
                pause = FIRST;
            }
            // A table that somebody fills with connections takes long to read.
            sleep(LEAST.max(since.elapsed() * REST)).await;
            match timeout(pause, self.shared.hint.notified()).await {
                Ok(()) => pause = FIRST,
                Err(_) => pause = (pause * 2).min(LAST),
            }
        }
    }

    /// Something happened that may have opened or closed a port.
    pub fn hint(&self) {
        self.shared.hint.notify_one();
    }

    pub fn leave_out(&self, port: u16) {
        self.shared.also_ours.borrow_mut().insert(port);
    }

    /// As of now.
    pub fn list(&self) -> Vec<Port> {
        let text = read("tcp") + &read("tcp6");
        let also_ours = self.shared.also_ours.borrow();
        let mut found = listening(&text);
        found.retain(|port| !is_ours(port.port) && !also_ours.contains(&port.port));
        self.shared.seen.send_if_modified(|seen| {
            let differs = *seen != found;
            seen.clone_from(&found);
            differs
        });
        found
    }

    pub fn changes(&self) -> watch::Receiver<Vec<Port>> {
        self.shared.seen.subscribe()
    }
}

/// Of the thread's own network, where the kernel tells threads apart. Empty when there is none.
fn read(table: &str) -> String {
    let whole = |path: String| -> io::Result<String> {
        let mut text = String::new();
        let table = fs::File::open(path)?;
        table.take(MAX_TABLE).read_to_string(&mut text)?;
        Ok(text)
    };
    let own = whole(format!("/proc/thread-self/net/{table}"));
    own.or_else(|_| whole(format!("/proc/net/{table}")))
        .unwrap_or_default()
}

/// The kernel's numbers of the sockets that listen on a port.
pub(crate) fn sockets_on(port: u16) -> Vec<u64> {
    let text = read("tcp") + &read("tcp6");
    let listeners = text.lines().filter_map(Listener::read);
    let there = listeners.filter(|listener| listener.port == port);
    there.filter_map(|listener| listener.socket).collect()
}

/// A line of the table.
struct Listener<'a> {
    address: &'a str,
    port: u16,
    socket: Option<u64>,
}

impl<'a> Listener<'a> {
    /// `None` for what does not listen.
    fn read(line: &'a str) -> Option<Self> {
        const LISTEN: &str = "0A";
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, _) = (fields.next()?, fields.next()?);
        if fields.next()? != LISTEN {
            return None;
        }
        let (address, port) = local.split_once(':')?;
        Some(Self {
            address,
            port: u16::from_str_radix(port, 16).ok()?,
            socket: fields.nth(5).and_then(|number| number.parse().ok()),
        })
    }
}

/// Sorted, each once, with the widest reach.
fn listening(table: &str) -> Vec<Port> {
    let listeners = table.lines().filter_map(Listener::read);
    let each = listeners.map(|listener| Port {
        port: listener.port,
        reach: reach(listener.address),
    });
    let mut ports: Vec<Port> = each.collect();
    ports.sort_unstable_by_key(|port| (port.port, std::cmp::Reverse(port.reach)));
    ports.dedup_by_key(|port| port.port);
    ports.truncate(MAX_PORTS);
    ports
}

/// Addresses are words of the machine's byte order, in hexadecimal.
fn reach(address: &str) -> Reach {
    let is_loopback = match address.len() {
        8 => address.ends_with("7F"),
        32 => {
            address == "00000000000000000000000001000000"
                || (address.starts_with("0000000000000000FFFF0000") && address.ends_with("7F"))
        }
        _ => false,
    };
    if is_loopback {
        Reach::Loopback
    } else {
        Reach::All
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt
   0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1
   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 2
   2: 0100007F:C350 0100007F:0BB8 01 00000000:00000000 00:00000000 00000000  1000        0 3
   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0
   1: 00000000000000000000000001000000:1435 00000000000000000000000000000000:0000 0A 0
   nonsense
";

    #[test]
    fn listening_ports_are_found_each_once() {
        let port = |port, reach| Port { port, reach };
        assert_eq!(
            listening(TABLE),
            [
                port(3000, Reach::Loopback),
                port(5173, Reach::Loopback),
                port(8080, Reach::All),
            ]
        );
    }

    #[test]
    fn a_new_port_is_told_and_ours_are_not() {
        let ports = Ports::default();
        ports.list();
        let mut changes = ports.changes();
        changes.mark_unchanged();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let number = listener.local_addr().unwrap().port();
        assert!(ports.list().iter().any(|port| port.port == number));
        assert!(changes.has_changed().unwrap());
        ports.leave_out(number);
        assert!(!ports.list().iter().any(|port| port.port == number));
        assert!(is_ours(4000) && is_ours(3128) && !is_ours(3000) && !is_ours(300));
    }
}
