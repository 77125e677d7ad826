//! Files that a command of ours writes and that are checked in: they must be what it writes now.

use anyhow::{Result, ensure};

use crate::command::{command, output_of};
use crate::report::End;

/// A command that prints a file, and the file.
const GENERATED: &[(&str, &str)] = &[];

pub(crate) fn check() -> Result<End> {
    let mut stale = Vec::new();
    for (line, path) in GENERATED {
        let written = output_of(&mut command(line))?;
        if fs_err::read_to_string(path).ok().as_deref() != Some(&written) {
            stale.push(*path);
        }
    }
    ensure!(
        stale.is_empty(),
        "not what is generated now (`cargo xtask generate`): {}",
        stale.join(", ")
    );
    Ok(End::Passed)
}

pub(crate) fn write_all() -> Result<()> {
    for (line, path) in GENERATED {
        fs_err::write(path, output_of(&mut command(line))?)?;
        println!("{path}");
    }
    Ok(())
}
