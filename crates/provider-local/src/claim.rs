//! Things only one sandbox may have: an id range, a name, a key. A claim is a file made
//! exclusively, holding the sandbox's id; so it holds between processes and through crashes.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use fs_err as fs;
use provider::{ProviderError, SandboxId};

use crate::error::Doing as _;
use crate::home::{Home, entries};

/// Host ids that each sandbox has to itself.
pub(crate) const IDS_PER_SANDBOX: u32 = 65_536;

#[derive(Debug)]
pub(crate) struct Ranges {
    first_id: u32,
    count: u32,
    /// Where to look next: ranges are handed round, so that a freed one rests before it is reused.
    next: AtomicU32,
}

impl Ranges {
    pub(crate) fn new(first_id: u32, count: u32) -> Result<Self, ProviderError> {
        let last = u64::from(first_id) + u64::from(count) * u64::from(IDS_PER_SANDBOX);
        // The last two ids mean "nobody" and "no change" to the kernel.
        if first_id < IDS_PER_SANDBOX || count == 0 || last > u64::from(u32::MAX - 1) {
            return Err(ProviderError::refused(format!(
                "local.first_id = {first_id} and local.ranges = {count} do not fit: ids must lie between {IDS_PER_SANDBOX} and {}",
                u32::MAX - 2
            )));
        }
        Ok(Self {
            first_id,
            count,
            next: AtomicU32::new(std::process::id() % count),
        })
    }

    pub(crate) fn claim(&self, home: &Home, id: SandboxId) -> Result<u32, ProviderError> {
        for _ in 0..self.count {
            let number = self.next.fetch_add(1, Ordering::Relaxed) % self.count;
            let first = self.first_id + number * IDS_PER_SANDBOX;
            if try_claim(home, "ranges", &first.to_string(), id)? {
                return Ok(first);
            }
        }
        Err(ProviderError::refused(format!(
            "all {} id ranges are in use: remove sandboxes, or raise local.ranges",
            self.count
        )))
    }
}

/// `names` or `keys`.
pub(crate) fn claim(
    home: &Home,
    kind: &str,
    value: &str,
    id: SandboxId,
) -> Result<(), ProviderError> {
    let file = file_name(kind, value);
    if try_claim(home, kind, &file, id)? {
        return Ok(());
    }
    let holder =
        holder(home, kind, value)?.map_or_else(String::new, |id| format!(" by sandbox {id}"));
    Err(ProviderError::refused(if kind == "names" {
        format!(
            "the name `{value}` is taken{holder}: choose another name, or `nacre sandbox rm {value}`"
        )
    } else {
        format!("the key `{value}` is taken{holder}")
    }))
}

pub(crate) fn holder(
    home: &Home,
    kind: &str,
    value: &str,
) -> Result<Option<SandboxId>, ProviderError> {
    match fs::read_to_string(home.path(format!("{kind}/{}", file_name(kind, value)))) {
        Ok(text) => Ok(text.trim().parse().ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).doing("reading a claim"),
    }
}

/// Gives a claim up, if it is still this sandbox's.
pub(crate) fn release(home: &Home, kind: &str, value: &str, id: SandboxId) {
    let path = home.path(format!("{kind}/{}", file_name(kind, value)));
    if fs::read_to_string(&path).is_ok_and(|text| text.trim() == id.to_string()) {
        let _ = fs::remove_file(path);
    }
}

/// Hands a claim from one sandbox to another in one step: at no moment is it nobody's.
pub(crate) fn transfer(
    home: &Home,
    kind: &str,
    value: &str,
    from: SandboxId,
    to: SandboxId,
) -> Result<(), ProviderError> {
    if holder(home, kind, value)? != Some(from) {
        return Ok(());
    }
    crate::home::write_text(
        home,
        &home.path(format!("{kind}/{}", file_name(kind, value))),
        &to.to_string(),
    )
}

/// Gives up whatever this sandbox claimed, for when no record says what that was.
pub(crate) fn release_all(home: &Home, id: SandboxId) -> Result<(), ProviderError> {
    let id = id.to_string();
    for kind in ["ranges", "names", "keys"] {
        for name in entries(&home.path(kind))? {
            let path = home.path(format!("{kind}/{name}"));
            if fs::read_to_string(&path).is_ok_and(|text| text.trim() == id) {
                let _ = fs::remove_file(path);
            }
        }
    }
    Ok(())
}

/// Keys are anyone's text; names have been checked to be file names.
fn file_name(kind: &str, value: &str) -> String {
    if kind == "keys" {
        blake3::hash(value.as_bytes()).to_hex().to_string()
    } else {
        value.to_owned()
    }
}

fn try_claim(home: &Home, kind: &str, file: &str, id: SandboxId) -> Result<bool, ProviderError> {
    let path = home.path(format!("{kind}/{file}"));
    // Linked into place, so that a claim never exists without its holder's id.
    let claim = || -> io::Result<bool> {
        let (aside, _file) = crate::home::aside(home, &id.to_string())?;
        let linked = fs_err::hard_link(&aside, &path);
        fs_err::remove_file(&aside)?;
        match linked {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    };
    claim().doing(format!("claiming {path}"))
}
