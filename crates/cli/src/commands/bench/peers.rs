//! Other tools that make sandboxes, measured in the same run by starting them and waiting.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

use super::census::cgroup_mounts;
use super::operations::limits;

/// One that does not answer within this does not run here.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Peer {
    name: &'static str,
    tool: Tool,
    standing: Standing,
    /// Whether its container for `exec` was started.
    started: bool,
}

#[derive(Debug)]
enum Tool {
    Bubblewrap,
    /// runc or crun, with a bundle that runs a command and one that waits.
    Runtime {
        state: Utf8PathBuf,
        bundles: Utf8PathBuf,
    },
    /// docker or podman, with an image that is the skeleton.
    Engine {
        image: String,
        imported: bool,
    },
}

#[derive(Debug)]
enum Standing {
    NotFound(String),
    DoesNotRun(String),
    Runs(String),
}

/// Looks for every peer and tries each once. What they need is made below `place`.
pub(super) fn find(place: &Utf8Path) -> anyhow::Result<Vec<Peer>> {
    let rootfs = place.join("rootfs");
    make_rootfs(&rootfs)?;
    let runtime = |name: &str| Tool::Runtime {
        state: place.join(format!("{name}-state")),
        bundles: place.join(name),
    };
    let engine = || Tool::Engine {
        image: format!("nacre-bench:{}", std::process::id()),
        imported: false,
    };
    let tools = [
        ("bubblewrap", Tool::Bubblewrap),
        ("runc", runtime("runc")),
        ("crun", runtime("crun")),
        ("podman", engine()),
        ("docker", engine()),
    ];
    Ok(tools
        .map(|(name, tool)| Peer::try_out(name, tool, &rootfs))
        .into())
}

impl Peer {
    fn try_out(name: &'static str, tool: Tool, rootfs: &Utf8Path) -> Self {
        let mut peer = Self {
            name,
            tool,
            standing: Standing::NotFound("not found".to_owned()),
            started: false,
        };
        peer.standing = match peer.find_version() {
            Err(reason) => Standing::NotFound(reason),
            Ok(version) => {
                let tried = peer.prepare(rootfs).and_then(|()| answer(peer.once()));
                match tried {
                    Ok(_) => Standing::Runs(version),
                    Err(error) => Standing::DoesNotRun(format!("{error:#}")),
                }
            }
        };
        peer
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn is_found(&self) -> bool {
        !matches!(self.standing, Standing::NotFound(_))
    }

    pub(super) fn runs(&self) -> bool {
        matches!(self.standing, Standing::Runs(_))
    }

    pub(super) fn version(&self) -> Option<&str> {
        match &self.standing {
            Standing::Runs(version) => Some(version),
            _ => None,
        }
    }

    pub(super) fn reason(&self) -> Option<&str> {
        match &self.standing {
            Standing::NotFound(reason) | Standing::DoesNotRun(reason) => Some(reason),
            Standing::Runs(_) => None,
        }
    }

    /// Takes so long that a fifth of the runs must do.
    pub(super) fn is_slow(&self) -> bool {
        !matches!(self.tool, Tool::Bubblewrap)
    }

    /// From nothing to the end of `/bin/true`.
    pub(super) fn create_exec(&self) -> anyhow::Result<Duration> {
        timed(self.once())
    }

    /// Starts what [`Self::exec`] runs in; false for one that has no such thing.
    pub(super) fn start(&mut self) -> anyhow::Result<bool> {
        if !self.runs() || !matches!(self.tool, Tool::Runtime { .. }) {
            return Ok(false);
        }
        let mut command = self.runtime();
        command.args(["run", "--detach", "--bundle"]);
        command.arg(self.bundle("waits")).arg(self.id("waits"));
        self.started = true;
        timed(command)?;
        Ok(true)
    }

    /// `/bin/true` in what [`Self::start`] started.
    pub(super) fn exec(&self) -> anyhow::Result<Duration> {
        let mut command = self.runtime();
        command.arg("exec").arg(self.id("waits")).arg("/bin/true");
        timed(command)
    }

    fn program(&self) -> &'static str {
        match self.tool {
            Tool::Bubblewrap => "bwrap",
            _ => self.name,
        }
    }

    /// Its version, or why it is as good as absent.
    fn find_version(&self) -> Result<String, String> {
        let mut command = Command::new(self.program());
        match self.tool {
            Tool::Engine { .. } if self.name == "docker" => {
                command.args(["version", "--format", "{{.Server.Version}}"]);
            }
            _ => {
                command.arg("--version");
            }
        }
        match answer(command) {
            Ok(said) => Ok(said.lines().next().unwrap_or_default().trim().to_owned()),
            Err(error) if self.name == "docker" && !is_absent(&error) => {
                Err("not found: no daemon answers".to_owned())
            }
            Err(_) => Err("not found".to_owned()),
        }
    }

    fn once(&self) -> Command {
        match &self.tool {
            Tool::Bubblewrap => {
                let mut command = Command::new("bwrap");
                command.args(["--unshare-all", "--ro-bind", "/", "/"]);
                command.args(["--proc", "/proc", "--dev", "/dev", "/bin/true"]);
                command
            }
            Tool::Runtime { .. } => {
                let mut command = self.runtime();
                command.args(["run", "--bundle"]);
                command.arg(self.bundle("once")).arg(self.id("once"));
                command
            }
            Tool::Engine { image, .. } => {
                let mut command = Command::new(self.name);
                command.args(["run", "--rm", "--network", "none"]);
                command.arg("--memory").arg(limits::MEMORY.to_string());
                command.arg("--pids-limit").arg(limits::PIDS.to_string());
                command.args(["--cpus", "1", "--volume", "/usr:/usr:ro"]);
                command.arg(image).arg("/bin/true");
                command
            }
        }
    }

