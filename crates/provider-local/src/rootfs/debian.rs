//! A small Debian root file system by `mmdebstrap`: what a base is made from.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

use camino::Utf8Path;
use model::{Clock, Id};
use provider::ProviderError;
use wire::keeper::FILES;

use super::fill_once;
use crate::egress::{CARGO, KEPT_BY_SUDO};
use crate::error::Doing as _;
use crate::home::Home;
use crate::layer::LayerId;
use crate::snapshot::{SnapshotRecord, base_id};
use crate::tree;

/// What the recipe of a base needs to begin with.
const INCLUDE: &str = "bash,ca-certificates,sudo";

/// What it has beyond Debian's packages.
const CUSTOMISE: &str = r#"
set -e
chroot "$1" useradd --create-home --shell /bin/bash --uid 1000 --password '*' user
mkdir -p "$1/home/user/workspace" && chown -R 1000:1000 "$1/home/user"
ln -sfn /home/user/workspace "$1/workspace"
echo 'user ALL=(ALL:ALL) NOPASSWD:ALL' > "$1/etc/sudoers.d/user" && chmod 0440 "$1/etc/sudoers.d/user"
"#;

/// What makes a base's tools find the way out: see `egress`.
fn way_out() -> String {
    format!(
        "echo '{}' > \"$1/etc/sudoers.d/egress\" && chmod 0440 \"$1/etc/sudoers.d/egress\"\nmkdir -p \"$1/.cargo\" && ln -sfn /run/nacre/{FILES}/{CARGO} \"$1/.cargo/config.toml\"\n",
        KEPT_BY_SUDO.trim_end()
    )
}

/// What a build would make: another name, another root file system.
pub(crate) fn recipe() -> String {
    let parts = [&suite(), INCLUDE, CUSTOMISE, &way_out()].join("\0");
    format!("debian-{}", &blake3::hash(parts.as_bytes()).to_hex()[..16])
}

/// The root file system, built if there is none yet.
pub(crate) fn ensure(
    home: &Home,
    clock: &dyn Clock,
    progress: &dyn Fn(&str),
) -> Result<SnapshotRecord, ProviderError> {
    let recipe = recipe();
    if let Some(known) = SnapshotRecord::made_by(home, &recipe)? {
        return Ok(known);
    }
    let id = LayerId::new(clock);
    fill_once(home, clock, &id, |place| run(place, progress))?;
    let record = SnapshotRecord {
        id: base_id(Id::new(clock)),
        name: None,
        created_at: clock.now(),
        sandbox: None,
        recovered: false,
        layers: vec![id],
        host: None,
        digest: None,
        recipe: Some(recipe),
    };
    let _lock = home.own_snapshots()?;
    record.save(home)?;
    Ok(record)
}

/// What a build leaves that no sandbox wants: the host's side of it, done here and not in the hook,
/// because while a hook runs the host's own `/dev` is mounted in there.
fn tidy(place: &Utf8Path) -> std::io::Result<()> {
    let device = std::fs::metadata(place)?.dev();
    for name in ["dev", "run", "tmp", "var/cache/apt", "var/lib/apt/lists"] {
        for entry in place.join(name).read_dir_utf8()? {
            let path = entry?.into_path();
            if std::fs::symlink_metadata(&path)?.dev() != device {
                return Err(std::io::Error::other(format!("{path} is still a mount")));
            }
            tree::remove(&path)?;
        }
    }
    // Empty, so that each sandbox's own can be laid over them.
    for name in ["machine-id", "hostname", "hosts", "resolv.conf"] {
        let path = place.join("etc").join(name);
        let _ = std::fs::remove_file(&path);
        fs_err::write(path, "")?;
    }
    for entry in place.join("etc/ssh").read_dir_utf8().into_iter().flatten() {
        let entry = entry?;
        if entry.file_name().starts_with("ssh_host_") {
            fs_err::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn run(place: &Utf8Path, progress: &dyn Fn(&str)) -> Result<(), ProviderError> {
    let hook = place.with_file_name("customise.sh");
    fs_err::write(&hook, format!("{CUSTOMISE}{}", way_out())).doing("writing the recipe")?;
    let mut child = Command::new("mmdebstrap")
        .args(["--variant=minbase", "--mode=root", "--format=directory", "--include", INCLUDE])
        // The host's own sources and proxies are the ones known to work here.
        .arg("--customize-hook").arg(format!("sh {hook} \"$1\""))
        .arg(suite()).arg(place.as_str())
        .stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                ProviderError::refused("mmdebstrap is not installed: `apt-get install mmdebstrap`, or `nacre doctor --fix`")
            }
            _ => ProviderError::unavailable("running mmdebstrap", error),
        })?;
    let mut last = std::collections::VecDeque::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            progress(&line);
            last.push_back(line);
            if last.len() > 5 {
                last.pop_front();
            }
        }
    }
    let status = child.wait().doing("running mmdebstrap")?;
    let _ = fs_err::remove_file(&hook);
    if !status.success() {
        let words: Vec<String> = last.into();
        return Err(ProviderError::unavailable(
            "building Debian's root file system",
            words.join("; "),
        ));
    }
    tidy(place).doing("tidying up Debian's root file system")
}

/// The host's own suite where it is Debian's, else the current stable one.
fn suite() -> String {
    let text = fs_err::read_to_string("/usr/lib/os-release").unwrap_or_default();
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(|v| v.trim_matches('"').to_owned())
    };
    match (field("ID="), field("VERSION_CODENAME=")) {
        (Some(id), Some(codename)) if id == "debian" => codename,
        _ => "stable".to_owned(),
    }
}
