//! What the kernel starts with: busybox, the modules that lead to the root, and `init.sh`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};

use super::kernel::Fetched;
use crate::command::command;

/// To reach the root and the disk, and what a sandbox's own root is made of. Any of them may be
/// built into the kernel instead.
const WANTED: &[&str] = &["9pnet_virtio", "9p", "virtio_blk", "ext4", "overlay"];

const DIRECTORY: u32 = 0o04_0755;
const PROGRAM: u32 = 0o10_0755;

/// The modules that are wanted and those they need, these first, out of a package's files.
pub(super) fn modules(files: &[PathBuf]) -> Result<Vec<(String, Vec<u8>)>> {
    let mut modules = Vec::new();
    for name in WANTED {
        if let Some(file) = file_of(files, name) {
            load(files, name, file, &mut modules)?;
        }
    }
    ensure!(!modules.is_empty(), "the packages have no kernel modules");
    Ok(modules)
}

fn load(
    files: &[PathBuf],
    name: &str,
    file: &Path,
    modules: &mut Vec<(String, Vec<u8>)>,
) -> Result<()> {
    if modules.iter().any(|(loaded, _)| loaded == name) {
        return Ok(());
    }
    let content = unpack(file)?;
    for needed in needs(&content) {
        let file =
            file_of(files, &needed).with_context(|| format!("{name} needs the module {needed}"))?;
        load(files, &needed, file, modules)?;
    }
    modules.push((name.to_owned(), content));
    Ok(())
}

fn file_of<'a>(files: &'a [PathBuf], module: &str) -> Option<&'a PathBuf> {
    files.iter().find(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.strip_suffix(".ko.xz")
            // The two stand for the same in a module's name.
            .is_some_and(|name| name.replace('-', "_") == module.replace('-', "_"))
    })
}

fn unpack(file: &Path) -> Result<Vec<u8>> {
    let output = command("xz --decompress --stdout")
        .arg(file)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "cannot unpack {}", file.display());
    Ok(output.stdout)
}

/// A module says what it needs in a line of its own, between zeros.
fn needs(module: &[u8]) -> Vec<String> {
    let line = module
        .split(|byte| *byte == 0)
        .find_map(|line| line.strip_prefix(b"depends="))
        .unwrap_or_default();
    String::from_utf8_lossy(line)
        .split(',')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The archive that the kernel unpacks into memory.
pub(super) fn pack(fetched: &Fetched) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for directory in ["bin", "dev", "modules", "proc", "root", "sys"] {
        archive.add(directory, DIRECTORY, b"");
    }
    archive.add("init", PROGRAM, include_bytes!("init.sh"));
    archive.add("bin/busybox", PROGRAM, &fs_err::read(fetched.busybox())?);
    for entry in fs_err::read_dir(fetched.modules())? {
        let entry = entry?;
        let name = format!("modules/{}", entry.file_name().to_string_lossy());
        archive.add(&name, PROGRAM, &fs_err::read(entry.path())?);
    }
    Ok(archive.finish())
}

/// cpio in the form that the kernel calls newc.
#[derive(Debug, Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let fields = [
            self.entries as usize,
            mode as usize,
            0, // owner
            0, // group
            1, // links
            0, // time
            content.len(),
            0, // device of the file, in two parts
            0,
            0, // device that it stands for, in two parts
            0,
            name.len() + 1,
            0, // checksum
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, b"");
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_says_what_it_needs() {
        let module = b"\x7fELF\0license=GPL\0depends=jbd2,crc16,mbcache\0name=ext4\0";
        assert_eq!(needs(module), ["jbd2", "crc16", "mbcache"]);
        assert!(needs(b"\x7fELF\0depends=\0name=crc16\0").is_empty());
    }

    #[test]
    fn an_archives_entries_begin_at_multiples_of_four() {
        let mut archive = Archive::default();
        archive.add("init", PROGRAM, b"odd");
        let second = archive.bytes.len();
        archive.add("bin", DIRECTORY, b"");
        assert_eq!(second % 4, 0);
        assert!(archive.bytes[second..].starts_with(b"070701"));
        assert_eq!(&archive.bytes[54..62], b"00000003", "the content's length");
    }
}
