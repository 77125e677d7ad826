//! The base: what sessions start from. Debian's root file system, and over it a recipe that runs in
//! a sandbox of its own and whose disk is kept.
//!
//! A crash on the way leaves a sandbox that no one else has a use for; the next build removes it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{Id, SnapshotId};
use provider::{
    ExecOutput, ExecSpec, FileEntry, FileKind, Network, Origin, Provider as _, ProviderError,
    Sandbox, SandboxId, SandboxSpec, files_from,
};

use crate::error::Doing as _;
use crate::home::{Home, Lock};
use crate::inspect::info;
use crate::rootfs::debian;
use crate::snapshot::{SnapshotRecord, base_id};
use crate::{Local, SnapshotInfo};

macro_rules! part {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../images/base/", $name)))
    };
}

/// The recipe, file by file. Whatever it bakes in is told here, so these make the version.
const RECIPE: [(&str, &str); 6] = [
    part!("install.sh"),
    part!("code-server.sh"),
    part!("versions"),
    part!("bin/start-postgres"),
    part!("bin/start-redis"),
    part!("bin/start-mail"),
];
/// Where it lies inside, and stays: it says what the base is.
const PLACE: &str = "/opt/nacre/base";
const NAME: &str = "base";
/// How often it is looked whether another build has ended.
const LOOK: Duration = Duration::from_millis(200);
/// Of what the recipe said last, for the error.
const LAST_LINES: usize = 8;

/// How much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flavour {
    Full,
    /// Agent, git, ripgrep, Node, Caddy.
    Slim,
    /// That, and these.
    With(BTreeSet<Part>),
}

/// What a base may have or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Chromium, and what drives it for an agent.
    Browser,
    /// A screen, its windows and a viewer.
    Desktop,
    Editor,
    /// `PostgreSQL`, Redis and a catcher of mail, for those who start them.
    Services,
}

impl Part {
    pub const ALL: [Self; 4] = [Self::Browser, Self::Desktop, Self::Editor, Self::Services];

    pub fn name(self) -> &'static str {
        match self {
            Self::Browser => "browser",
            Self::Desktop => "desktop",
            Self::Editor => "editor",
            Self::Services => "services",
        }
    }
}

#[derive(Debug, Clone)]
pub enum Built {
    New(SnapshotInfo),
    /// The same was built before.
    Known(SnapshotInfo),
}

impl Flavour {
    fn argument(&self) -> Option<String> {
        match self {
            Self::Full => None,
            Self::Slim => Some("--slim".to_owned()),
            Self::With(parts) => {
                let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
                Some(format!("--with={}", names.join(",")))
            }
        }
    }

    /// The same for the same recipe over the same root file system.
    fn version(&self) -> String {
        let mut hash = blake3::Hasher::new();
        let mut add = |part: &str| {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        };
        add(&debian::recipe());
        add(&self.argument().unwrap_or_default());
        for (name, content) in RECIPE {
            add(name);
            add(content);
        }
        format!("base-{}", &hash.finalize().to_hex()[..16])
    }
}

