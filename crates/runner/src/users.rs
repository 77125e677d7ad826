//! Who a command runs as, from the sandbox's own `/etc/passwd` and `/etc/group`. Both are hostile:
//! whatever does not parse is passed over. We are static, so there is no NSS to ask.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, read};
use wire::guest::Failed;

use crate::failure;

const MAX_FILE: usize = 1 << 20;
const DEFAULT_SHELL: &[u8] = b"/bin/sh";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    /// `None` for a number that no line names.
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Supplementary ones, sorted.
    pub(crate) groups: Vec<u32>,
    pub(crate) home: Vec<u8>,
    pub(crate) shell: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UserError {
    #[error("there is no user {0:?} in the sandbox")]
    NoUser(String),
    #[error("there is no group {0:?} in the sandbox")]
    NoGroup(String),
}

/// `name`, `uid`, `name:group`, `uid:gid`; root when nothing is asked for.
pub(crate) fn find(wanted: Option<&str>) -> Result<User, Failed> {
    let passwd = slurp(c"/etc/passwd");
    let group = slurp(c"/etc/group");
    resolve(wanted, &passwd, &group).map_err(|error| failure::not_found(error.to_string()))
}

fn resolve(wanted: Option<&str>, passwd: &[u8], group: &[u8]) -> Result<User, UserError> {
    let (user, explicit) = match wanted.unwrap_or("0").split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (wanted.unwrap_or("0"), None),
    };
    // Digits are always a number, so that no line can lend a number to another user.
    let mut found = match parse_id(user.as_bytes()) {
        Some(uid) => users(passwd)
            .find(|line| line.uid == uid)
            .unwrap_or_else(|| unnamed(uid)),
        None => users(passwd)
            .find(|line| line.name.as_deref() == Some(user.as_bytes()))
            .ok_or_else(|| UserError::NoUser(user.to_owned()))?,
    };
    match explicit {
        // As elsewhere: who names a group wants that one alone.
        Some(wanted) => found.gid = find_group(wanted, group)?,
        None => found.groups = memberships(found.name.as_deref(), group),
    }
    Ok(found)
}

fn unnamed(uid: u32) -> User {
    let (name, home) = if uid == 0 {
        (Some(b"root".to_vec()), &b"/root"[..])
    } else {
        (None, &b"/"[..])
    };
    User {
        name,
        uid,
        gid: uid,
        groups: Vec::new(),
        home: home.to_vec(),
        shell: DEFAULT_SHELL.to_vec(),
    }
}

fn find_group(wanted: &str, group: &[u8]) -> Result<u32, UserError> {
    parse_id(wanted.as_bytes())
        .or_else(|| {
            lines(group)
                .find(|line| line[0] == wanted.as_bytes())
                .and_then(|l| parse_id(l[2]))
        })
        .ok_or_else(|| UserError::NoGroup(wanted.to_owned()))
}

fn memberships(name: Option<&[u8]>, group: &[u8]) -> Vec<u32> {
    let Some(name) = name else { return Vec::new() };
    let mut groups: Vec<u32> = lines(group)
        .filter(|line| {
            line[3]
                .split(|byte| *byte == b',')
                .any(|member| member == name)
        })
        .filter_map(|line| parse_id(line[2]))
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

fn users(passwd: &[u8]) -> impl Iterator<Item = User> {
    passwd.split(|byte| *byte == b'\n').filter_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        let [name, _password, uid, gid, _comment, home, shell] = fields[..] else {
            return None;
        };
        if name.is_empty() || line.contains(&0) {
            return None;
        }
        Some(User {
            name: Some(name.to_vec()),
            uid: parse_id(uid)?,
            gid: parse_id(gid)?,
            groups: Vec::new(),
            home: if home.starts_with(b"/") { home } else { b"/" }.to_vec(),
            shell: if shell.is_empty() {
                DEFAULT_SHELL
            } else {
                shell
            }
            .to_vec(),
        })
    })
}

/// Name, password, number, members.
fn lines(group: &[u8]) -> impl Iterator<Item = [&[u8]; 4]> {
    group.split(|byte| *byte == b'\n').filter_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        fields
            .try_into()
            .ok()
            .filter(|fields: &[&[u8]; 4]| !fields[0].is_empty())
    })
}

/// The highest number means "leave as it is" to the kernel: it would leave us root.
fn parse_id(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u32 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (number != u32::MAX).then_some(number)
}

