//! The keeper's half of a launch.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, memfd_create, open, openat};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::{
    CapabilitiesSecureBits, Gid, LinkNameSpaceType, Uid, move_into_link_name_space,
};
use wire::Frame;
use wire::keeper::{Launch, Launched, Reply, Running};

use crate::inside::{self, Descriptors, Failed, Mounts};
use crate::mounts::{READ_ONLY, clone_for_ids, devices, overlay};
use crate::sandbox::{Handle, Unmounted, process_start, socket_in};
use crate::serve::Serving;
use crate::shown::{self, Shown};
use crate::sys::{self, Side};
use crate::{cgroup, egress, forward, runsc};

/// Brings a sandbox up. On failure nothing is left but what the caller gave us: the processes are
/// gone and the cgroups are as empty as they came.
pub(crate) fn launch(
    order: Launch,
    network: Option<&OwnedFd>,
) -> Result<(Serving, Launched), Failed> {
    let at = |stage: &'static str| move |error: io::Error| (stage, error);
    let outer = open(
        "/proc/self/ns/net",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(io::Error::from)
    .map_err(at("network namespace"))?;
    let directory = open_directory(&order.dir).map_err(at("sandbox directory"))?;
    let descriptors = Prepared::new(&order, &directory)?;
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|e| ("socket pair", e.into()))?;
    if let Some(network) = network {
        enter_network(network).map_err(at("entering the network namespace"))?;
    }
    let forwards = forward::listen(&order.forwards).map_err(at("forwarded ports"))?;
    let way_out = match &order.egress {
        Some(_) => Some(egress::listen().map_err(at("the proxy's port"))?),
        None => None,
    };
    become_owner(&order).map_err(at("taking on the range's first id"))?;
    let side = sys::clone_sandbox(&descriptors.cgroup).map_err(at("clone"))?;
    let (pid, pidfd) = match side {
        Side::Inside => {
            drop(ours);
            child(&order, descriptors, &theirs)
        }
        Side::Keeper { pid, pidfd } => (pid, pidfd),
    };
    drop(theirs);
    model::failpoint::hit("keeper.cloned");
    let brought_up = bring_up(&order, pid, &ours, descriptors).and_then(|up| {
        enter_network(&outer).map_err(at("leaving the network namespace"))?;
        become_root().map_err(at("becoming root again"))?;
        if runsc::is_used(&order) {
            runsc::take_socket(&directory).map_err(at("guest socket"))?;
        }
        Ok(up)
    });
    let Up { doors, unmounted } = match brought_up {
        Ok(up) => up,
        Err(failed) => {
            let _ = cgroup::kill(&order.cgroups);
            let _ = rustix::process::waitid(
                rustix::process::WaitId::PidFd(pidfd.as_fd()),
                rustix::process::WaitIdOptions::EXITED,
            );
            return Err(failed);
        }
    };
    let listener = socket_in(&directory, "keeper.sock", 0o600).map_err(at("keeper socket"))?;
    let handle = Handle {
        order,
        pid,
        pidfd,
        unmounted,
    };
    handle.record().map_err(at("recording the process"))?;
    let mut serving = Serving::new(handle, listener, doors, forwards, false);
    if let Err(error) = serving.open_egress(way_out) {
        serving.abandon();
        return Err(("the proxy's door", error));
    }
    Ok((serving, Launched { pid }))
}

