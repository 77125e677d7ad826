//! The host's own `/usr`, read-only, behind a synthesised rest: for quick work on this machine.
//! Nothing of its `/home`, `/root`, `/run`, `/var` or secrets is in it.

use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use camino::Utf8Path;
use fs_err as fs;
use model::Clock;
use provider::ProviderError;
use wire::keeper::FILES;

use super::fill_once;
use crate::egress::{CARGO, KEPT_BY_SUDO};
use crate::error::Doing as _;
use crate::home::Home;
use crate::layer::LayerId;
use crate::tree;

/// Top-level names that a merged-usr system has as links into `/usr`, and others as directories.
const TOP: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Configuration without secrets that programs of the host's `/usr` look for.
const CONFIGURATION: [&str; 22] = [
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "nsswitch.conf",
    "protocols",
    "services",
    "rpc",
    "localtime",
    "timezone",
    "profile",
    "profile.d",
    "bash.bashrc",
    "skel",
    "login.defs",
    "pam.d",
    "security",
    "perl",
    "python3",
    "fonts",
    "terminfo",
    "mime.types",
];

const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
sys:x:3:3:sys:/dev:/usr/sbin/nologin
man:x:6:12:man:/var/cache/man:/usr/sbin/nologin
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
_apt:x:42:65534::/nonexistent:/usr/sbin/nologin
sshd:x:105:65534::/run/sshd:/usr/sbin/nologin
user:x:1000:1000:user:/home/user:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
";

const GROUP: &str = "\
root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
tty:x:5:
disk:x:6:
man:x:12:
mail:x:8:
sudo:x:27:user
shadow:x:42:
www-data:x:33:
utmp:x:43:
video:x:44:
staff:x:50:
users:x:100:
user:x:1000:
nogroup:x:65534:
";

/// Directories of the host that are seen inside.
pub(crate) fn binds() -> Vec<(String, String)> {
    let mut binds = vec![("/usr".to_owned(), "/usr".to_owned())];
    for name in TOP {
        let path = format!("/{name}");
        if std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir()) {
            binds.push((path.clone(), path));
        }
    }
    binds
}

/// Tells one host from another, and from itself reinstalled.
pub(crate) fn fingerprint() -> String {
    let read = |path: &str| fs_err::read_to_string(path).unwrap_or_default();
    let mut machine = read("/etc/machine-id");
    if machine.trim().is_empty() {
        machine = read("/proc/sys/kernel/hostname");
    }
    let hash = blake3::hash(format!("{machine}{}", read("/usr/lib/os-release")).as_bytes());
    hash.to_hex()[..24].to_owned()
}

/// The layer that stands under every sandbox `--from host`.
pub(crate) fn ensure_skeleton(home: &Home, clock: &dyn Clock) -> Result<LayerId, ProviderError> {
    // Raised when what is below changes.
    const VERSION: u32 = 3;
    let id = LayerId::named("host", &format!("{VERSION} {}", fingerprint()));
    fill_once(home, clock, &id, |place| {
        build(place).doing("preparing the host's root file system")
    })?;
    Ok(id)
}

fn build(root: &Utf8Path) -> std::io::Result<()> {
    fs::create_dir(root)?;
    let directories = [
        ("usr", 0o755),
        ("etc", 0o755),
        ("dev", 0o755),
        ("proc", 0o555),
        ("sys", 0o555),
        ("run", 0o755),
        ("tmp", 0o1777),
        ("root", 0o700),
        ("home", 0o755),
        ("home/user", 0o755),
        ("home/user/workspace", 0o755),
        ("var", 0o755),
        ("var/tmp", 0o1777),
        ("var/lib", 0o755),
        ("var/cache", 0o755),
        ("var/log", 0o755),
        ("opt", 0o755),
        ("mnt", 0o755),
        ("srv", 0o755),
        ("etc/ssl", 0o755),
        ("etc/sudoers.d", 0o750),
        (".cargo", 0o755),
    ];
    for (name, mode) in directories {
        let path = root.join(name);
        fs::create_dir(&path)?;
        fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
    }
    for name in ["home/user", "home/user/workspace"] {
        chown(root.join(name), Some(1000), Some(1000))?;
    }
    symlink("/run", root.join("var/run"))?;
    symlink("/home/user/workspace", root.join("workspace"))?;
    symlink(
        format!("/run/nacre/{FILES}/{CARGO}"),
        root.join(".cargo/config.toml"),
    )?;
    for name in TOP {
        let host = format!("/{name}");
        match std::fs::symlink_metadata(&host) {
            Ok(metadata) if metadata.is_symlink() => {
                symlink(std::fs::read_link(&host)?, root.join(name))?;
            }
            Ok(_) => fs::create_dir(root.join(name))?,
            Err(_) => {}
        }
    }
    let texts = [
        ("passwd", PASSWD, 0o644),
        ("group", GROUP, 0o644),
        (
            "shadow",
            "root:*:19000:0:99999:7:::\nuser:*:19000:0:99999:7:::\n",
            0o640,
        ),
        ("gshadow", "", 0o640),
        (
            "sudoers",
            &format!(
                "Defaults env_reset\n{KEPT_BY_SUDO}root ALL=(ALL:ALL) ALL\nuser ALL=(ALL:ALL) NOPASSWD:ALL\n"
            ),
            0o440,
        ),
        ("hostname", "", 0o644),
        ("hosts", "", 0o644),
        ("machine-id", "", 0o644),
        ("resolv.conf", "", 0o644),
        ("shells", "/bin/sh\n/bin/bash\n", 0o644),
    ];
    for (name, text, mode) in texts {
        let path = root.join("etc").join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
    }
    symlink("../usr/lib/os-release", root.join("etc/os-release"))?;
    symlink("/proc/self/mounts", root.join("etc/mtab"))?;
    for name in CONFIGURATION {
        copy_configuration(
            Path::new("/etc").join(name).as_path(),
            &root.join("etc").join(name),
        )?;
    }
    certificates(root)
}

fn copy_configuration(from: &Path, to: &Utf8Path) -> std::io::Result<()> {
    let Some(from) = Utf8Path::from_path(from) else {
        return Ok(());
    };
    match std::fs::symlink_metadata(from) {
        Ok(metadata) if metadata.is_dir() => {
            tree::copy(from, to)?;
            drop_secrets(to)
        }
        Ok(metadata) if metadata.is_symlink() => symlink(std::fs::read_link(from)?, to),
        // Readable by all on the host: then nothing secret is in it.
        Ok(metadata) if metadata.is_file() && metadata.permissions().mode() & 0o004 != 0 => {
            fs::copy(from, to).map(|_| ())
        }
        _ => Ok(()),
    }
}

/// What not everyone on the host may read is not for a sandbox.
fn drop_secrets(directory: &Utf8Path) -> std::io::Result<()> {
    for entry in directory.read_dir_utf8()? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let is_public = metadata.permissions().mode() & 0o004 != 0;
        match (metadata.is_symlink(), metadata.is_dir()) {
            (true, _) => {}
            (false, true) if is_public => drop_secrets(entry.path())?,
            (false, true) => tree::remove(entry.path())?,
            (false, false) if is_public => {}
            (false, false) => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// The sandbox trusts whom the host trusts. `/etc/ssl/private` stays outside.
fn certificates(root: &Utf8Path) -> std::io::Result<()> {
    for name in ["ssl/certs", "ca-certificates", "ssl/openssl.cnf"] {
        copy_configuration(
            Path::new("/etc").join(name).as_path(),
            &root.join("etc").join(name),
        )?;
    }
    Ok(())
}
