//! Snapshots out and in, beside `tar | zstd` on the same tree in the same rounds.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use camino::{Utf8Path, Utf8PathBuf};
use model::SnapshotId;
use portable::place::{ReadFile, WriteFile};
use portable::{Control, Packing};
use provider::{Origin, Provider as _, SandboxSpec};
use provider_local::Local;

use super::interrupt::Interrupt;
use super::report::Report;
use super::say;
use super::stats::Samples;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Once, and with little: shows that it works, not how fast it is
    #[arg(long, conflicts_with = "runs")]
    pub(super) quick: bool,
    /// Where the throw-away home is made [default: in the configured home]
    #[arg(long, value_name = "DIR")]
    pub(super) home: Option<Utf8PathBuf>,
}

/// At most so much of what `tar | zstd` takes.
const GOAL: f64 = 1.1;

/// What theirs is. Ours is on the disk when it is done, so theirs must be too.
const PACK: &str = r#"tar -C "$1" -cf - . | zstd -q -3 -T0 -o "$2" && sync "$2""#;
const UNPACK: &str = r#"zstd -q -d -c "$1" | tar -C "$2" -xf - && sync -f "$2""#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Ours,
    Theirs,
}

/// A tree to carry.
struct Tree {
    name: &'static str,
    large: u64,
    files: usize,
    file_size: usize,
}

const FULL: [Tree; 2] = [
    Tree {
        name: "1gib",
        large: 768 << 20,
        files: 256,
        file_size: 1 << 20,
    },
    Tree {
        name: "20000_files",
        large: 0,
        files: 20_000,
        file_size: 8 << 10,
    },
];

const QUICK: [Tree; 2] = [
    Tree {
        name: "1gib",
        large: 12 << 20,
        files: 4,
        file_size: 1 << 20,
    },
    Tree {
        name: "20000_files",
        large: 0,
        files: 200,
        file_size: 8 << 10,
    },
];

/// What is measured, and where.
pub(super) struct Ground<'a> {
    pub(super) local: &'a Local,
    /// Another home, to import into.
    pub(super) open: &'a dyn Fn(&Utf8Path) -> Result<Local, provider::ProviderError>,
    pub(super) place: &'a Utf8Path,
    pub(super) interrupt: &'a Interrupt,
    pub(super) report: &'a mut Report,
}

pub(super) async fn run(
    ground: &mut Ground<'_>,
    arguments: &Arguments,
) -> Result<(), CommandError> {
    let (trees, runs) = if arguments.quick {
        (&QUICK, 1)
    } else {
        (&FULL, arguments.runs)
    };
    for tree in trees {
        measure(ground, tree, runs).await?;
    }
    Ok(())
}

async fn measure(ground: &mut Ground<'_>, tree: &Tree, runs: u32) -> Result<(), CommandError> {
    say(&format!("{}: making the tree", tree.name));
    let source = ground.place.join(tree.name);
    tree.make(&source)?;
    let snapshot = snapshot_of(ground.local, &source).await?;
    let (mut export, mut import) = (Samples::default(), Samples::default());
    let (mut peer_export, mut peer_import) = (Samples::default(), Samples::default());
    let rounds = ground.place.join("rounds");
    for round in 1..=runs {
        ground.interrupt.check().await?;
        say(&format!("{}: round {round} of {runs}", tree.name));
        // Nothing is deleted before the last round: ext4 is slow to make files where many have just
        // been deleted, whoever made them.
        let place = rounds.join(round.to_string());
        fs_err::create_dir_all(place.join("out"))?;
        let (ours, theirs) = (place.join("ours.nacre"), place.join("theirs.tar.zst"));
        let out = place.join("out");
        let other = (ground.open)(&place.join("home"))?;
        // By turns, so that what one leaves the disk to do does not always fall on the other.
        let turns = if round % 2 == 0 {
            [Turn::Theirs, Turn::Ours]
        } else {
            [Turn::Ours, Turn::Theirs]
        };
        for turn in turns {
            if turn == Turn::Ours {
                export.add(exported(ground.local, &snapshot, &ours).await?);
            } else {
                peer_export.add(shell(PACK, &[&source, &theirs])?);
            }
        }
        for turn in turns {
            if turn == Turn::Ours {
                import.add(imported(&other, &ours).await?);
            } else {
                peer_import.add(shell(UNPACK, &[&theirs, &out])?);
            }
        }
        if round == 1 {
            for (name, path) in [("export", &ours), ("tar | zstd", &theirs)] {
                let size = fs_err::metadata(path)?.len();
                let name = format!("{name}, {}: size", tree.name);
                let size = super::stats::number(size) / 1_048_576.0;
                ground.report.value(&name, size, "MiB");
            }
        }
    }
    fs_err::remove_dir_all(&rounds)?;
    for (name, ours, theirs) in [
        ("export", &export, &peer_export),
        ("import", &import, &peer_import),
    ] {
        let name = format!("{name}_{}", tree.name);
        let report = &mut *ground.report;
        let ours = report.times(&name, ours);
        let theirs = report.times(&format!("{name}, tar and zstd"), theirs);
        if let (Some(ours), Some(theirs)) = (ours, theirs) {
            let ratio = ours.p50_ms / theirs.p50_ms;
            report.goal(&name, "p50 by tar and zstd's", ratio, GOAL, "×");
        }
    }
    fs_err::remove_dir_all(&source)?;
    Ok(())
}

