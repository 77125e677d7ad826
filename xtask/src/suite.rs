//! `make test` and `make lint`: what has to hold before anything is merged.

use std::time::Duration;

use anyhow::Result;

use crate::command::{command, output_of, run, run_command};
use crate::report::{End, Report};
use crate::{attacks, directions, drivers, long_files, opencode, property, setup, web};

/// Fetching the advisory database is given up after this long: some machines reach a package
/// mirror and nothing else, and drop what they refuse.
const FETCH: Duration = Duration::from_mins(1);

pub(crate) fn test() -> bool {
    let mut report = Report::default();
    if prepare(&mut report) {
        check(&mut report);
        report.step("the real agent", opencode::fetch);
        report.step("a real browser", || Ok(setup::browser()));
        report.step("the page for browsers", web::build_app);
        // Nothing below means anything for a tree that does not build.
        if report.step("build", || {
            ran("cargo nextest run --workspace --all-features --no-run")
        }) {
            report.step("doctests", || {
                ran("cargo test --workspace --all-features --doc")
            });
            report.step("property tests of /v1", property::test);
            report.step("the client in TypeScript", web::client);
            report.step("checks of the page", web::app);
            report.step("a person in a browser", web::browser);
            drivers::test(&mut report);
            // Last, so that its summary is at the end, where people and CI look for it.
            report.step("tests", || {
                ran("cargo nextest run --workspace --all-features")
            });
        }
    }
    report.finish()
}

pub(crate) fn lint() -> bool {
    let mut report = Report::default();
    if prepare(&mut report) {
        check(&mut report);
    }
    report.finish()
}

/// For those who run single tests of the agent.
pub(crate) fn fetch_agent() -> bool {
    let mut report = Report::default();
    report.step("the real agent", opencode::fetch);
    report.finish()
}

fn prepare(report: &mut Report) -> bool {
    report.step("packages", setup::packages_to_test)
        && report.step("cargo tools", setup::cargo_tools)
}

/// Each of these says something of its own, so all run whatever the others found.
fn check(report: &mut Report) {
    report.step("format", || ran("cargo fmt --all --check"));
    report.step("spelling", || ran("typos"));
    report.step("directions", directions::check);
    report.step("attacks", attacks::check);
    report.step("long files", long_files::check);
    report.step("unused dependencies", || ran("cargo-machete"));
    report.step("licences and sources", || {
        ran("cargo deny check --hide-inclusion-graph licenses bans sources")
    });
    report.step("advisories", advisories);
    report.step("clippy", || {
        ran("cargo clippy --workspace --all-targets --all-features -- -D warnings")
    });
    report.step("rustdoc", || {
        run_command(
            command("cargo doc --workspace --all-features --no-deps")
                .env("RUSTDOCFLAGS", "-D warnings"),
        )?;
        Ok(End::Passed)
    });
}

fn ran(line: &str) -> Result<End> {
    run(line)?;
    Ok(End::Passed)
}

/// Needs the advisory database, which is fetched by git from outside. Without it there is nothing
/// to compare with, and that is no fault of the tree.
fn advisories() -> Result<End> {
    let fetch = format!("timeout {} cargo deny fetch db", FETCH.as_secs());
    if let Err(error) = output_of(&mut command(&fetch)) {
        println!("{error:#}");
        return Ok(End::Skipped(
            "the advisory database cannot be fetched from here".to_owned(),
        ));
    }
    ran("cargo deny check --disable-fetch advisories")
}
