//! `cargo xtask vm`: the local engine on a machine that has cgroup v2 alone, whatever the one that
//! we are on has. A virtual machine with a Debian kernel sees this machine's files, read-only, and
//! runs `nacre` and the engine's tests as they were just built.

mod console;
mod disk;
mod initramfs;
mod kernel;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use self::disk::Programs;
use self::kernel::Fetched;
use crate::command::{command, display, find};
use crate::report::{End, Report};

const HELP: &str = "\
Run the local engine in a virtual machine whose only cgroup hierarchy is v2

Usage: cargo xtask vm [OPTIONS]

It runs `nacre doctor`, one sandbox's life with limits, and tests of the local engine, each test in
a process of its own. The machine's root is this machine's, read-only; what is written goes to a
disk that is made anew. What is fetched is kept in target/vm; remove that to fetch a newer kernel.
The whole console is in target/vm/console.log. Ends with the exit code of what ran inside.

Options:
  --tests PREFIX   Which tests, by how their names begin [default: contract::]
  --minutes COUNT  When to give up [default: 45]
  --mirror URL     Where to fetch Debian packages [default: this machine's]
  --kvm            Let the processor do it instead of emulating one; needs a usable /dev/kvm
  --help           Say this
";

/// A program and the Debian package that has it.
const TOOLS: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
    ("xz", "xz-utils"),
    ("mkfs.ext4", "e2fsprogs"),
    ("setpriv", "util-linux"),
];

const MEMORY: &str = "3G";
const CORES: &str = "2";

#[derive(Debug, PartialEq, Eq)]
struct Options<'a> {
    tests: &'a str,
    limit: Duration,
    mirror: Option<&'a str>,
    accelerator: Accelerator,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accelerator {
    Emulation,
    Kvm,
}

pub(crate) fn vm(arguments: &[&str]) -> Result<ExitCode> {
    if arguments.contains(&"--help") || arguments.contains(&"-h") {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(error) => {
            println!("{error:#}\n\n{HELP}");
            return Ok(ExitCode::from(2));
        }
    };
    // QEMU and apt want absolute paths.
    let place = std::env::current_dir()?.join("target/vm");
    let mut code = None;
    let mut report = Report::default();
    let ready = report.step("tools", tools)
        && report.step("kernel", || {
            kernel::fetch_once(&place, options.mirror)?;
            Ok(End::Passed)
        });
    if ready {
        let mut programs = None;
        let built = report.step("build", || {
            programs = Some(Programs::build()?);
            Ok(End::Passed)
        });
        if let (true, Some(programs)) = (built, programs) {
            report.step("virtual machine", || {
                let ended = boot(&place, &programs, &options)?;
                code = Some(ended);
                match ended {
                    0 => Ok(End::Passed),
                    code => Err(anyhow!("what ran inside ended with {code}")),
                }
            });
        }
    }
    let passed = report.finish();
    Ok(match code {
        Some(code) => ExitCode::from(code),
        None if passed => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    })
}

impl<'a> Options<'a> {
    fn parse(arguments: &[&'a str]) -> Result<Self> {
        let mut options = Self {
            tests: "contract::",
            limit: Duration::from_mins(45),
            mirror: None,
            accelerator: Accelerator::Emulation,
        };
        let mut rest = arguments.iter();
        while let Some(&name) = rest.next() {
            if name == "--kvm" {
                options.accelerator = Accelerator::Kvm;
                continue;
            }
            let value = rest.next();
            let value = || value.with_context(|| format!("{name} wants a value"));
            match name {
                "--tests" => options.tests = value()?,
                "--mirror" => options.mirror = Some(value()?),
                "--minutes" => {
                    let minutes = value()?.parse().context("--minutes wants a number")?;
                    options.limit = Duration::from_mins(minutes);
                }
                _ => bail!("there is no option {name}"),
            }
        }
        Ok(options)
    }
}

fn tools() -> Result<End> {
    ensure!(
        cfg!(target_arch = "x86_64"),
        "the virtual machine runs this machine's own programs, and is only known for x86-64"
    );
    let missing: Vec<_> = TOOLS
        .iter()
        .filter(|(program, _)| find(program).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(End::Passed);
    }
    let programs: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    bail!(
        "missing: {}; install with `apt-get install --no-install-recommends {}`",
        programs.join(", "),
        packages.join(" ")
    );
}

/// The exit code of what ran inside.
fn boot(place: &Path, programs: &Programs, options: &Options<'_>) -> Result<u8> {
    let fetched = Fetched::at(place);
    let initramfs = place.join("initramfs");
    fs_err::write(&initramfs, initramfs::pack(&fetched)?)?;
    let disk = disk::make(place, programs, options.tests)?;
    let mut machine = machine(&fetched, &initramfs, &disk, options.accelerator);
    println!("$ {}", display(&machine));
    let ended = console::follow(&mut machine, &place.join("console.log"), options.limit);
    fs_err::remove_file(&disk)?;
    ended
}

fn machine(fetched: &Fetched, initramfs: &Path, disk: &Path, accelerator: Accelerator) -> Command {
    // A killed xtask takes QEMU with it. Ctrl-C reaches both.
    let mut machine = command("setpriv --pdeathsig KILL qemu-system-x86_64");
    let (accel, cpu) = match accelerator {
        Accelerator::Emulation => ("tcg", "max"),
        Accelerator::Kvm => ("kvm", "host"),
    };
    machine.args(["-accel", accel, "-cpu", cpu, "-smp", CORES, "-m", MEMORY]);
    machine.arg("-kernel").arg(fetched.kernel());
    machine.arg("-initrd").arg(initramfs);
    // A panic is an end: the kernel reboots at once, and QEMU does not.
    machine.args(["-append", "console=ttyS0 quiet panic=-1", "-no-reboot"]);
    machine.args(["-nodefaults", "-display", "none", "-serial", "stdio"]);
    let root = "local,path=/,mount_tag=root,readonly=on,security_model=none,multidevs=remap";
    machine.args(["-virtfs", root]);
    let mut drive = std::ffi::OsString::from("if=virtio,format=raw,cache=unsafe,file=");
    drive.push(disk);
    machine.arg("-drive").arg(drive);
    machine.stdin(Stdio::null());
    machine
}

/// Files below a directory, in no order.
fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs_err::read_dir(directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}

/// An empty directory, whatever was there.
fn fresh_directory(path: &Path) -> Result<()> {
    if path.exists() {
        fs_err::remove_dir_all(path)?;
    }
    Ok(fs_err::create_dir_all(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_has_a_default() {
        let options = Options::parse(&["--tests", "contract::pause", "--kvm"]).unwrap();
        assert_eq!(options.tests, "contract::pause");
        assert_eq!(options.accelerator, Accelerator::Kvm);
        assert_eq!(options.limit, Duration::from_mins(45));
    }

    #[test]
    fn an_unknown_option_and_a_missing_value_are_refused() {
        assert!(Options::parse(&["--fast"]).is_err());
        assert!(Options::parse(&["--tests"]).is_err());
        assert!(Options::parse(&["--minutes", "soon"]).is_err());
    }
}