/// Takes over a running sandbox whose keeper was killed. Its doors are opened anew under the same
/// names.
pub(crate) fn adopt(order: Launch, paused: bool) -> Result<(Serving, Launched), Failed> {
    let at = |stage: &'static str| move |error: io::Error| (stage, error);
    let directory = open_directory(&order.dir).map_err(at("sandbox directory"))?;
    let running: Running = fs_err::read(format!("{}/keeper.json", order.dir))
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::other))
        .map_err(at("finding the process"))?;
    let pid = rustix::process::Pid::from_raw(running.pid).ok_or((
        "finding the process",
        io::Error::from(io::ErrorKind::InvalidData),
    ))?;
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
        .map_err(|e| ("finding the process", e.into()))?;
    // Checked after the descriptor is held: from here on the number cannot be reused under us.
    if process_start(running.pid).map_err(at("finding the process"))? != running.started {
        return Err((
            "finding the process",
            io::Error::from(io::ErrorKind::NotFound),
        ));
    }
    let place = if runsc::is_used(&order) {
        runsc::place::seen_from_outside(running.pid)
    } else {
        inside::seen_from_outside(running.pid)
    };
    let unmounted = Unmounted::watch(&place.root).map_err(at("watching the root"))?;
    let doors = shown::find_doors(running.pid, place.doors).map_err(at("finding the doors"))?;
    let outer = open(
        "/proc/self/ns/net",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|e| ("network namespace", e.into()))?;
    if !order.host_network {
        let network = open(
            format!("/proc/{}/ns/net", running.pid),
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|e| ("network namespace", e.into()))?;
        enter_network(&network).map_err(at("entering the network namespace"))?;
    }
    // A port that something inside took meanwhile stays with it; the sandbox itself is fine.
    let forwards = forward::listen(&order.forwards).unwrap_or_default();
    let way_out = order.egress.as_ref().and_then(|_| egress::listen_again());
    enter_network(&outer).map_err(at("leaving the network namespace"))?;
    // A keeper killed in the middle of a freeze had lifted the quota.
    cgroup::restore_quota(&order.cgroups).map_err(at("processor quota"))?;
    match (paused, cgroup::is_frozen(&order.cgroups)) {
        (false, true) => cgroup::thaw(&order.cgroups).map_err(at("thawing"))?,
        (true, false) => drop(cgroup::freeze(&order.cgroups).map_err(at("freezing"))?),
        (true, true) | (false, false) => {}
    }
    let listener = socket_in(&directory, "keeper.sock", 0o600).map_err(at("keeper socket"))?;
    let handle = Handle {
        order,
        pid: running.pid,
        pidfd,
        unmounted,
    };
    handle.record().map_err(at("recording the process"))?;
    let launched = Launched { pid: running.pid };
    let mut serving = Serving::new(handle, listener, doors, forwards, paused);
    serving
        .open_egress(way_out)
        .map_err(at("the proxy's door"))?;
    serving.reopen_doors();
    Ok((serving, launched))
}

fn open_directory(path: &str) -> io::Result<OwnedFd> {
    Ok(open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

fn enter_network(namespace: &OwnedFd) -> io::Result<()> {
    Ok(move_into_link_name_space(
        namespace.as_fd(),
        Some(LinkNameSpaceType::Network),
    )?)
}

/// Everything the child needs that has to be opened before the clone.
struct Prepared {
    cgroup: OwnedFd,
    legacy: Vec<OwnedFd>,
    config: OwnedFd,
    ready: (OwnedFd, OwnedFd),
    runtime: Handed,
}

/// What differs by runtime.
enum Handed {
    Native {
        listen: OwnedFd,
        /// Executed by descriptor, both: they have no place among the sandbox's files.
        runner: OwnedFd,
        workplace: OwnedFd,
    },
    Runsc {
        complaints: OwnedFd,
    },
}

/// What the keeper holds of a sandbox that has come up.
struct Up {
    doors: OwnedFd,
    unmounted: Unmounted,
}

impl Prepared {
    fn new(order: &Launch, directory: &OwnedFd) -> Result<Self, Failed> {
        let cgroup = open_directory(&order.cgroups.unified).map_err(|e| ("cgroup", e))?;
        delegate(&cgroup, order).map_err(|e| ("delegating the cgroup", e))?;
        // Opened as host root: the v1 hierarchies check who opened, not who writes. `tasks` and not
        // `cgroup.procs`: a thread that moves itself does not have to wait for the whole machine's
        // forks to stand still, which takes milliseconds.
        let legacy = order
            .cgroups
            .legacy
            .iter()
            .map(|dir| {
                open(
                    format!("{dir}/tasks"),
                    OFlags::WRONLY | OFlags::CLOEXEC,
                    Mode::empty(),
                )
            })
            .collect::<Result<_, _>>()
            .map_err(|e| ("cgroup", e.into()))?;
        let config = memfd_create("config", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(|e| ("runner configuration", e.into()))?;
        let mut file = File::from(config);
        let json = if runsc::is_used(order) {
            serde_json::to_vec(&runsc::configure(&order.config))
        } else {
            serde_json::to_vec(&order.config)
        };
        let written = json.map_err(io::Error::other).and_then(|json| {
            file.write_all(&json)?;
            rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
            Ok(rustix::fs::fcntl_add_seals(
                &file,
                SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK,
            )?)
        });
        written.map_err(|e| ("runner configuration", e))?;
        let ready = pipe_with(PipeFlags::CLOEXEC).map_err(|e| ("pipe", e.into()))?;
        Ok(Self {
            cgroup,
            legacy,
            config: file.into(),
            ready,
            runtime: Handed::new(order, directory)?,
        })
    }
}

impl Handed {
    fn new(order: &Launch, directory: &OwnedFd) -> Result<Self, Failed> {
        if runsc::is_used(order) {
            runsc::make_boot(directory).map_err(|e| ("guest socket", e))?;
            let complaints = runsc::complaints().map_err(|e| ("complaints", e))?;
            return Ok(Self::Runsc { complaints });
        }
        let listen = socket_in(directory, "guest.sock", 0o600).map_err(|e| ("guest socket", e))?;
        let program = |path: &str| {
            open(
                path,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )
        };
        Ok(Self::Native {
            listen: listen.into(),
            runner: program(&order.runner).map_err(|e| ("runner", e.into()))?,
            workplace: program(&order.workplace).map_err(|e| ("workplace", e.into()))?,
        })
    }
}

/// The runner may make cgroups below its own and move what it starts; limits, freezer and kill of
/// its own stay the host's.
fn delegate(cgroup: &OwnedFd, order: &Launch) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(order.first_id), Gid::from_raw(order.first_id));
    for path in [".", "cgroup.procs"] {
        rustix::fs::chownat(
            cgroup,
            path,
            Some(uid),
            Some(gid),
            rustix::fs::AtFlags::empty(),
        )?;
    }
    Ok(())
}

/// The user namespace is made under the range's first id, because the kernel charges per-user
/// budgets (inotify, namespaces, pending signals) to the creator. Capabilities stay.
fn become_owner(order: &Launch) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(order.first_id), Gid::from_raw(order.first_id));
    rustix::thread::set_capabilities_secure_bits(CapabilitiesSecureBits::NO_SETUID_FIXUP)?;
    rustix::thread::set_thread_res_gid(None, Some(gid), None)?;
    Ok(rustix::thread::set_thread_res_uid(None, Some(uid), None)?)
}