/// A file that is missing, too long or no file at all counts as empty.
fn slurp(path: &std::ffi::CStr) -> Vec<u8> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Ok(file) = open(path, flags, Mode::empty()) else {
        return Vec::new();
    };
    read_regular(&file).unwrap_or_default()
}

fn read_regular(file: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let stat = fstat(file)?;
    let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
    if !FileType::from_raw_mode(stat.st_mode).is_file() || size > MAX_FILE {
        return Err(Errno::INVAL);
    }
    let mut text = vec![0; size];
    let mut filled = 0;
    while filled < size {
        match read(file, &mut text[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    text.truncate(filled);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PASSWD: &[u8] = b"root:x:0:0:root:/root:/bin/bash\n\
        # a comment\n\
        broken:x:0\n\
        evil:x:4294967295:0::/:/bin/sh\n\
        1000:x:0:0::/:/bin/sh\n\
        user:x:1000:1000:A User:/home/user:/bin/zsh\n\
        bare:x:7:8:::\n";
    const GROUP: &[u8] = b"root:x:0:\nsudo:x:27:user\nbad:x:4294967295:user\nshort:x\n\
        docker:x:999:other,user\nuser:x:1000:\nsudo2:x:27:user\n";

    fn found(wanted: &str) -> User {
        resolve(Some(wanted), PASSWD, GROUP).unwrap()
    }

    #[test]
    fn nobody_asked_for_is_root() {
        let root = resolve(None, PASSWD, GROUP).unwrap();
        assert_eq!((root.uid, root.gid, &root.home[..]), (0, 0, &b"/root"[..]));
        let without_files = resolve(None, b"", b"").unwrap();
        assert_eq!(
            (without_files.uid, &without_files.home[..]),
            (0, &b"/root"[..])
        );
    }

    #[test]
    fn a_name_brings_home_shell_and_groups() {
        let user = found("user");
        assert_eq!(
            (user.uid, user.gid, user.groups),
            (1000, 1000, vec![27, 999])
        );
        assert_eq!(
            (&user.home[..], &user.shell[..]),
            (&b"/home/user"[..], &b"/bin/zsh"[..])
        );
        assert_eq!(
            (&found("bare").home[..], &found("bare").shell[..]),
            (&b"/"[..], &b"/bin/sh"[..])
        );
    }

    #[test]
    fn a_number_is_never_taken_for_a_name() {
        assert_eq!(found("1000").uid, 1000);
        assert_eq!(found("1000").name.as_deref(), Some(&b"user"[..]));
        assert_eq!((found("4242").uid, found("4242").gid), (4242, 4242));
    }

    #[test]
    fn an_explicit_group_stands_alone() {
        let user = found("user:sudo");
        assert_eq!((user.gid, user.groups), (27, vec![]));
        assert_eq!((found("5:6").uid, found("5:6").gid), (5, 6));
    }

    #[test]
    fn whoever_is_not_there_is_named() {
        let no_user = |wanted: &str| Err(UserError::NoUser(wanted.to_owned()));
        assert_eq!(resolve(Some("ghost"), PASSWD, GROUP), no_user("ghost"));
        assert_eq!(resolve(Some("broken"), PASSWD, GROUP), no_user("broken"));
        assert_eq!(resolve(Some(""), PASSWD, GROUP), no_user(""));
        let group = resolve(Some("user:ghosts"), PASSWD, GROUP);
        assert_eq!(group, Err(UserError::NoGroup("ghosts".to_owned())));
    }

    #[test]
    fn the_number_that_would_keep_us_root_is_refused() {
        for wanted in [
            "evil",
            "4294967295",
            "user:bad",
            "user:4294967295",
            "99999999999",
        ] {
            assert!(resolve(Some(wanted), PASSWD, GROUP).is_err(), "{wanted}");
        }
    }

    proptest! {
        #[test]
        fn hostile_files_never_panic(wanted: Option<String>, passwd: Vec<u8>, group: Vec<u8>) {
            let _ = resolve(wanted.as_deref(), &passwd, &group);
        }

        #[test]
        fn nearly_right_files_never_panic(
            wanted in "[a-c0-9:]{0,4}",
            passwd in "([a-c]{0,2}:){0,7}[0-9:\n]{0,20}",
            group in "([a-c]{0,2}:x:[0-9]{0,11}:[a-c,]{0,4}\n){0,4}",
        ) {
            if let Ok(user) = resolve(Some(&wanted), passwd.as_bytes(), group.as_bytes()) {
                prop_assert!(user.uid != u32::MAX && user.gid != u32::MAX);
            }
        }
    }
}
