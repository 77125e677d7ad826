//! `/v1` asked whatever its description allows and forbids, by schemathesis, over a server with the
//! fake provider on a loopback port. No answer may be a 500 or one that is not described.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::command::{TOOLS, command, output_of, run_command};
use crate::report::End;

const SCHEMATHESIS: &str = "schemathesis==4.32.5";
const PLACE: &str = "crates/server/tests/schemathesis";
/// It ends by itself before that; this is for when it does not.
const LONGEST_SECONDS: u32 = 180;

pub(crate) fn test() -> Result<End> {
    let venv = format!("{TOOLS}/schemathesis");
    if let Err(error) = install(&venv) {
        println!("{error:#}");
        return Ok(End::Skipped(
            "schemathesis cannot be installed here".to_owned(),
        ));
    }
    // With the features of the other tests, so that little is built anew.
    let line = "cargo build --workspace --all-features --example fake_server \
        --message-format json-render-diagnostics";
    let messages = output_of(&mut command(line))?;
    let server = program(&messages).context("cargo built no fake server")?;
    // Its input stays open for as long as it is to live.
    let mut server = command(&server)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the fake server")?;
    let result = ask(&mut server, &venv);
    drop(server.stdin.take());
    server.wait()?;
    result
}

fn install(venv: &str) -> Result<()> {
    let python = format!("{venv}/bin/python");
    if output_of(&mut command(&format!("{python} --version"))).is_err() {
        output_of(&mut command(&format!("python3 -m venv {venv}")))?;
    }
    let pip = format!("{python} -m pip --disable-pip-version-check install -q {SCHEMATHESIS}");
    output_of(&mut command(&pip)).map(drop)
}

fn ask(server: &mut Child, venv: &str) -> Result<End> {
    let output = server.stdout.take().context("a server without output")?;
    let mut there = String::new();
    BufReader::new(output).read_line(&mut there)?;
    ensure!(!there.is_empty(), "the fake server did not start");
    let known: Value = serde_json::from_str(&there)?;
    let field = |name: &str| known[name].as_str().unwrap_or_default().to_owned();
    run_command(
        command(&format!(
            "timeout {LONGEST_SECONDS} {venv}/bin/schemathesis --config-file {PLACE}/schemathesis.toml \
             run docs/openapi.json"
        ))
        .env("NACRE_URL", field("url"))
        .env("NACRE_TOKEN", field("token"))
        .env("NACRE_THERE", there),
    )?;
    Ok(End::Passed)
}

/// The executable that cargo says it made.
fn program(messages: &str) -> Option<String> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut made = messages.filter(|message| message["target"]["name"] == "fake_server");
    made.find_map(|message| message["executable"].as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_where_cargo_says() {
        let messages = r#"
            {"target":{"name":"other"},"executable":"/x"}
            {"target":{"name":"fake_server"},"executable":null}
            {"target":{"name":"fake_server"},"executable":"/a/fake_server"}
        "#;
        assert_eq!(program(messages).as_deref(), Some("/a/fake_server"));
    }
}
