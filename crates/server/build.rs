//! Puts the browser client into the program, as it was built: `npm run build` in `web/app`. Its folder
//! is always there, and empty before that; then the program says how to build it.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script is configured by its environment"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    // Asked now: a build script that was built in another copy of the sources would name that copy.
    let crate_root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let dist = crate_root.join("../../web/app/dist");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", dist.display());
    let mut names = Vec::new();
    if dist.is_dir() {
        collect(&dist, "", &mut names)?;
    }
    names.sort();
    let mut listed = "pub(super) static FILES: &[File] = &[\n".to_owned();
    for name in names.iter().filter(|name| is_served(name)) {
        let included = |ending: &str| {
            let path = dist.join(format!("{name}{ending}"));
            format!("include_bytes!({:?})", path.display().to_string())
        };
        let packed = |ending: &str| {
            if names.contains(&format!("{name}{ending}")) {
                format!("Some({})", included(ending))
            } else {
                "None".to_owned()
            }
        };
        let (plain, brotli, gzip) = (included(""), packed(".br"), packed(".gz"));
        writeln!(
            listed,
            "    File {{ name: {name:?}, plain: {plain}, brotli: {brotli}, gzip: {gzip} }},"
        )?;
    }
    listed.push_str("];\n");
    let out = PathBuf::from(std::env::var("OUT_DIR")?).join("page.rs");
    std::fs::write(out, listed)?;
    Ok(())
}

/// Names below the folder, with slashes between them.
fn collect(folder: &Path, before: &str, names: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{before}{name}/"), names)?;
        } else {
            names.push(format!("{before}{name}"));
        }
    }
    Ok(())
}

fn is_served(name: &str) -> bool {
    [".html", ".js", ".css", ".svg", ".woff2"]
        .iter()
        .any(|ending| name.ends_with(ending))
}
