//! Builds the two small programs that this crate embeds, `nacre-keeper` and `nacre-runner`: static,
//! with the `runner` profile, in a target directory of their own (so that the outer cargo's lock is
//! not in the way, and debug and release builds share the work).

#![expect(
    clippy::disallowed_methods,
    reason = "a build script is configured by its environment"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for path in [
        "crates/keeper",
        "crates/runner",
        "crates/wire",
        "crates/model",
        "Cargo.lock",
    ] {
        println!("cargo:rerun-if-changed={}", workspace.join(path).display());
    }
    let out = PathBuf::from(var("OUT_DIR"));
    let debug = var("PROFILE") == "debug";
    let flavour = if debug { "failpoints" } else { "plain" };
    let target_dir = out
        .ancestors()
        .nth(4)
        .expect("OUT_DIR is below the target directory")
        .join("guest")
        .join(flavour);
    let target = var("TARGET");
    let mut cargo = Command::new(var("CARGO"));
    cargo
        .current_dir(&workspace)
        .args([
            "build",
            "--quiet",
            "--package",
            "nacre-keeper",
            "--package",
            "nacre-runner",
        ])
        .args(["--profile", "runner", "--target", &target, "--target-dir"])
        .arg(&target_dir)
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            "-Ctarget-feature=+crt-static\x1f-Crelocation-model=static",
        )
        .env_remove("RUSTFLAGS");
    // clippy and rustdoc put themselves in the way of rustc; these programs are built as they are.
    for name in [
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_WRAPPER",
        "CLIPPY_ARGS",
        "RUSTDOCFLAGS",
    ] {
        cargo.env_remove(name);
    }
    if debug {
        cargo.args(["--features", "nacre-keeper/failpoints"]);
    }
    let status = cargo.status().expect("cargo can be run");
    assert!(
        status.success(),
        "building nacre-keeper and nacre-runner failed"
    );
    let mut hash = blake3::Hasher::new();
    for name in ["nacre-keeper", "nacre-runner"] {
        let program = std::fs::read(target_dir.join(&target).join("runner").join(name))
            .unwrap_or_else(|error| panic!("reading {name}: {error}"));
        hash.update(&program);
        std::fs::write(out.join(name), program)
            .unwrap_or_else(|error| panic!("copying {name}: {error}"));
    }
    println!(
        "cargo:rustc-env=NACRE_PROGRAMS={}",
        &hash.finalize().to_hex()[..16]
    );
}

fn var(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
