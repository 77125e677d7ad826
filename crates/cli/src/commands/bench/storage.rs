//! `nacre bench storage`: the same on every file system that this machine can make. Each run is a
//! nacre process of its own, in a mount namespace that goes with it.

use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use camino::Utf8Path;
use serde::Deserialize;

use super::machine::Machine;
use super::report::{Operation, Report};
use super::{Place, say, told};
use crate::app::App;
use crate::config;
use crate::error::CommandError;

/// "At most 15 ms for 10,000 fresh files."
const FROZEN_GOAL_MS: f64 = 15.0;
const MEASURED: &str = "snapshot_live,stop,fork_snapshot,fork_live,create_exec";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often what is quick is measured; what is slow is measured less often
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Few runs of everything: shows that it works, not how fast it is
    #[arg(long, conflicts_with = "runs")]
    quick: bool,
}

struct Driver {
    name: &'static str,
    /// None: the file system that is there.
    make: Option<&'static str>,
    mounted: &'static str,
}

const DRIVERS: [Driver; 3] = [
    Driver {
        name: "here",
        make: None,
        mounted: "",
    },
    Driver {
        name: "xfs",
        make: Some("mkfs.xfs -q -f -m reflink=1"),
        mounted: "true",
    },
    Driver {
        name: "btrfs",
        make: Some("mkfs.btrfs -q -f"),
        mounted: "btrfs quota enable",
    },
];

#[derive(Deserialize)]
struct Measured {
    operations: Vec<Operation>,
}

pub(super) fn run(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let configured = config::load()?.local;
    let place = Place::make(&configured.home)?;
    let mut report = Report::new(arguments.quick, Machine::look(&configured.home), &[]);
    for driver in DRIVERS {
        say(&format!("on {}", driver.name));
        match driver.measure(place.directory.path(), arguments) {
            Ok(measured) => add(&mut report, driver.name, measured),
            Err(error) => {
                say(&format!("{}: {error:#}", driver.name));
                report.failed(driver.name, format!("{error:#}"));
            }
        }
    }
    place.remove()?;
    told(app, report)
}

fn add(report: &mut Report, driver: &str, measured: Measured) {
    for operation in measured.operations {
        let (name, summary) = (format!("{driver}: {}", operation.name), operation.summary);
        report.add(Operation {
            name: name.clone(),
            summary,
        });
        if driver == "btrfs" && operation.name == "snapshot_live_frozen" {
            report.goal(&name, "p99_ms", summary.p99_ms, FROZEN_GOAL_MS, "ms");
        }
    }
}

impl Driver {
    fn measure(&self, place: &Utf8Path, arguments: &Arguments) -> anyhow::Result<Measured> {
        let own = std::env::current_exe().context("finding our own program")?;
        let home = place.join(self.name);
        fs_err::create_dir_all(&home)?;
        let image = place.join(format!("{}.img", self.name));
        let mut command = match self.make {
            None => Command::new(own),
            Some(make) => {
                let script = format!(
                    "truncate -s 16G {image} && {make} {image} >&2 && \
                     mount -o loop,noatime {image} {home} && {} {home} && exec \"$@\"",
                    self.mounted
                );
                let mut command = Command::new("unshare");
                command
                    .args(["--mount", "--propagation", "private", "--", "sh", "-c"])
                    .args([&script, "sh"])
                    .arg(own);
                command
            }
        };
        command.args(["--json", "bench", "sandbox", "--only", MEASURED, "--home"]);
        command.arg(&home);
        if arguments.quick {
            command.arg("--quick");
        } else {
            command.args(["--runs", &arguments.runs.to_string()]);
        }
        let output = command
            .stderr(Stdio::inherit())
            .output()
            .context("starting the run")?;
        if image.exists() {
            fs_err::remove_file(&image)?;
        }
        anyhow::ensure!(
            output.status.success(),
            "the run ended with {}",
            output.status
        );
        serde_json::from_slice(&output.stdout).context("reading what the run found")
    }
}