fn become_root() -> io::Result<()> {
    rustix::thread::set_thread_res_uid(None, Some(Uid::ROOT), None)?;
    rustix::thread::set_thread_res_gid(None, Some(Gid::ROOT), None)?;
    Ok(rustix::thread::set_capabilities_secure_bits(
        CapabilitiesSecureBits::empty(),
    )?)
}

fn bring_up(order: &Launch, pid: i32, child: &OwnedFd, prepared: Prepared) -> Result<Up, Failed> {
    let users = map_ids(order, pid).map_err(|e| ("id maps", e))?;
    // The child makes its own file systems while we make ours.
    wire::pass::send(child, &Frame::control(&Reply::Done), &[])
        .map_err(|e| ("telling the child", io::Error::other(e)))?;
    let (doors, shown) = shown::make(order).map_err(|e| ("doors and identity", e))?;
    let mounts = Mounts {
        root: overlay(order, &users).map_err(|e| ("overlay", e))?,
        devices: devices(order.first_id).map_err(|e| ("devices", e))?,
        binds: order
            .binds
            .iter()
            .map(|(host, _)| clone_for_ids(host, READ_ONLY | libc::MOUNT_ATTR_NODEV, &users))
            .collect::<io::Result<_>>()
            .map_err(|e| ("host directories", e))?,
        shown,
    };
    let special = runsc::Mounts::make(order, &users).map_err(|e| ("mounts for runsc", e))?;
    let root = format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(&mounts.root)
    );
    let unmounted = Unmounted::watch(&root).map_err(|e| ("watching the root", e))?;
    model::failpoint::hit("keeper.mounted");
    let fds: Vec<BorrowedFd<'_>> = [&mounts.root, &mounts.devices]
        .into_iter()
        .chain([&mounts.shown.doors, &mounts.shown.sys])
        .chain(&mounts.binds)
        .chain(&mounts.shown.identity)
        .chain(special.iter().flat_map(runsc::Mounts::fds))
        .map(|fd| fd.as_fd())
        .collect();
    wire::pass::send(child, &Frame::control(&Reply::Done), &fds)
        .map_err(|e| ("handing over the mounts", io::Error::other(e)))?;
    drop((mounts, special));
    drop(prepared.ready.1);
    // The child's end closes when it has become the runner; anything before is a failure's story.
    if let Some((frame, _)) =
        wire::pass::receive(child).map_err(|e| ("waiting for the child", io::Error::other(e)))?
    {
        return Err(match frame.message() {
            Ok(Reply::Failed { stage, message }) => {
                ("inside", io::Error::other(format!("{stage}: {message}")))
            }
            _ => (
                "inside",
                io::Error::other("the child said something else than it should"),
            ),
        });
    }
    if let Handed::Runsc { complaints } = &prepared.runtime {
        runsc::await_ready(&prepared.ready.0, complaints)?;
        return Ok(Up { doors, unmounted });
    }
    let mut byte = [0u8; 1];
    match rustix::io::retry_on_intr(|| rustix::io::read(&prepared.ready.0, &mut byte)) {
        Ok(1) => Ok(Up { doors, unmounted }),
        Ok(_) => Err((
            "waiting for the runner",
            io::Error::other("it ended before it was ready"),
        )),
        Err(error) => Err(("waiting for the runner", error.into())),
    }
}

