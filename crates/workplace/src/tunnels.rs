//! Tunnels: ports of the sandbox that somebody gave a name, so that the gateway leads to them.
//!
//! The list is small and always whole: whoever listens gets all of it at each change. It lies in a
//! file of the sandbox, so that it outlives a restart and is part of every snapshot; and since the
//! sandbox can write there, what is read back is checked like what is asked for.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err::os::unix::fs::OpenOptionsExt as _;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use wire::workplace::OUR_PORTS;

/// In the sandbox's state directory.
pub const FILE: &str = "tunnels.json";

/// More are refused: a list goes out whole at each change.
pub const MAX_TUNNELS: usize = 64;

const MAX_NAME: usize = 32;
const MAX_ACTOR: usize = 128;
const MAX_FILE: u64 = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    pub name: String,
    pub port: u16,
    #[serde(default)]
    pub protocol: Protocol,
}

/// What a tunnel's port understands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Requests, and the sockets that its pages open: an upgrade is a request too.
    #[default]
    Http,
    /// Sockets alone. A plain request is refused.
    Ws,
    /// Whatever comes, for those who cannot tell.
    Auto,
}

#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    #[error("a tunnel's name is 1 to {MAX_NAME} letters, digits, `_` or `-`")]
    Name,
    #[error("a tunnel's port is 1 to 65535")]
    Port,
    #[error("port {0} is nacre's own")]
    OurPort(u16),
    #[error("there are {MAX_TUNNELS} tunnels already; remove one first")]
    Full,
    #[error("there is no tunnel {0}")]
    Unknown(String),
    #[error("cannot write the list of tunnels")]
    Store(#[source] io::Error),
}

/// The tunnels as they are, and how the last one went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub tunnels: Vec<Tunnel>,
    pub removed: Option<Removed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    pub name: String,
    pub actor: String,
}

/// What was found in the file and is not a tunnel of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dropped {
    /// The whole file.
    File { reason: &'static str },
    /// One entry, by its place.
    Entry { place: usize, reason: String },
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { reason } => write!(f, "the list of tunnels is not used: {reason}"),
            Self::Entry { place, reason } => write!(f, "tunnel {place} is not used: {reason}"),
        }
    }
}

/// The registry. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Tunnels(Arc<Registry>);

#[derive(Debug)]
struct Registry {
    file: PathBuf,
    reserved: Vec<u16>,
    listing: watch::Sender<Listing>,
}

#[derive(Serialize, Deserialize)]
struct Stored<T> {
    tunnels: Vec<T>,
}

impl Tunnels {
    /// Reads the list in this directory. What cannot be used is left out and said; nothing that the
    /// sandbox wrote there keeps the registry from opening. No tunnel leads to [`OUR_PORTS`], nor to
    /// those given here: ports of ours that were set otherwise.
    pub fn open(directory: &Path, more_of_ours: &[u16]) -> (Self, Vec<Dropped>) {
        let file = directory.join(FILE);
        let reserved = [&OUR_PORTS, more_of_ours].concat();
        let (tunnels, dropped) = load(&file, &reserved);
        let removed = None;
        let (listing, _) = watch::channel(Listing { tunnels, removed });
        let registry = Registry {
            file,
            reserved,
            listing,
        };
        (Self(Arc::new(registry)), dropped)
    }

    /// Gives a port a name. A tunnel of the same name is replaced.
    pub fn register(
        &self,
        name: &str,
        port: u16,
        protocol: Protocol,
    ) -> Result<Tunnel, TunnelError> {
        let name = name.trim().to_owned();
        let tunnel = Tunnel {
            name,
            port,
            protocol,
        };
        check(&tunnel, &self.0.reserved)?;
        let mut tunnels = self.list();
        match tunnels.iter().position(|old| old.name == tunnel.name) {
            Some(at) => tunnels[at] = tunnel.clone(),
            None if tunnels.len() == MAX_TUNNELS => return Err(TunnelError::Full),
            None => tunnels.push(tunnel.clone()),
        }
        let removed = None;
        self.publish(Listing { tunnels, removed })?;
        Ok(tunnel)
    }

