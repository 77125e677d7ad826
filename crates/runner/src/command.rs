//! Everything a command needs, worked out before it is cloned: between clone and exec nothing may
//! be allocated.

use std::collections::BTreeMap;
use std::ffi::CString;

use wire::Raw;
use wire::guest::{Exec, Failed};

use crate::failure::refused;
use crate::users::User;

const PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The kernel takes no environment string longer than 128 KiB; no honest `PATH` is near this.
const MAX_CANDIDATES: usize = 1024;

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<CString>,
    /// Where the program may be, in order.
    pub(crate) candidates: Vec<CString>,
    pub(crate) cwd: Cwd,
    pub(crate) under_pressure: UnderPressure,
}

/// What becomes of it when the sandbox runs out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnderPressure {
    GoesBeforeUs,
    StaysWithUs,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cwd {
    Asked(CString),
    /// Or `/` when the user has no home.
    Home(CString),
}

impl Command {
    pub(crate) fn new(exec: &Exec, user: &User, base: &[(Raw, Raw)]) -> Result<Self, Failed> {
        let Some(program) = exec.argv.first().filter(|program| !program.0.is_empty()) else {
            return Err(refused("no program was named"));
        };
        let env = environment(exec, user, base)?;
        let path = env.get(&b"PATH"[..]).map_or(&b""[..], |path| path);
        let candidates = candidates(&program.0, path)
            .into_iter()
            .map(|candidate| c_string(candidate, "the program"))
            .collect::<Result<_, _>>()?;
        let cwd = match &exec.cwd {
            None => Cwd::Home(c_string(user.home.clone(), "the home directory")?),
            Some(cwd) if cwd.0.starts_with(b"/") => {
                Cwd::Asked(c_string(cwd.0.clone(), "the working directory")?)
            }
            Some(cwd) => {
                return Err(refused(format!(
                    "the working directory {cwd:?} is not absolute"
                )));
            }
        };
        let argv = exec
            .argv
            .iter()
            .map(|argument| c_string(argument.0.clone(), "an argument"));
        let env = env.into_iter().map(|(key, value)| {
            c_string(
                [key.as_slice(), b"=", value.as_slice()].concat(),
                "the environment",
            )
        });
        Ok(Self {
            argv: argv.collect::<Result<_, _>>()?,
            env: env.collect::<Result<_, _>>()?,
            candidates,
            cwd,
            under_pressure: UnderPressure::GoesBeforeUs,
        })
    }
}

fn environment(
    exec: &Exec,
    user: &User,
    base: &[(Raw, Raw)],
) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Failed> {
    let mut env: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut set = |key: &str, value: &[u8]| env.insert(key.into(), value.to_vec());
    set("PATH", PATH);
    set("HOME", &user.home);
    set("SHELL", &user.shell);
    set("LANG", b"C.UTF-8");
    if let Some(name) = &user.name {
        set("USER", name);
        set("LOGNAME", name);
    }
    if exec.pty.is_some() {
        set("TERM", b"xterm-256color");
    }
    for (key, value) in base.iter().chain(&exec.env) {
        if key.0.is_empty() || key.0.contains(&b'=') {
            return Err(refused(format!(
                "{key:?} cannot be the name of an environment variable"
            )));
        }
        env.insert(key.0.clone(), value.0.clone());
    }
    Ok(env)
}

/// As `execvp` does it: a name with a slash is a path; an empty part of `PATH` is the working
/// directory.
fn candidates(program: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    if program.contains(&b'/') {
        return vec![program.to_vec()];
    }
    let directories = path.split(|byte| *byte == b':').take(MAX_CANDIDATES);
    directories
        .map(|directory| match directory {
            [] => [b"./", program].concat(),
            [.., b'/'] => [directory, program].concat(),
            _ => [directory, b"/", program].concat(),
        })
        .collect()
}

fn c_string(bytes: Vec<u8>, what: &str) -> Result<CString, Failed> {
    CString::new(bytes).map_err(|_| refused(format!("{what} contains a NUL byte")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exec(argv: &[&str]) -> Exec {
        Exec {
            argv: argv.iter().map(|argument| Raw::from(*argument)).collect(),
            cwd: None,
            env: Vec::new(),
            user: None,
            pty: None,
            timeout_ms: None,
            detach: false,
        }
    }

    fn user() -> User {
        User {
            name: Some(b"pearl".to_vec()),
            uid: 1000,
            gid: 1000,
            groups: Vec::new(),
            home: b"/home/pearl".to_vec(),
            shell: b"/bin/sh".to_vec(),
        }
    }

    #[test]
    fn the_program_is_looked_for_in_the_commands_own_path() {
        let mut asked = exec(&["tool"]);
        asked.env = vec![("PATH".into(), "/a:/b/::c".into())];
        let command = Command::new(&asked, &user(), &[]).unwrap();
        assert_eq!(
            command.candidates,
            [c"/a/tool", c"/b/tool", c"./tool", c"c/tool"].map(CString::from)
        );
        let command = Command::new(&exec(&["./tool"]), &user(), &[]).unwrap();
        assert_eq!(command.candidates, [CString::from(c"./tool")]);
    }

    #[test]
    fn later_environments_win() {
        let mut asked = exec(&["env"]);
        asked.env = vec![("B".into(), "exec".into())];
        let base = [("B".into(), "base".into()), ("LANG".into(), "base".into())];
        let command = Command::new(&asked, &user(), &base).unwrap();
        assert!(command.env.contains(&c"B=exec".into()));
        assert!(command.env.contains(&c"LANG=base".into()));
        assert!(command.env.contains(&c"HOME=/home/pearl".into()));
        assert!(command.env.contains(&c"USER=pearl".into()));
        assert_eq!(command.cwd, Cwd::Home(c"/home/pearl".into()));
    }

    #[test]
    fn what_the_kernel_could_not_take_is_refused() {
        assert!(Command::new(&exec(&[]), &user(), &[]).is_err());
        assert!(Command::new(&exec(&[""]), &user(), &[]).is_err());
        assert!(Command::new(&exec(&["a", "b\0c"]), &user(), &[]).is_err());
        for (key, value) in [("", "x"), ("A=B", "x"), ("A", "\0")] {
            let mut asked = exec(&["true"]);
            asked.env = vec![(key.into(), value.into())];
            assert!(
                Command::new(&asked, &user(), &[]).is_err(),
                "{key:?}={value:?}"
            );
        }
        let mut relative = exec(&["true"]);
        relative.cwd = Some("tmp".into());
        assert!(Command::new(&relative, &user(), &[]).is_err());
    }

    proptest! {
        #[test]
        fn every_candidate_ends_in_the_program(program in "[a-z]{1,8}", path: Vec<u8>) {
            for candidate in candidates(program.as_bytes(), &path) {
                prop_assert!(candidate.ends_with(program.as_bytes()));
                prop_assert!(candidate.contains(&b'/'));
            }
        }
    }
}
