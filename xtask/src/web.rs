//! What is written in TypeScript.

use anyhow::Result;

use crate::command::{command, find, output_of, run_command};
use crate::report::End;

/// Its types are those of the description, and it is held to the same vectors as the client in Rust.
pub(crate) fn client() -> Result<End> {
    in_folder(
        "web/client",
        &["npm run --silent check", "npm test --silent"],
    )
}

/// The types of the client, as the description has them.
pub(crate) fn generate_types() -> Result<()> {
    let end = in_folder("web/client", &["npm run --silent generate"])?;
    println!("web/client/src/types.ts: {end}");
    Ok(())
}

/// The page that the server shows. It is built before the server, which has it inside.
pub(crate) fn build_app() -> Result<End> {
    in_folder("web/app", &["npm run --silent build"])
}

pub(crate) fn app() -> Result<End> {
    in_folder("web/app", &["npm run --silent check", "npm test --silent"])
}

/// The page as it is in the program, driven by a real browser: real sandboxes, the real agent, and
/// the demo model.
pub(crate) fn browser() -> Result<End> {
    const TESTS: &str = "npm run --silent test:browser";
    if find("npm").is_none() || find("chromium").is_none() {
        let why = "there is no npm or no chromium: the page was looked at by nobody";
        return Ok(End::Skipped(why.to_owned()));
    }
    let target = std::env::current_dir()?.join("target");
    let (nacre, home) = (target.join("debug/nacre"), target.join("tmp/based"));
    fs_err::create_dir_all(&home)?;
    // In the home of the other tests, which have it quicker then.
    let mut base = command("env");
    base.arg(&nacre).args(["base", "build", "--slim"]);
    if let Err(error) = output_of(base.env("NACRE_HOME", &home)) {
        println!("{error:#}");
        return Ok(End::Skipped("a base cannot be built from here".to_owned()));
    }
    let tests = || {
        run_command(
            command(TESTS)
                .current_dir("web/app")
                .env("NACRE_BIN", &nacre)
                .env("NACRE_BASE_HOME", &home),
        )
    };
    match tests() {
        Ok(()) => Ok(End::Passed),
        // As with the other tests: what passes only when it is run again is a fault to be mended,
        // and no reason to throw the rest away.
        Err(error) => {
            println!("{error:#}\nonce more");
            tests()?;
            Ok(End::Noted("it passed when it was run again".to_owned()))
        }
    }
}

fn in_folder(folder: &str, lines: &[&str]) -> Result<End> {
    if find("npm").is_none() {
        return Ok(End::Skipped("there is no npm".to_owned()));
    }
    let install = "npm ci --no-audit --no-fund";
    if let Err(error) = output_of(command(install).current_dir(folder)) {
        println!("{error:#}");
        return Ok(End::Skipped(
            "its packages cannot be installed from here".to_owned(),
        ));
    }
    for line in lines {
        run_command(command(line).current_dir(folder))?;
    }
    Ok(End::Passed)
}
