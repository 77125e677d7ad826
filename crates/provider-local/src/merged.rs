//! A stack of layers as one read-only tree, attached nowhere: for digests and flattening.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_fd,
    fsconfig_set_string, fsmount, fsopen,
};

use crate::home::Home;
use crate::layer::{self, LayerId};

/// Opens the merged view; it is gone when the descriptor is closed.
pub(crate) fn open(home: &Home, layers: &[LayerId]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = |id: &LayerId| {
        openat(
            CWD,
            layer::files(home, id).as_std_path(),
            flags,
            Mode::empty(),
        )
    };
    for id in layers {
        layer::settle(home, id)?;
    }
    if let [only] = layers {
        return Ok(directory(only)?);
    }
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "source", "nacre")?;
    for id in layers {
        fsconfig_set_fd(context.as_fd(), "lowerdir+", directory(id)?.as_fd())?;
    }
    // `follow`: read the redirects that sandboxes wrote, write none.
    for (key, value) in [
        ("redirect_dir", "follow"),
        ("index", "off"),
        ("metacopy", "off"),
        ("xino", "off"),
        ("nfs_export", "off"),
    ] {
        fsconfig_set_string(context.as_fd(), key, value)?;
    }
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    // A descriptor of the mount itself is a path only; the walkers read directories.
    Ok(openat(&mount, ".", flags, Mode::empty())?)
}
