use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use camino::Utf8Path;
use provider_local::doctor::{Finding, FindingStatus, Fix, examine};
use serde_json::json;

use crate::app::App;
use crate::config;
use crate::error::{CommandError, Kind};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Put right what can be: packages, directories, kernel modules, mounts, settings
    #[arg(long)]
    fix: bool,
    /// Look at and put right only this, by its name in the list; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

pub(crate) fn run(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let mut config = config::load()?;
    let around = config::surroundings(&config)?;
    if arguments.fix && !rustix::process::geteuid().is_root() {
        return Err(CommandError::refused("only root can put things right")
            .hint("run `sudo nacre doctor --fix`; without `--fix` anyone may look"));
    }
    let progress = app.output.progress("looking at this machine");
    let mut findings = chosen(examine(&config.local, &around), &arguments.only)?;
    drop(progress);
    let mut fixed = Vec::new();
    if arguments.fix {
        fixed = fix(app, &findings);
        if !fixed.is_empty() {
            config = config::load()?;
            findings = chosen(examine(&config.local, &around), &arguments.only)?;
        }
    }
    let ok = missing(&findings) == 0;
    app.output.result(
        &json!({ "ok": ok, "findings": findings, "fixed": fixed }),
        || shown(&findings, &fixed, arguments.fix),
    )?;
    Ok(if ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(Kind::Failed.exit_code())
    })
}

fn chosen(findings: Vec<Finding>, names: &[String]) -> Result<Vec<Finding>, CommandError> {
    if names.is_empty() {
        return Ok(findings);
    }
    let known: Vec<&str> = findings.iter().map(|finding| finding.name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        let known = known.join(", ");
        let message = format!("the doctor does not look at `{unknown}`");
        return Err(CommandError::new(Kind::Usage, message).hint(format!("it looks at: {known}")));
    }
    Ok(findings
        .into_iter()
        .filter(|finding| names.iter().any(|name| name == finding.name))
        .collect())
}

/// Does what it can, shows each while it does it, and names what worked.
fn fix(app: &App, findings: &[Finding]) -> Vec<&'static str> {
    let mut fixed = Vec::new();
    for finding in findings {
        let Some(fix) = &finding.fix else { continue };
        let progress = app.output.progress("putting it right");
        progress.say(&described(fix));
        match apply(fix) {
            Ok(()) => fixed.push(finding.name),
            Err(error) => app
                .output
                .warning(&format!("cannot fix {}: {error:#}", finding.name)),
        }
    }
    fixed
}

fn described(fix: &Fix) -> String {
    match fix {
        Fix::Packages(packages) => format!("installing {}", packages.join(", ")),
        Fix::Directory(path) => format!("making {path}, for its owner alone"),
        Fix::Module(name) => format!("loading the kernel module {name}"),
        Fix::Write(path, content) => format!("writing {content} to {path}"),
        Fix::Setting { file, key, .. } => format!("setting egress.{key} in {file}"),
        Fix::Mount(kind, path) => format!("mounting a {kind} at {path}"),
        Fix::Script { does, .. } => (*does).to_owned(),
    }
}

fn apply(fix: &Fix) -> anyhow::Result<()> {
    match fix {
        Fix::Packages(packages) => install(packages),
        Fix::Directory(path) => make_private(path),
        Fix::Module(name) => succeed(Command::new("modprobe").arg(name)),
        Fix::Write(path, content) => Ok(fs_err::write(path, content)?),
        Fix::Setting { file, key, value } => set(file, key, value.expose()),
        Fix::Mount(kind, path) => {
            fs_err::create_dir_all(path)?;
            succeed(Command::new("mount").args(["-t", kind, "none", path.as_str()]))
        }
        Fix::Script { script, .. } => succeed(Command::new("sh").args(["-c", script])),
    }
}

/// Changes one key of `[egress]` and leaves the rest of the file as it is, comments and all.
fn set(file: &Utf8Path, key: &str, value: &str) -> anyhow::Result<()> {
    let text = match fs_err::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    let changed = with_setting(&text, key, value)?;
    if let Some(directory) = file.parent() {
        fs_err::create_dir_all(directory)?;
    }
    // It may hold a proxy's password.
    let new = file.with_extension("toml.new");
    let mut options = fs_err::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(options.options_mut(), 0o600);
    let mut written = options.write(true).create(true).truncate(true).open(&new)?;
    written.write_all(changed.as_bytes())?;
    Ok(fs_err::rename(new, file)?)
}

