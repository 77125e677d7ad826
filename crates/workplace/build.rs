//! Packs the one large file of the terminal's page, which every browser unpacks: it would be a
//! twentieth of the whole program otherwise.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script is configured by its environment"
)]

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

const SCRIPT: &str = "src/terminal/page/xterm/xterm.mjs";

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed={SCRIPT}");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let packed = out.expect("cargo sets it").join("xterm.mjs.gz");
    let mut packed =
        flate2::write::GzEncoder::new(File::create(packed)?, flate2::Compression::best());
    packed.write_all(&std::fs::read(SCRIPT)?)?;
    packed.finish().map(drop)
}
