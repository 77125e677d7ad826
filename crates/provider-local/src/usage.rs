//! What takes how much of the disk, and what is there more than once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use provider::ProviderError;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, openat};

use crate::error::Doing as _;
use crate::home::entries;
use crate::layer::{self, LayerId};
use crate::operation::Engine;
use crate::snapshot::SnapshotRecord;
use crate::tree::{self, Measure, Visitor};
use crate::{Duplicate, Duplicates, LayerUsage, SnapshotUsage, Usage, UsagePart};

/// How many groups of equal files are shown.
const MOST_GROUPS: usize = 10;

/// Adds up the whole home. Each file is counted once, in the first part that names it.
pub(crate) fn measure(engine: &Engine) -> Result<Usage, ProviderError> {
    let home = &engine.home;
    let mut measure = Measure::default();
    let mut add = |name: &str| -> Result<u64, ProviderError> {
        measure
            .add(&home.path(name))
            .doing(format!("measuring {name}"))
    };
    let part = |name: &str, add: &mut dyn FnMut(&str) -> Result<u64, ProviderError>| {
        let count = entries(&home.path(name))?.len() as u64;
        let bytes = add(name)?;
        Ok::<_, ProviderError>(UsagePart { count, bytes })
    };
    let sandboxes = part("sandboxes", &mut add)?;
    let mut by_layer = BTreeMap::new();
    let mut layers = UsagePart::default();
    for name in entries(&home.path("layers"))? {
        let bytes = add(&format!("layers/{name}"))?;
        layers.count += 1;
        layers.bytes += bytes;
        by_layer.insert(name, bytes);
    }
    let snapshots = part("snapshots", &mut add)?;
    let trash = part("trash", &mut add)?;
    let programs = part("bin", &mut add)?;
    let mut records = UsagePart::default();
    for name in entries(home.root())? {
        if !["sandboxes", "layers", "snapshots", "trash", "bin"].contains(&name.as_str()) {
            records.count += 1;
            records.bytes += add(&name)?;
        }
    }
    // The directories themselves, of which the parts above are the content.
    layers.bytes += own_size(home.path("layers").as_std_path()).doing("measuring layers")?;
    records.bytes += own_size(home.root().as_std_path()).doing("measuring the home")?;
    let disk = rustix::fs::statvfs(home.root().as_std_path()).doing("measuring the disk")?;
    let (by_layer, by_snapshot) = shares(engine, &by_layer)?;
    let parts = [sandboxes, layers, snapshots, trash, programs, records];
    Ok(Usage {
        home: home.root().to_owned(),
        sandboxes,
        layers,
        snapshots,
        trash,
        programs,
        records,
        total_bytes: parts.iter().map(|part| part.bytes).sum(),
        free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
        by_layer,
        by_snapshot,
    })
}

fn own_size(path: &std::path::Path) -> io::Result<u64> {
    let stat = rustix::fs::statat(CWD, path, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(u64::try_from(stat.st_blocks).unwrap_or(0) * 512)
}

/// Who stands on which layer.
fn shares(
    engine: &Engine,
    sizes: &BTreeMap<String, u64>,
) -> Result<(Vec<LayerUsage>, Vec<SnapshotUsage>), ProviderError> {
    let snapshots = SnapshotRecord::readable(&engine.home)?;
    let sandboxes: Vec<BTreeSet<LayerId>> = engine
        .records()?
        .into_iter()
        .map(|record| record.layers.into_iter().collect())
        .collect();
    let mut by_layer: BTreeMap<&str, LayerUsage> = sizes
        .iter()
        .map(|(id, bytes)| {
            let usage = LayerUsage {
                id: id.clone(),
                bytes: *bytes,
                snapshots: 0,
                sandboxes: 0,
            };
            (id.as_str(), usage)
        })
        .collect();
    for snapshot in &snapshots {
        for id in &snapshot.layers {
            if let Some(usage) = by_layer.get_mut(id.to_string().as_str()) {
                usage.snapshots += 1;
            }
        }
    }
    for id in sandboxes.iter().flatten() {
        if let Some(usage) = by_layer.get_mut(id.to_string().as_str()) {
            usage.sandboxes += 1;
        }
    }
    let by_snapshot = snapshots
        .into_iter()
        .map(|snapshot| {
            let (mut own_bytes, mut shared_bytes) = (0, 0);
            for id in &snapshot.layers {
                match by_layer.get(id.to_string().as_str()) {
                    Some(usage) if usage.snapshots + usage.sandboxes == 1 => {
                        own_bytes += usage.bytes;
                    }
                    Some(usage) => shared_bytes += usage.bytes,
                    None => {}
                }
            }
            SnapshotUsage {
                id: snapshot.id,
                name: snapshot.name,
                own_bytes,
                shared_bytes,
            }
        })
        .collect();
    Ok((by_layer.into_values().collect(), by_snapshot))
}

/// A regular file of a layer.
struct Found {
    layer: usize,
    path: Vec<u8>,
    inode: u64,
    allocated: u64,
}

struct Sizes<'a> {
    layer: usize,
    by_size: &'a mut HashMap<u64, Vec<Found>>,
}