/// The tree as a layer, under an almost empty one, with its digest computed.
async fn snapshot_of(local: &Local, tree: &Utf8Path) -> Result<SnapshotId, CommandError> {
    let origin = Origin::Rootfs(tree.as_std_path().to_owned());
    let id = local.create(&SandboxSpec::from(origin)).await?.id;
    let snapshot = local
        .stop(id)
        .await?
        .snapshot
        .context("the stop gave no snapshot")?;
    local.digest_snapshot(&snapshot).await?;
    Ok(snapshot)
}

async fn exported(
    local: &Local,
    id: &SnapshotId,
    path: &Utf8Path,
) -> Result<Duration, CommandError> {
    let control = Arc::new(Control::default());
    let started = Instant::now();
    let target = Box::new(WriteFile::create(path)?);
    local
        .export(id, target, Packing::default(), control)
        .await?;
    Ok(started.elapsed())
}

async fn imported(local: &Local, path: &Utf8Path) -> Result<Duration, CommandError> {
    let control = Arc::new(Control::default());
    let started = Instant::now();
    let source = Box::new(ReadFile::open(path)?);
    local.import(source, None, control).await?;
    Ok(started.elapsed())
}

fn shell(script: &str, arguments: &[&Utf8Path]) -> Result<Duration, CommandError> {
    let started = Instant::now();
    let status = Command::new("sh")
        .args(["-ec", script, "sh"])
        .args(arguments)
        .stdin(Stdio::null())
        .status()
        .context("cannot run sh")?;
    let took = started.elapsed();
    if status.success() {
        return Ok(took);
    }
    Err(CommandError::failed(format!("`{script}` failed")))
}

impl Tree {
    /// Half of it is noise, half is text.
    fn make(&self, root: &Utf8Path) -> Result<(), CommandError> {
        let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
        fs_err::create_dir(root)?;
        for number in 0..self.files {
            let directory = root.join(format!("d{}", number / 100));
            if number % 100 == 0 {
                fs_err::create_dir(&directory)?;
            }
            let size = if self.large > 0 {
                self.file_size
            } else {
                // From nothing to the whole, all sizes alike often.
                usize::try_from(noise.next()).unwrap_or(0) % self.file_size
            };
            let mut content = Vec::new();
            noise.fill(&mut content, size, number % 2 == 0);
            fs_err::write(directory.join(format!("f{number}")), content)?;
        }
        if self.large > 0 {
            let mut file = fs_err::File::create(root.join("large"))?;
            let mut content = Vec::new();
            for piece in 0..self.large >> 20 {
                content.clear();
                noise.fill(&mut content, 1 << 20, piece % 2 == 0);
                file.write_all(&content)?;
            }
        }
        ensure_made(root)?;
        Ok(())
    }
}

fn ensure_made(root: &Utf8Path) -> anyhow::Result<()> {
    ensure!(root.read_dir_utf8()?.next().is_some(), "{root} is empty");
    Ok(())
}

/// The same noise in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn fill(&mut self, content: &mut Vec<u8>, size: usize, as_text: bool) {
        const WORDS: [&str; 8] = [
            "mother ", "of ", "pearl ", "nacre ", "shell ", "layer ", "grain ", "sand\n",
        ];
        while content.len() < size {
            let word = self.next();
            if as_text {
                for shift in (0..64).step_by(3) {
                    let number = usize::try_from(word >> shift & 7).unwrap_or(0);
                    content.extend_from_slice(WORDS[number].as_bytes());
                }
            } else {
                content.extend_from_slice(&word.to_le_bytes());
            }
        }
        content.truncate(size);
    }
}
