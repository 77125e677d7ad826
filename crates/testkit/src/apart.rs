//! A test in namespaces of its own: ports and places that every sandbox has are its alone.

use std::io;
use std::process::Command;

use fs_err as fs;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};

/// Takes this thread, and what it starts from now on, out of the machine's network and mounts.
/// Afterwards there is a loopback, an empty `/run`, and a home of `user`, who has the number 1000.
/// What is made there goes with the last process that sees it.
pub fn leave_the_machine() -> io::Result<()> {
    unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS)?;
    // Nothing that is mounted from here on is seen outside.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)?;
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status()?;
    if !up.success() {
        return Err(io::Error::other("`ip link set lo up` failed"));
    }
    for place in ["/run", "/home"] {
        mount("tmpfs", place, "tmpfs", MountFlags::empty(), c"mode=755")?;
    }
    fs::create_dir("/home/user")?;
    std::os::unix::fs::chown("/home/user", Some(1000), Some(1000))?;
    for (file, lines) in [
        (
            "/etc/passwd",
            "root:x:0:0::/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n",
        ),
        ("/etc/group", "root:x:0:\nuser:x:1000:\n"),
    ] {
        let ours = format!("/run{}", file.replace('/', "-"));
        fs::write(&ours, lines)?;
        mount_bind(&ours, file)?;
    }
    Ok(())
}

/// The next process that this thread starts is PID 1 of those that it starts.
pub fn start_anew_with_pid_one() -> io::Result<()> {
    unshare(libc::CLONE_NEWPID)
}

#[expect(
    unsafe_code,
    reason = "rustix leaves the kernel's word on threads to its caller"
)]
fn unshare(what: i32) -> io::Result<()> {
    // SAFETY: no memory is touched; what it changes, it changes for this thread alone.
    if unsafe { libc::unshare(what) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
