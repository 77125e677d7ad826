//! Files that a command of ours writes and that are checked in. A test of whoever writes one fails
//! when it is not what would be written now.

use anyhow::Result;

use crate::command::{command, output_of};
use crate::web;

/// A command that prints a file, and the file.
const GENERATED: &[(&str, &str)] = &[(
    "cargo run --quiet --package nacre-server --example openapi",
    "docs/openapi.json",
)];

pub(crate) fn write_all() -> Result<()> {
    for (line, path) in GENERATED {
        fs_err::write(path, output_of(&mut command(line))?)?;
        println!("{path}");
    }
    // From the description, so after it.
    web::generate_types()
}