    pub fn remove(&self, name: &str, actor: &str) -> Result<Tunnel, TunnelError> {
        let name = name.trim();
        let mut tunnels = self.list();
        let Some(at) = tunnels.iter().position(|tunnel| tunnel.name == name) else {
            return Err(TunnelError::Unknown(name.chars().take(MAX_NAME).collect()));
        };
        let tunnel = tunnels.remove(at);
        let removed = Some(Removed {
            name: tunnel.name.clone(),
            actor: actor.chars().take(MAX_ACTOR).collect(),
        });
        self.publish(Listing { tunnels, removed })?;
        Ok(tunnel)
    }

    pub fn list(&self) -> Vec<Tunnel> {
        self.0.listing.borrow().tunnels.clone()
    }

    pub fn find(&self, name: &str) -> Option<Tunnel> {
        let listing = self.0.listing.borrow();
        listing.tunnels.iter().find(|t| t.name == name).cloned()
    }

    /// The tunnel, if there is exactly one.
    pub fn only(&self) -> Option<Tunnel> {
        match self.0.listing.borrow().tunnels.as_slice() {
            [tunnel] => Some(tunnel.clone()),
            _ => None,
        }
    }

    /// Every change from now on, each as the whole list.
    pub fn watch(&self) -> watch::Receiver<Listing> {
        self.0.listing.subscribe()
    }

    /// The disk comes first: nobody is told of a tunnel that a restart would forget.
    fn publish(&self, listing: Listing) -> Result<(), TunnelError> {
        store(&self.0.file, &listing.tunnels).map_err(TunnelError::Store)?;
        self.0.listing.send_replace(listing);
        Ok(())
    }
}

fn check(tunnel: &Tunnel, reserved: &[u16]) -> Result<(), TunnelError> {
    let fits = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    if !(1..=MAX_NAME).contains(&tunnel.name.len()) || !tunnel.name.bytes().all(fits) {
        return Err(TunnelError::Name);
    }
    if tunnel.port == 0 {
        return Err(TunnelError::Port);
    }
    if reserved.contains(&tunnel.port) {
        return Err(TunnelError::OurPort(tunnel.port));
    }
    Ok(())
}

fn load(file: &Path, reserved: &[u16]) -> (Vec<Tunnel>, Vec<Dropped>) {
    let stored: Stored<serde_json::Value> = match read(file) {
        Ok(None) => return (Vec::new(), Vec::new()),
        Ok(Some(stored)) => stored,
        Err(reason) => return (Vec::new(), vec![Dropped::File { reason }]),
    };
    let mut tunnels: Vec<Tunnel> = Vec::new();
    let mut dropped = Vec::new();
    for (place, entry) in stored.tunnels.into_iter().enumerate() {
        match usable(entry, &tunnels, reserved) {
            Ok(tunnel) => tunnels.push(tunnel),
            Err(reason) => dropped.push(Dropped::Entry { place, reason }),
        }
    }
    (tunnels, dropped)
}

fn usable(
    entry: serde_json::Value,
    tunnels: &[Tunnel],
    reserved: &[u16],
) -> Result<Tunnel, String> {
    // The parser's own words would repeat what stands in the file.
    let tunnel: Tunnel =
        serde_json::from_value(entry).map_err(|_| "it has another form".to_owned())?;
    check(&tunnel, reserved).map_err(|error| error.to_string())?;
    if tunnels.iter().any(|other| other.name == tunnel.name) {
        return Err("its name is taken".to_owned());
    }
    if tunnels.len() == MAX_TUNNELS {
        return Err(TunnelError::Full.to_string());
    }
    Ok(tunnel)
}

fn read(file: &Path) -> Result<Option<Stored<serde_json::Value>>, &'static str> {
    // A pipe in its place would keep us waiting, a link lead us elsewhere.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = fs_err::OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(file);
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err("it cannot be opened"),
    };
    if !opened.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err("it is not a file");
    }
    let mut bytes = Vec::new();
    let length = opened
        .take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|_| "it cannot be read")?;
    if length as u64 > MAX_FILE {
        return Err("it is too long");
    }
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|_| "it has another form")
}

fn store(file: &Path, tunnels: &[Tunnel]) -> io::Result<()> {
    let next = file.with_extension("json.next");
    match fs_err::remove_file(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if let Some(directory) = file.parent() {
        fs_err::create_dir_all(directory)?;
    }
    // Made anew, so that a link in its place is not followed.
    let mut written = fs_err::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&next)?;
    written.write_all(&serde_json::to_vec(&Stored {
        tunnels: tunnels.to_vec(),
    })?)?;
    written.sync_data()?;
    fs_err::rename(&next, file)
}

