//! Compiles the checked-in allowlist of system calls, `seccomp.json`, to the program that the
//! kernel takes.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script is configured by its environment"
)]

use std::collections::HashMap;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=seccomp.json");
    println!("cargo:rerun-if-changed=build.rs");
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH")?
        .as_str()
        .try_into()?;
    let json = std::fs::File::open("seccomp.json")?;
    let filters: HashMap<String, seccompiler::BpfProgram> =
        seccompiler::compile_from_json(json, architecture)?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    for (name, program) in &filters {
        let mut bytes = Vec::new();
        for instruction in program {
            bytes.extend_from_slice(&instruction.code.to_le_bytes());
            bytes.extend_from_slice(&[instruction.jt, instruction.jf]);
            bytes.extend_from_slice(&instruction.k.to_le_bytes());
        }
        std::fs::write(out.join(format!("{name}.bpf")), bytes)?;
    }
    Ok(())
}
