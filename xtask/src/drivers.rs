//! The suites that depend on the file system under the home, on every other one that this machine
//! can make: each in a file, mounted in a mount namespace that goes with the tests.

use anyhow::{Context as _, Result};

use crate::command::{command, run, run_command};
use crate::report::{End, Report};

/// Of the second runtime's, those that look at the disk: what a driver does is under both the same.
const SUITES: &str = "(test(contract::) - test(contract::runsc::)) | test(subvolume::) | test(crash::) | test(engine::) | test(damage::) | \
    test(contract::runsc::snapshots::) | test(contract::runsc::fork::) | \
    test(contract::runsc::limits::disk_beyond_its_limit_is_not_given)";

struct Driver {
    name: &'static str,
    step: &'static str,
    make: &'static str,
    mounted: &'static str,
}

const DRIVERS: [Driver; 2] = [
    Driver {
        name: "btrfs",
        step: "tests on btrfs",
        make: "mkfs.btrfs -q -f",
        mounted: "btrfs quota enable",
    },
    Driver {
        name: "xfs",
        step: "tests on xfs",
        make: "mkfs.xfs -q -f -m reflink=1",
        mounted: "true",
    },
];

pub(crate) fn test(report: &mut Report) {
    for driver in DRIVERS {
        report.step(driver.step, || driver.test());
    }
}

impl Driver {
    fn test(&self) -> Result<End> {
        let known = fs_err::read_to_string("/proc/filesystems")?;
        if !known
            .split_whitespace()
            .any(|file_system| file_system == self.name)
        {
            return Ok(End::Skipped(format!("this kernel has no {}", self.name)));
        }
        // Paths of sockets have room for 107 bytes, so the place has a short one.
        let place = format!("/tmp/nacre-{}-{}", self.name, std::process::id());
        fs_err::create_dir(&place)?;
        let image = format!("target/{}-{}.img", self.name, std::process::id());
        let result = self.test_at(&image, &place);
        fs_err::remove_file(&image).context("removing the image")?;
        fs_err::remove_dir(&place).context("removing the place")?;
        result
    }

    fn test_at(&self, image: &str, place: &str) -> Result<End> {
        run(&format!("truncate -s 12G {image}"))?;
        run(&format!("{} {image}", self.make))?;
        let script = format!(
            "mount -o loop,noatime {image} {place} && {} {place} && exec \"$@\"",
            self.mounted
        );
        let suites = format!("(package(nacre-provider-local) | package(nacre)) & ({SUITES})");
        run_command(
            command("unshare --mount --propagation private -- sh -c")
                .arg(script)
                // Of the whole workspace, as it is built already: for one package alone its
                // dependencies have other features and are built again.
                .args([
                    "sh",
                    "cargo",
                    "nextest",
                    "run",
                    "--workspace",
                    "--all-features",
                ])
                .args(["-E", &suites])
                .env("TMPDIR", place),
        )?;
        Ok(End::Passed)
    }
}