#[cfg(test)]
mod tests {
    use camino_tempfile::Utf8TempDir;

    use super::*;

    struct Desk {
        directory: Utf8TempDir,
    }

    impl Desk {
        fn new() -> Self {
            let directory = camino_tempfile::tempdir().unwrap();
            Self { directory }
        }

        fn holding(text: &str) -> Self {
            let desk = Self::new();
            fs_err::write(desk.file(), text).unwrap();
            desk
        }

        fn file(&self) -> PathBuf {
            self.directory.path().join(FILE).into()
        }

        fn open(&self) -> (Tunnels, Vec<Dropped>) {
            Tunnels::open(self.directory.path().as_std_path(), &[9001])
        }

        fn tunnels(&self) -> Tunnels {
            let (tunnels, dropped) = self.open();
            assert_eq!(dropped, []);
            tunnels
        }
    }

    #[test]
    fn a_name_is_trimmed() {
        let tunnels = Desk::new().tunnels();
        let tunnel = tunnels.register("  web ", 3000, Protocol::Http).unwrap();
        assert_eq!(tunnel.name, "web");
        assert_eq!(tunnels.find("web"), Some(tunnel));
    }

    #[test]
    fn a_name_with_anything_else_is_refused() {
        let tunnels = Desk::new().tunnels();
        let long = "a".repeat(33);
        for name in [
            "", "  ", "a.b", "a/b", "..", "a b", "ä", "a\0", "%2e", &long,
        ] {
            let refused = tunnels.register(name, 3000, Protocol::Http);
            assert!(matches!(refused, Err(TunnelError::Name)), "{name:?}");
        }
        let longest = "a".repeat(32);
        assert!(tunnels.register(&longest, 3000, Protocol::Http).is_ok());
    }

    #[test]
    fn a_port_of_ours_is_refused() {
        let tunnels = Desk::new().tunnels();
        for port in OUR_PORTS.into_iter().chain([9001]) {
            let refused = tunnels.register("web", port, Protocol::Http);
            assert!(matches!(refused, Err(TunnelError::OurPort(_))), "{port}");
        }
        let refused = tunnels.register("web", 0, Protocol::Http);
        assert!(matches!(refused, Err(TunnelError::Port)));
    }

    #[test]
    fn the_same_name_again_replaces() {
        let tunnels = Desk::new().tunnels();
        tunnels.register("web", 3000, Protocol::Http).unwrap();
        tunnels.register("web", 3001, Protocol::Ws).unwrap();
        let ports: Vec<u16> = tunnels.list().iter().map(|tunnel| tunnel.port).collect();
        assert_eq!(ports, [3001]);
    }

    #[test]
    fn only_one_is_the_only_one() {
        let tunnels = Desk::new().tunnels();
        assert_eq!(tunnels.only(), None);
        let web = tunnels.register("web", 3000, Protocol::Http).unwrap();
        assert_eq!(tunnels.only(), Some(web));
        tunnels.register("api", 3001, Protocol::Http).unwrap();
        assert_eq!(tunnels.only(), None);
    }

    #[test]
    fn there_is_a_limit() {
        let tunnels = Desk::new().tunnels();
        for n in 0..MAX_TUNNELS {
            tunnels
                .register(&format!("t{n}"), 3000, Protocol::Http)
                .unwrap();
        }
        let refused = tunnels.register("one-more", 3000, Protocol::Http);
        assert!(matches!(refused, Err(TunnelError::Full)));
        assert!(tunnels.register("t0", 3001, Protocol::Http).is_ok());
    }

    #[test]
    fn the_list_survives_a_restart() {
        let desk = Desk::new();
        let before = desk.tunnels();
        before.register("web", 3000, Protocol::Auto).unwrap();
        before.register("old", 3001, Protocol::Http).unwrap();
        before.remove("old", "ada").unwrap();
        assert_eq!(desk.tunnels().list(), before.list());
    }

    #[test]
    fn a_change_is_the_whole_list() {
        let tunnels = Desk::new().tunnels();
        let mut seen = tunnels.watch();
        let web = tunnels.register("web", 3000, Protocol::Http).unwrap();
        let api = tunnels.register("api", 3001, Protocol::Http).unwrap();
        assert!(seen.has_changed().unwrap());
        assert_eq!(seen.borrow_and_update().tunnels, [web, api.clone()]);

        tunnels.remove("web", "ada").unwrap();
        let listing = seen.borrow_and_update().clone();
        assert_eq!(listing.tunnels, [api]);
        let removed = listing.removed.unwrap();
        assert_eq!(
            (removed.name.as_str(), removed.actor.as_str()),
            ("web", "ada")
        );
    }

