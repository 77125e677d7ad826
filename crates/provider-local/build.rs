//! Builds the small programs that this crate embeds, with the `runner` profile, in target directories
//! of their own (so that the outer cargo's lock is not in the way, and debug and release builds
//! share the work). `nacre-keeper` and `nacre-guest` are static; `nacre-egress` is not, because it
//! resolves names as the host does, and that takes the host's C library.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script is configured by its environment"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    // Asked now: a build script that was built in another copy of the sources would name that copy.
    let workspace = PathBuf::from(var("CARGO_MANIFEST_DIR")).join("../..");
    for path in [
        "crates/egress",
        "crates/guest",
        "crates/keeper",
        "crates/runner",
        "crates/agent",
        "crates/carrier",
        "crates/workplace",
        "crates/wire",
        "crates/model",
        "crates/relay",
        "Cargo.lock",
        // Its profile.
        "Cargo.toml",
    ] {
        println!("cargo:rerun-if-changed={}", workspace.join(path).display());
    }
    let out = PathBuf::from(var("OUT_DIR"));
    let debug = var("PROFILE") == "debug";
    let flavour = if debug { "failpoints" } else { "plain" };
    let guest = out
        .ancestors()
        .nth(4)
        .expect("OUT_DIR is below the target directory")
        .join("guest");
    let features: &[&str] = if debug {
        &["--features", "nacre-keeper/failpoints"]
    } else {
        &[]
    };
    let statics = build(
        &workspace,
        &guest.join(flavour),
        &["nacre-keeper", "nacre-guest", "nacre-workplace"],
        features,
        "-Ctarget-feature=+crt-static\x1f-Crelocation-model=static",
    );
    let dynamic = build(
        &workspace,
        &guest.join("dynamic"),
        &["nacre-egress"],
        &[],
        "",
    );
    let mut hash = blake3::Hasher::new();
    let programs = [
        (&statics, "nacre-keeper"),
        (&statics, "nacre-guest"),
        (&statics, "nacre-inside"),
        (&dynamic, "nacre-egress"),
    ];
    for (directory, name) in programs {
        let program = std::fs::read(directory.join(name))
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

/// Builds programs and gives the directory they are in.
fn build(
    workspace: &Path,
    target_dir: &Path,
    packages: &[&str],
    features: &[&str],
    flags: &str,
) -> PathBuf {
    let target = var("TARGET");
    let mut cargo = Command::new(var("CARGO"));
    cargo.current_dir(workspace).args(["build", "--quiet"]);
    for package in packages {
        cargo.args(["--package", package]);
    }
    cargo
        .args(["--profile", "runner", "--target", &target, "--target-dir"])
        .arg(target_dir)
        .args(features)
        .env("CARGO_ENCODED_RUSTFLAGS", flags)
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
    let status = cargo.status().expect("cargo can be run");
    assert!(
        status.success(),
        "building {} failed",
        packages.join(" and ")
    );
    target_dir.join(target).join("runner")
}

fn var(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