impl Visitor for Sizes<'_> {
    fn entry(&mut self, _: &OwnedFd, _: &CStr, path: &[u8], stat: &Stat) -> io::Result<bool> {
        // What takes no room, as a file that is one hole, would give none.
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_blocks > 0 {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            self.by_size.entry(size).or_default().push(Found {
                layer: self.layer,
                path: path.to_vec(),
                inode: stat.st_ino,
                allocated: u64::try_from(stat.st_blocks).unwrap_or(0) * 512,
            });
        }
        Ok(true)
    }

    fn too_deep(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// Files of equal size are read, and of equal content counted.
pub(crate) fn duplicates(engine: &Engine) -> Result<Duplicates, ProviderError> {
    let home = &engine.home;
    let layers: Vec<LayerId> = layer::all(home)?;
    let mut by_size = HashMap::new();
    for (number, id) in layers.iter().enumerate() {
        let path = layer::files(home, id);
        let reading = || format!("reading layer {id}");
        let top = match tree::open_directory(CWD, path.as_std_path()) {
            // Removed meanwhile, or not filled yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.doing(reading())?,
        };
        let mut sizes = Sizes {
            layer: number,
            by_size: &mut by_size,
        };
        tree::walk(top, &mut sizes).doing(reading())?;
    }
    let mut result = Duplicates::default();
    for (size, mut files) in by_size {
        // Several names of one file are one file.
        let mut seen = BTreeSet::new();
        files.retain(|file| seen.insert(file.inode));
        if files.len() < 2 {
            continue;
        }
        let mut by_content: HashMap<[u8; 32], Vec<&Found>> = HashMap::new();
        for file in &files {
            if let Ok(hash) = content(engine, &layers[file.layer], &file.path) {
                by_content.entry(hash).or_default().push(file);
            }
        }
        for equal in by_content.values().filter(|equal| equal.len() > 1) {
            let bytes = equal[1..].iter().map(|file| file.allocated).sum();
            result.files += equal.len() as u64 - 1;
            result.bytes += bytes;
            result.largest.push(Duplicate {
                size,
                bytes,
                copies: equal.len() as u64,
                example: format!(
                    "{}/{}",
                    layers[equal[0].layer],
                    String::from_utf8_lossy(&equal[0].path)
                ),
            });
        }
    }
    result
        .largest
        .sort_by_key(|group| std::cmp::Reverse((group.bytes, group.size)));
    result.largest.truncate(MOST_GROUPS);
    Ok(result)
}

fn content(engine: &Engine, id: &LayerId, path: &[u8]) -> io::Result<[u8; 32]> {
    let mut at = tree::open_directory(CWD, layer::files(&engine.home, id).as_std_path())?;
    let mut components: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let name = components.pop().unwrap_or_default();
    for component in components {
        at = tree::open_directory(&at, component)?;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOATIME;
    let file = openat(&at, name, flags, Mode::empty())?;
    let mut hash = blake3::Hasher::new();
    hash.update_reader(std::fs::File::from(file))?;
    Ok(*hash.finalize().as_bytes())
}
