//! Refusals, worded for whoever asked.

use rustix::io::Errno;
use wire::guest::{Failed, FailedKind};

pub(crate) fn not_found(message: impl Into<String>) -> Failed {
    Failed {
        kind: FailedKind::NotFound,
        message: message.into(),
    }
}

pub(crate) fn refused(message: impl Into<String>) -> Failed {
    Failed {
        kind: FailedKind::Refused,
        message: message.into(),
    }
}

pub(crate) fn exhausted(message: impl Into<String>) -> Failed {
    Failed {
        kind: FailedKind::Exhausted,
        message: message.into(),
    }
}

/// `what` completes "cannot …".
pub(crate) fn cannot(what: &str, errno: Errno) -> Failed {
    let kind = match errno {
        Errno::NOENT => FailedKind::NotFound,
        Errno::NOSPC
        | Errno::DQUOT
        | Errno::MFILE
        | Errno::NFILE
        | Errno::NOMEM
        | Errno::AGAIN
        | Errno::NOBUFS => FailedKind::Exhausted,
        _ => FailedKind::Refused,
    };
    Failed {
        kind,
        message: format!("cannot {what}: {}", reason(errno)),
    }
}

fn reason(errno: Errno) -> String {
    let text = match errno {
        Errno::NOENT => "it does not exist",
        Errno::ACCESS | Errno::PERM => "permission denied",
        Errno::NOTDIR => "not a directory",
        Errno::ISDIR => "it is a directory",
        Errno::LOOP => "a symbolic link is in the way",
        Errno::XDEV => "it leads out of the asked-for directory",
        Errno::ROFS => "the file system is read-only",
        Errno::NAMETOOLONG => "the name is too long",
        Errno::NOTEMPTY => "a directory that is not empty is in the way",
        Errno::NOSPC => "the disk is full",
        Errno::DQUOT => "the disk quota is used up",
        Errno::MFILE | Errno::NFILE => "too many open files",
        Errno::NOMEM => "out of memory",
        Errno::AGAIN => "the sandbox's limit of processes is reached",
        other => return other.to_string(),
    };
    text.to_owned()
}
