//! A file that does not fit in the head is worth splitting. This only says so.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::report::End;

const LONG: usize = 600;

pub(crate) fn check() -> Result<End> {
    let mut long = Vec::new();
    for root in ["crates", "xtask"] {
        walk(Path::new(root), &mut |path| {
            let lines = fs_err::read_to_string(&path)?.lines().count();
            if lines > LONG {
                println!("{lines:6} lines  {}", path.display());
                long.push(path);
            }
            Ok(())
        })?;
    }
    Ok(match long.len() {
        0 => End::Passed,
        count => End::Noted(format!("{count} of more than {LONG} lines")),
    })
}

fn walk(directory: &Path, visit: &mut dyn FnMut(PathBuf) -> Result<()>) -> Result<()> {
    for entry in fs_err::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            walk(&path, visit)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            visit(path)?;
        }
    }
    Ok(())
}