/// Waits for whoever builds the same: each would take the other's sandbox for one that was left
/// behind, and afterwards it is built.
async fn alone(
    home: &Home,
    version: &str,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<Lock, ProviderError> {
    let mut has_said = false;
    loop {
        if let Some(lock) = home.try_base(version)? {
            return Ok(lock);
        }
        if !std::mem::replace(&mut has_said, true) {
            progress("another nacre builds this base; it is waited for");
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl Local {
    /// Builds the base, or finds that it is built, and names it `base`. `progress` gets a line at a
    /// time; all of them are in the log that an error names.
    pub async fn build_base(
        &self,
        flavour: Flavour,
        progress: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Built, ProviderError> {
        let version = flavour.version();
        let home = &self.engine.home;
        let _alone = alone(home, &version, &*progress).await?;
        if let Some(known) = SnapshotRecord::made_by(home, &version)? {
            return Ok(Built::Known(info(self.call_it_base(known)?)));
        }
        progress("building Debian's root file system");
        let said = Arc::clone(&progress);
        let debian = self
            .blocking(move |engine| {
                debian::ensure(&engine.home, &*engine.clock, &|line| said(line))
            })
            .await?;
        let sandbox = self.room_for(&version, debian.id).await?.id;
        let kept = self.follow_recipe(sandbox, &flavour, &*progress).await;
        let kept = match kept {
            Ok(snapshot) => snapshot,
            Err(error) => {
                self.remove(sandbox).await?;
                return Err(error);
            }
        };
        let layers = SnapshotRecord::load(home, &kept)?.layers;
        let record = SnapshotRecord {
            id: base_id(Id::new(&*self.engine.clock)),
            name: None,
            created_at: self.engine.clock.now(),
            sandbox: None,
            recovered: false,
            layers,
            host: None,
            digest: None,
            recipe: Some(version),
        };
        let record = self.call_it_base(record)?;
        self.remove(sandbox).await?;
        self.delete_snapshot(&kept).await?;
        Ok(Built::New(info(record)))
    }

    /// A new sandbox; one that a build left behind is gone.
    async fn room_for(&self, version: &str, debian: SnapshotId) -> Result<Sandbox, ProviderError> {
        let left_over = self.list(&[]).await?;
        for sandbox in left_over {
            if sandbox.key.as_deref() == Some(version) {
                self.remove(sandbox.id).await?;
            }
        }
        let spec = SandboxSpec {
            key: Some(version.to_owned()),
            network: Network::Proxy,
            ..SandboxSpec::from(Origin::Snapshot(debian))
        };
        self.create(&spec).await
    }

    async fn follow_recipe(
        &self,
        sandbox: SandboxId,
        flavour: &Flavour,
        progress: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<SnapshotId, ProviderError> {
        self.write_files(sandbox, PLACE.as_bytes(), None, files_from(recipe_files()))
            .await?;
        let script = format!("{PLACE}/install.sh");
        let mut argv = vec!["/bin/sh".to_owned(), script];
        argv.extend(flavour.argument());
        let log = self
            .engine
            .home
            .path(format!("run/{}.log", flavour.version()));
        let mut lines = Lines::open(&log, progress)?;
        let mut exec = self.exec(sandbox, ExecSpec::new(argv)).await?;
        let mut exit = None;
        while let Some(output) = exec.output.recv().await {
            match output? {
                ExecOutput::Stdout(bytes) | ExecOutput::Stderr(bytes) => lines.take(&bytes)?,
                ExecOutput::Exit(ended) => exit = Some(ended),
            }
        }
        if exit.is_none_or(|exit| exit.code != 0) {
            let mut what = String::from("the recipe failed");
            for line in &lines.last {
                let _ = write!(what, "; {line}");
            }
            let _ = write!(what, "; all it said is in {log}");
            return Err(ProviderError::unavailable("building the base", what));
        }
        progress("keeping the disk");
        let receipt = self.stop(sandbox).await?;
        receipt.snapshot.ok_or_else(|| {
            ProviderError::unavailable("building the base", "stopping it left no snapshot")
        })
    }

    /// The new one has the name before the old one loses it: at no moment is there none.
    fn call_it_base(&self, mut record: SnapshotRecord) -> Result<SnapshotRecord, ProviderError> {
        let home = &self.engine.home;
        let _lock = home.own_snapshots()?;
        let previous: Vec<_> = SnapshotRecord::readable(home)?
            .into_iter()
            .filter(|other| other.name.as_deref() == Some(NAME) && other.id != record.id)
            .collect();
        record.name = Some(NAME.to_owned());
        record.save(home)?;
        for mut old in previous {
            old.name = None;
            old.save(home)?;
        }
        Ok(record)
    }
}

fn recipe_files() -> Vec<(FileEntry, Bytes)> {
    let entry = |path: &str, kind| FileEntry {
        path: path.into(),
        kind,
        mode: 0o755,
        uid: None,
        gid: None,
    };
    let directory = (entry("bin", FileKind::Directory), Bytes::new());
    let files = RECIPE.into_iter().map(|(name, content)| {
        (
            entry(name, FileKind::File),
            Bytes::from_static(content.as_bytes()),
        )
    });
    std::iter::once(directory).chain(files).collect()
}

/// Splits output into lines, keeps them all in a file and the last few in memory.
struct Lines<'a> {
    log: fs_err::File,
    progress: &'a (dyn Fn(&str) + Send + Sync),
    begun: Vec<u8>,
    last: std::collections::VecDeque<String>,
}

/// Whatever is longer is cut: somebody else's program wrote it.
const LONGEST_LINE: usize = 4 << 10;

impl<'a> Lines<'a> {
    fn open(
        log: &camino::Utf8Path,
        progress: &'a (dyn Fn(&str) + Send + Sync),
    ) -> Result<Self, ProviderError> {
        let directory = log.parent().expect("it is below the home");
        fs_err::create_dir_all(directory).doing("opening the build's log")?;
        Ok(Self {
            log: fs_err::File::create(log).doing("opening the build's log")?,
            progress,
            begun: Vec::new(),
            last: std::collections::VecDeque::new(),
        })
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), ProviderError> {
        self.log.write_all(bytes).doing("writing the build's log")?;
        for byte in bytes {
            if *byte == b'\n' || self.begun.len() >= LONGEST_LINE {
                self.line();
            } else {
                self.begun.push(*byte);
            }
        }
        Ok(())
    }

    fn line(&mut self) {
        let line = std::mem::take(&mut self.begun);
        let line: String = String::from_utf8_lossy(&line)
            .chars()
            .filter(|c| !c.is_control())
            .collect();
        if line.trim().is_empty() {
            return;
        }
        (self.progress)(&line);
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn whoever_builds_the_same_base_is_waited_for() {
        let place = camino_tempfile::tempdir().unwrap();
        let home = Home::open(place.path()).unwrap();
        let said = Mutex::new(Vec::new());
        let progress = |line: &str| said.lock().unwrap().push(line.to_owned());
        let first = alone(&home, "base-1", &progress).await.unwrap();
        alone(&home, "base-2", &progress).await.unwrap();
        let second = alone(&home, "base-1", &progress);
        let early = tokio::time::timeout(LOOK * 3, second).await;
        assert!(early.is_err());
        drop(first);
        alone(&home, "base-1", &progress).await.unwrap();
        assert_eq!(said.into_inner().unwrap().len(), 1);
    }
}