    #[test]
    fn what_is_not_there_cannot_be_removed() {
        let tunnels = Desk::new().tunnels();
        let refused = tunnels.remove("web", "ada");
        assert!(matches!(refused, Err(TunnelError::Unknown(_))));
        assert!(!tunnels.watch().has_changed().unwrap());
    }

    #[test]
    fn nobody_is_told_of_what_could_not_be_stored() {
        let desk = Desk::new();
        let tunnels = desk.tunnels();
        fs_err::create_dir_all(desk.file().join("in the way")).unwrap();
        let refused = tunnels.register("web", 3000, Protocol::Http);
        assert!(matches!(refused, Err(TunnelError::Store(_))));
        assert_eq!(tunnels.list(), []);
    }

    #[test]
    fn bad_entries_are_left_out_and_said() {
        let desk = Desk::holding(
            r#"{"tunnels":[
                {"name":"good","port":3000},
                {"name":"../x","port":3000},
                {"name":"ours","port":9000},
                {"name":"good","port":3001},
                {"name":"big","port":70000},
                {"name":"odd","port":3000,"protocol":"udp"},
                null,
                {"name":"fine","port":3002,"protocol":"ws"}
            ]}"#,
        );
        let (tunnels, dropped) = desk.open();
        let names: Vec<String> = tunnels.list().into_iter().map(|t| t.name).collect();
        assert_eq!(names, ["good", "fine"]);
        let places: Vec<usize> = dropped
            .iter()
            .map(|dropped| match dropped {
                Dropped::Entry { place, .. } => *place,
                Dropped::File { .. } => panic!("{dropped}"),
            })
            .collect();
        assert_eq!(places, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_file_of_another_form_is_left_out_and_said() {
        let deep = "[".repeat(10_000);
        let long = format!(r#"{{"tunnels":[],"x":"{}"}}"#, "a".repeat(70 << 10));
        for text in [
            "",
            "{}",
            "[]",
            "canary",
            "{\"tunnels\":3}",
            &deep,
            &long,
            "\0\0",
        ] {
            let (tunnels, dropped) = Desk::holding(text).open();
            assert_eq!(tunnels.list(), []);
            assert!(
                matches!(dropped.as_slice(), [Dropped::File { .. }]),
                "{text:.20}"
            );
            assert!(!dropped[0].to_string().contains("canary"));
        }
    }

    #[test]
    fn more_than_the_limit_in_the_file_are_left_out() {
        let entries: Vec<String> = (0..MAX_TUNNELS + 3)
            .map(|n| format!(r#"{{"name":"t{n}","port":3000}}"#))
            .collect();
        let text = format!(r#"{{"tunnels":[{}]}}"#, entries.join(","));
        let (tunnels, dropped) = Desk::holding(&text).open();
        assert_eq!((tunnels.list().len(), dropped.len()), (MAX_TUNNELS, 3));
    }

    #[test]
    fn a_pipe_in_the_files_place_does_not_keep_us_waiting() {
        let desk = Desk::new();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, desk.file(), fifo, mode, 0).unwrap();
        let (tunnels, dropped) = desk.open();
        assert_eq!(
            dropped,
            [Dropped::File {
                reason: "it is not a file"
            }]
        );
        assert!(tunnels.register("web", 3000, Protocol::Http).is_ok());
    }

    #[test]
    fn a_link_in_the_files_place_is_replaced_and_not_followed() {
        let desk = Desk::new();
        let elsewhere = desk.directory.path().join("elsewhere");
        fs_err::write(&elsewhere, "untouched").unwrap();
        fs_err::os::unix::fs::symlink(&elsewhere, desk.file()).unwrap();
        let (tunnels, dropped) = desk.open();
        assert_eq!(dropped.len(), 1);
        tunnels.register("web", 3000, Protocol::Http).unwrap();
        assert_eq!(fs_err::read_to_string(&elsewhere).unwrap(), "untouched");
        assert_eq!(desk.tunnels().list().len(), 1);
    }
}
