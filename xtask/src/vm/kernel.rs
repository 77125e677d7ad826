//! A Debian kernel, its modules and a static busybox, fetched as packages and never installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{files_below, fresh_directory, initramfs};
use crate::command::{command, output_of, run_command};

/// Sandboxes need Linux 6.13, which stable itself has not.
const SUITE: &str = "trixie";
const NEWER: &str = "trixie-backports";
/// Not the smaller kernel for clouds: that one has no 9p.
const KERNEL: &str = "linux-image-amd64";
const BUSYBOX: &str = "busybox-static";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// What of the packages is used, in a directory of its own.
#[derive(Debug)]
pub(super) struct Fetched {
    directory: PathBuf,
}

impl Fetched {
    pub(super) fn at(place: &Path) -> Self {
        Self {
            directory: place.join("fetched"),
        }
    }

    pub(super) fn kernel(&self) -> PathBuf {
        self.directory.join("vmlinuz")
    }

    pub(super) fn busybox(&self) -> PathBuf {
        self.directory.join("busybox")
    }

    /// Each beginning with its number in the order of loading.
    pub(super) fn modules(&self) -> PathBuf {
        self.directory.join("modules")
    }
}

/// Where this machine has its own packages from.
fn own_mirror() -> Result<String> {
    let said = output_of(
        command("apt-get indextargets")
            .args(["--format", "$(ORIGIN) $(SITE)"])
            .arg("Created-By: Packages"),
    )?;
    said.lines()
        .find_map(|line| line.strip_prefix("Debian "))
        .map(str::to_owned)
        .context("this machine's packages are not Debian's: say --mirror URL")
}

/// Whole or not at all: a directory is renamed into place when all is in it.
pub(super) fn fetch_once(place: &Path, mirror: Option<&str>) -> Result<()> {
    let fetched = Fetched::at(place);
    if fetched.directory.exists() {
        println!("there, from an earlier time");
        return Ok(());
    }
    let unpacked = place.join("unpacked");
    fresh_directory(&unpacked)?;
    let mirror = match mirror {
        Some(mirror) => mirror.to_owned(),
        None => own_mirror()?,
    };
    let apt = Apt::new(place, &mirror)?;
    run_command(&mut apt.command("apt-get --quiet update"))?;
    let mut depends = apt.command("apt-cache depends --recurse --important");
    let said = output_of(depends.arg(KERNEL))?;
    let packages = kernel_packages(&said);
    ensure!(!packages.is_empty(), "{NEWER} has no {KERNEL}");
    let download = apt.download();
    fresh_directory(&download)?;
    run_command(
        apt.command("apt-get --quiet download")
            .current_dir(&download)
            .arg(BUSYBOX)
            .args(packages),
    )?;
    for package in files_below(&download)? {
        run_command(command("dpkg-deb --extract").arg(package).arg(&unpacked))?;
    }
    let gathering = Fetched {
        directory: place.join("gathering"),
    };
    gather(&unpacked, &gathering)?;
    fs_err::remove_dir_all(&unpacked)?;
    fs_err::remove_dir_all(&apt.directory)?;
    fs_err::rename(&gathering.directory, &fetched.directory)?;
    Ok(())
}

fn gather(unpacked: &Path, to: &Fetched) -> Result<()> {
    fresh_directory(&to.directory)?;
    let files = files_below(unpacked)?;
    let named = |name: &str| {
        files
            .iter()
            .find(|file| file.file_name().is_some_and(|found| found == name))
    };
    // Beside its modules, or in /boot with its version in its name.
    let kernel = named("vmlinuz").or_else(|| {
        files.iter().find(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("vmlinuz-")
        })
    });
    fs_err::copy(kernel.context("no kernel in the packages")?, to.kernel())?;
    let busybox = named("busybox").context("no busybox in the packages")?;
    fs_err::copy(busybox, to.busybox())?;
    fs_err::create_dir(to.modules())?;
    for (number, (name, content)) in initramfs::modules(&files)?.into_iter().enumerate() {
        fs_err::write(to.modules().join(format!("{number:02}-{name}.ko")), content)?;
    }
    Ok(())
}

/// The packages with the kernel itself and its modules, out of what `apt-cache depends` prints.
fn kernel_packages(depends: &str) -> Vec<&str> {
    let versioned = |package: &str| {
        ["linux-image-", "linux-binary-", "linux-modules-"]
            .iter()
            .filter_map(|prefix| package.strip_prefix(prefix))
            .any(|version| version.starts_with(|first: char| first.is_ascii_digit()))
    };
    depends.lines().filter(|line| versioned(line)).collect()
}

/// Apt with sources and lists of its own: it changes nothing of the machine and needs no root.
/// The machine's proxies stay in force.
struct Apt {
    directory: PathBuf,
}

impl Apt {
    fn new(place: &Path, mirror: &str) -> Result<Self> {
        ensure!(
            Path::new(KEYRING).exists(),
            "Debian's keys are missing: install with `apt-get install debian-archive-keyring`"
        );
        let directory = place.join("apt");
        fresh_directory(&directory)?;
        for part in ["lists/partial", "cache/archives/partial", "none"] {
            fs_err::create_dir_all(directory.join(part))?;
        }
        let place = directory.display();
        let sources = format!(
            "Types: deb\nURIs: {mirror}\nSuites: {SUITE} {NEWER}\nComponents: main\nSigned-By: {KEYRING}\n"
        );
        fs_err::write(directory.join("debian.sources"), sources)?;
        // Without a user of its own: that one may not write here.
        let configuration = format!(
            r#"Dir::Etc::sourcelist "{place}/debian.sources";
Dir::Etc::sourceparts "{place}/none";
Dir::Etc::preferences "{place}/none/at-all";
Dir::Etc::preferencesparts "{place}/none";
Dir::State::lists "{place}/lists";
Dir::Cache "{place}/cache";
APT::Default-Release "{NEWER}";
APT::Sandbox::User "";
"#
        );
        fs_err::write(directory.join("apt.conf"), configuration)?;
        Ok(Self { directory })
    }

    fn download(&self) -> PathBuf {
        self.directory.join("download")
    }

    fn command(&self, line: &str) -> Command {
        let mut command = command(line);
        command
            .arg("--config-file")
            .arg(self.directory.join("apt.conf"));
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_packages_are_told_from_what_else_it_depends_on() {
        let depends = "\
linux-image-amd64
  Depends: linux-image-7.2.12+deb13-amd64
linux-image-7.2.12+deb13-amd64
 |Depends: <initramfs-tools>
  Depends: linux-binary-7.2.12+deb13-amd64
linux-base-7.2.12+deb13-amd64
linux-binary-7.2.12+deb13-amd64
linux-modules-7.2.12+deb13-amd64
<kmod>
";
        assert_eq!(
            kernel_packages(depends),
            [
                "linux-image-7.2.12+deb13-amd64",
                "linux-binary-7.2.12+deb13-amd64",
                "linux-modules-7.2.12+deb13-amd64"
            ]
        );
    }
}