fn with_setting(text: &str, key: &str, value: &str) -> anyhow::Result<String> {
    let mut document: toml_edit::DocumentMut = text.parse().context("cannot read the file")?;
    let section = document
        .entry("egress")
        .or_insert_with(toml_edit::table)
        .as_table_like_mut()
        .context("`egress` is not a section there")?;
    if key == "allow" {
        section
            .entry(key)
            .or_insert_with(|| toml_edit::value(toml_edit::Array::new()))
            .as_array_mut()
            .context("`egress.allow` is not a list there")?
            .push(value);
    } else {
        section.insert(key, toml_edit::value(value));
    }
    Ok(document.to_string())
}

fn install(packages: &[&str]) -> anyhow::Result<()> {
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .args(["--yes", "--quiet", "-o", "DPkg::Lock::Timeout=120"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        succeed(&mut command)
    };
    let install = [&["install", "--no-install-recommends"], packages].concat();
    // A fresh machine has no lists yet, and old lists name packages that are gone.
    apt(&install).or_else(|_| apt(&["update"]).and_then(|()| apt(&install)))
}

fn make_private(path: &Utf8Path) -> anyhow::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    // What is below may be secret, and it is easier to open a directory than to shut it.
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot make {path}"))?;
    Ok(fs_err::set_permissions(
        path,
        std::fs::Permissions::from_mode(0o700),
    )?)
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command
        .stdin(std::process::Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    bail!(
        "{program} ended with {}: {}",
        done.status,
        said.lines().last().unwrap_or_default()
    )
}

fn missing(findings: &[Finding]) -> usize {
    findings
        .iter()
        .filter(|finding| finding.status == FindingStatus::Missing)
        .count()
}

fn shown(findings: &[Finding], fixed: &[&str], tried: bool) -> String {
    let width = findings.iter().map(|f| f.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.status {
            FindingStatus::Ok => '✓',
            FindingStatus::Info => '·',
            FindingStatus::Warning => '!',
            FindingStatus::Missing => '✗',
        };
        let mend = if fixed.contains(&finding.name) {
            " (put right)"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "{mark} {:width$}  {}{mend}",
            finding.name, finding.found
        );
        if let Some(advice) = &finding.advice {
            let _ = writeln!(text, "  {:width$}  → {advice}", "");
        }
    }
    let _ = writeln!(text, "\n{}", summary(findings, tried));
    text
}

fn summary(findings: &[Finding], tried: bool) -> String {
    let count = missing(findings);
    let first = match count {
        0 => "sandboxes can run here".to_owned(),
        1 => "1 thing is missing: sandboxes cannot run here yet".to_owned(),
        _ => format!("{count} things are missing: sandboxes cannot run here yet"),
    };
    let wants_fixing =
        |finding: &Finding| finding.status != FindingStatus::Info && finding.fix.is_some();
    if !tried && findings.iter().any(wants_fixing) {
        format!("{first}; `nacre doctor --fix` puts right what it can")
    } else {
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(name: &'static str, status: FindingStatus, fix: Option<Fix>) -> Finding {
        Finding {
            name,
            status,
            found: "what was found".to_owned(),
            advice: (status == FindingStatus::Missing).then(|| "do this".to_owned()),
            fix,
        }
    }

    #[test]
    fn findings_are_marked_and_aligned_and_advice_is_below() {
        let findings = [
            finding("a", FindingStatus::Ok, None),
            finding("longer", FindingStatus::Missing, Some(Fix::Module("x"))),
            finding("b", FindingStatus::Info, None),
        ];
        insta::assert_snapshot!(shown(&findings, &[], false), @r"
        ✓ a       what was found
        ✗ longer  what was found
                  → do this
        · b       what was found

        1 thing is missing: sandboxes cannot run here yet; `nacre doctor --fix` puts right what it can
        ");
    }

    #[test]
    fn a_setting_is_written_into_the_file_and_the_rest_stays() {
        let before = "# mine\n[local]\nranges = 3 # few\n";
        let with_proxy = with_setting(before, "upstream", "http://proxy:3128").unwrap();
        let both = with_setting(&with_proxy, "allow", "mirror.corp:80").unwrap();
        insta::assert_snapshot!(both, @r#"
        # mine
        [local]
        ranges = 3 # few

        [egress]
        upstream = "http://proxy:3128"
        allow = ["mirror.corp:80"]
        "#);
        assert!(with_setting("egress = 1", "upstream", "x").is_err());
    }

    #[test]
    fn the_last_line_counts_what_is_missing() {
        let two = [
            finding("a", FindingStatus::Missing, None),
            finding("b", FindingStatus::Missing, None),
        ];
        assert_eq!(
            summary(&two, true),
            "2 things are missing: sandboxes cannot run here yet"
        );
        let warned = [finding("a", FindingStatus::Warning, None)];
        assert_eq!(summary(&warned, true), "sandboxes can run here");
    }
}
