//! The small programs inside this one.

use std::os::unix::fs::PermissionsExt as _;

use camino::Utf8PathBuf;
use fs_err as fs;
use provider::ProviderError;

use crate::error::Doing as _;
use crate::home::Home;

const KEEPER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nacre-keeper"));
const EGRESS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nacre-egress"));
const GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nacre-guest"));
const INSIDE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nacre-inside"));

#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) keeper: Utf8PathBuf,
    pub(crate) egress: Utf8PathBuf,
    /// PID 1, and the workplace that it may start.
    pub(crate) guest: Utf8PathBuf,
    pub(crate) inside: Utf8PathBuf,
}

/// Puts the programs of this build into the home, once. Others' stay: live sandboxes use them.
pub(crate) fn install(home: &Home) -> Result<Programs, ProviderError> {
    let directory = home.path(concat!("bin/", env!("NACRE_PROGRAMS")));
    let programs = Programs {
        keeper: directory.join("nacre-keeper"),
        egress: directory.join("nacre-egress"),
        guest: directory.join("nacre-guest"),
        inside: directory.join("nacre-inside"),
    };
    if programs.guest.exists() {
        return Ok(programs);
    }
    fs::create_dir_all(&directory).doing("installing the programs of a sandbox")?;
    // What runs inside has a mode that lets the sandbox execute it and nobody inside read it, which
    // also keeps the kernel from letting them look into its processes. The guest is written last:
    // it marks the rest as whole.
    for (bytes, path, mode) in [
        (KEEPER, &programs.keeper, 0o700),
        (EGRESS, &programs.egress, 0o700),
        (INSIDE, &programs.inside, 0o644),
        (GUEST, &programs.guest, 0o711),
    ] {
        let new = path.with_extension(format!("new{}", rustix::thread::gettid().as_raw_nonzero()));
        fs::write(&new, bytes)
            .and_then(|()| fs::set_permissions(&new, std::fs::Permissions::from_mode(mode)))
            .and_then(|()| fs::rename(&new, path))
            .doing("installing the programs of a sandbox")?;
    }
    Ok(programs)
}