    fn runtime(&self) -> Command {
        let mut command = Command::new(self.name);
        if let Tool::Runtime { state, .. } = &self.tool {
            command.arg("--root").arg(state);
        }
        command
    }

    fn bundle(&self, which: &str) -> Utf8PathBuf {
        match &self.tool {
            Tool::Runtime { bundles, .. } => bundles.join(which),
            _ => Utf8PathBuf::new(),
        }
    }

    /// Of its container and its cgroup.
    fn id(&self, which: &str) -> String {
        format!("{}-{}-{which}", group_prefix(), self.name)
    }

    fn prepare(&mut self, rootfs: &Utf8Path) -> anyhow::Result<()> {
        match &mut self.tool {
            Tool::Bubblewrap => Ok(()),
            Tool::Runtime { state, .. } => {
                fs_err::create_dir_all(&*state)?;
                self.make_bundle("once", rootfs, &["/bin/true"])?;
                self.make_bundle("waits", rootfs, &["/bin/sleep", "infinity"])
            }
            Tool::Engine { image, imported } => {
                let tar = rootfs.with_extension("tar");
                let mut pack = Command::new("tar");
                pack.arg("-C").arg(rootfs).arg("-cf").arg(&tar).arg(".");
                answer(pack)?;
                let mut import = Command::new(self.name);
                import.arg("import").arg(&tar).arg(&*image);
                answer(import)?;
                *imported = true;
                Ok(())
            }
        }
    }

    /// What the tool itself proposes, with our root file system, command, limits and cgroup.
    fn make_bundle(&self, which: &str, rootfs: &Utf8Path, argv: &[&str]) -> anyhow::Result<()> {
        let bundle = self.bundle(which);
        fs_err::create_dir_all(&bundle)?;
        let mut spec = Command::new(self.name);
        spec.arg("spec").current_dir(&bundle);
        answer(spec)?;
        let file = bundle.join("config.json");
        let mut config: Value = serde_json::from_str(&fs_err::read_to_string(&file)?)?;
        config["process"]["terminal"] = json!(false);
        config["process"]["args"] = json!(argv);
        config["root"] = json!({ "path": rootfs, "readonly": true });
        let mounts = config["mounts"].as_array_mut();
        mounts
            .context("its own config.json has no mounts")?
            .push(json!({
                "destination": "/usr", "type": "bind", "source": "/usr", "options": ["bind", "ro"],
            }));
        config["linux"]["cgroupsPath"] = json!(format!("/{}", self.id(which)));
        let resources = &mut config["linux"]["resources"];
        resources["memory"] = json!({ "limit": limits::MEMORY });
        resources["pids"] = json!({ "limit": limits::PIDS });
        resources["cpu"] = json!({ "quota": limits::CPU_MILLIS * 100, "period": 100_000 });
        fs_err::write(&file, config.to_string())?;
        Ok(())
    }

    /// Ends what [`Self::start`] started.
    pub(super) fn stop(&mut self) {
        if std::mem::take(&mut self.started) {
            let mut delete = self.runtime();
            delete.args(["delete", "--force"]).arg(self.id("waits"));
            // If it is gone already, all the better.
            let _ = answer(delete);
        }
    }
}

impl Drop for Peer {
    /// Takes away whatever the peer may still have on the machine.
    fn drop(&mut self) {
        self.stop();
        match &self.tool {
            Tool::Bubblewrap => {}
            Tool::Runtime { .. } => {
                for which in ["once", "waits"] {
                    for mount in cgroup_mounts() {
                        let _ = std::fs::remove_dir(mount.join(self.id(which)));
                    }
                }
            }
            Tool::Engine { image, imported } => {
                if *imported {
                    let mut remove = Command::new(self.name);
                    remove.args(["rmi", "--force"]).arg(image);
                    let _ = answer(remove);
                }
            }
        }
    }
}

fn group_prefix() -> String {
    format!("nacre-bench-{}", std::process::id())
}

/// The host's `/usr` goes on `usr`; the rest is what a program expects around it.
fn make_rootfs(rootfs: &Utf8Path) -> anyhow::Result<()> {
    for name in ["usr", "etc", "proc", "dev", "sys", "tmp", "run", "root"] {
        fs_err::create_dir_all(rootfs.join(name))?;
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        if Utf8Path::new("/usr").join(name).exists() {
            fs_err::os::unix::fs::symlink(format!("usr/{name}"), rootfs.join(name))?;
        }
    }
    Ok(())
}

fn quiet(command: &mut Command) -> &mut Command {
    // The terminal's Ctrl-C is for us: a peer ends by itself, and then we clean up.
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
}

fn timed(mut command: Command) -> anyhow::Result<Duration> {
    quiet(&mut command);
    let begun = Instant::now();
    let status = command.status()?;
    let took = begun.elapsed();
    if !status.success() {
        bail!("{} ended with {status}", command.get_program().display());
    }
    Ok(took)
}

/// What a command that ends in time says.
fn answer(mut command: Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    quiet(&mut command)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    let begun = Instant::now();
    // What these say fits into a pipe, so that nobody need read it while they run.
    while child.try_wait()?.is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            bail!("{program} did not end within {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let done = child.wait_with_output()?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let said = said.lines().map(str::trim).find(|line| !line.is_empty());
    bail!(
        "{}",
        said.map_or_else(|| done.status.to_string(), str::to_owned)
    )
}

fn is_absent(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}