fn map_ids(order: &Launch, pid: i32) -> io::Result<OwnedFd> {
    let process = open(
        format!("/proc/{pid}"),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let map = format!("0 {} {}", order.first_id, order.ids);
    for file in ["uid_map", "gid_map"] {
        let file = openat(
            &process,
            file,
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        rustix::io::write(file, map.as_bytes())?;
    }
    Ok(openat(
        &process,
        "ns/user",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// Never returns: becomes the runner, or says why not and ends.
fn child(order: &Launch, prepared: Prepared, keeper: &OwnedFd) -> ! {
    let failed = run_child(order, prepared, keeper);
    let reply = Reply::Failed {
        stage: failed.0.to_owned(),
        message: failed.1.to_string(),
    };
    let _ = wire::pass::send(keeper, &Frame::control(&reply), &[]);
    sys::exit_now(1)
}

fn run_child(order: &Launch, prepared: Prepared, keeper: &OwnedFd) -> Failed {
    let _ = rustix::process::setpriority_process(None, 0);
    let hear = || match wire::pass::receive(keeper) {
        Ok(Some((_, fds))) => Ok(fds),
        Ok(None) => Err((
            "waiting for the keeper",
            io::ErrorKind::UnexpectedEof.into(),
        )),
        Err(error) => Err(("waiting for the keeper", io::Error::other(error))),
    };
    let settled = hear().and_then(|_| inside::settle(&prepared.legacy));
    let mounts = |fds| take_mounts(order, fds);
    let (config, ready) = (prepared.config, prepared.ready.1);
    match prepared.runtime {
        Handed::Native {
            listen,
            runner,
            workplace,
        } => {
            let made = settled
                .and_then(|()| inside::make_own(order))
                .and_then(|own| Ok((own, mounts(hear()?)?)));
            let descriptors = Descriptors {
                config,
                listen,
                cgroup: prepared.cgroup,
                ready,
                workplace,
                runner,
            };
            match made {
                Ok((own, (mounts, _))) => inside::become_runner(order, &own, &mounts, descriptors),
                Err(failed) => failed,
            }
        }
        Handed::Runsc { complaints } => {
            let made = settled
                .and_then(|()| runsc::place::make_own(order))
                .and_then(|own| Ok((own, mounts(hear()?)?)));
            let descriptors = runsc::place::Descriptors {
                config,
                ready,
                complaints,
            };
            match made {
                Ok((own, (mounts, special))) => {
                    runsc::place::become_runsc(order, &own, &mounts, &special, descriptors)
                }
                Err(failed) => failed,
            }
        }
    }
}

/// The keeper's mounts in the order in which it sends them, and what comes after them.
fn take_mounts(order: &Launch, fds: Vec<OwnedFd>) -> Result<(Mounts, Vec<OwnedFd>), Failed> {
    let mut fds = fds.into_iter();
    let mut next = || {
        fds.next().ok_or((
            "mounts of the keeper",
            io::Error::from(io::ErrorKind::UnexpectedEof),
        ))
    };
    let (root, devices, doors, sys) = (next()?, next()?, next()?, next()?);
    let binds = order
        .binds
        .iter()
        .map(|_| next())
        .collect::<Result<_, _>>()?;
    let identity = order
        .identity
        .iter()
        .map(|_| next())
        .collect::<Result<_, _>>()?;
    let mounts = Mounts {
        root,
        devices,
        binds,
        shown: Shown {
            identity,
            sys,
            doors,
        },
    };
    Ok((mounts, fds.collect()))
}
