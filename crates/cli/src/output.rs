//! The only place that prints.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::error::ErrorKind;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde_json::json;

use crate::config;
use crate::error::{CommandError, Kind};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// A command's result, for a program or for a person.
    pub(crate) fn result(
        self,
        value: &impl Serialize,
        for_people: impl FnOnce() -> String,
    ) -> Result<(), CommandError> {
        let mut text = if self.json {
            serde_json::to_string(value)?
        } else {
            printable(&for_people())
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        self.raw(text.as_bytes())
    }

    /// Bytes as they are: a completion script.
    #[expect(clippy::unused_self, reason = "printing is what an Output is for")]
    pub(crate) fn raw(self, bytes: &[u8]) -> Result<(), CommandError> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            // The reader has what it wanted, and the work is done.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(CommandError::from(error).context("cannot write to standard output")),
            Ok(()) => Ok(()),
        }
    }

    /// What is shown in place of what was shown before: on a terminal where that was, elsewhere
    /// below it.
    pub(crate) fn again(
        self,
        value: &impl Serialize,
        for_people: &str,
    ) -> Result<(), CommandError> {
        if !self.json && io::stdout().is_terminal() {
            self.raw(b"\x1b[H\x1b[2J")?;
        }
        self.result(value, || for_people.to_owned())
    }

    pub(crate) fn error(self, error: &CommandError) {
        let text = if self.json {
            error_json(error)
        } else {
            error_for_people(error, stderr_has_colour())
        };
        to_stderr(&text);
    }

    /// What is going on, for who asked to see it.
    pub(crate) fn say(self, text: &str) {
        to_stderr(&if self.json {
            format!("{}\n", json!({ "progress": text }))
        } else {
            format!("{}\n", printable(text))
        });
    }

    /// A piece of a longer text, as it comes. What is said in a sandbox does not steer a terminal.
    pub(crate) fn piece(self, text: &str) -> Result<(), CommandError> {
        if io::stdout().is_terminal() {
            self.raw(readable(text).as_bytes())
        } else {
            self.raw(text.as_bytes())
        }
    }

    /// A line beside the result, for a person to glance at.
    pub(crate) fn aside(self, line: &str) {
        if self.json {
            return;
        }
        let line = printable(&line.replace('\n', " "));
        to_stderr(&if stderr_has_colour() {
            format!("\x1b[2m{line}\x1b[0m\n")
        } else {
            format!("{line}\n")
        });
    }

    /// Whether results are for programs.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Something the user should know, though the command goes on.
    pub(crate) fn warning(self, text: &str) {
        to_stderr(&if self.json {
            format!("{}\n", json!({ "warning": text }))
        } else {
            format!("warning: {}\n", printable(text))
        });
    }

    /// A sign of life for what may take longer than a person waits without wondering.
    pub(crate) fn progress(self, doing: &'static str) -> Progress {
        if self.json || !io::stderr().is_terminal() {
            Progress { shown: None }
        } else {
            Progress::shown(doing)
        }
    }
}

/// A spinner on stderr. It goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: Option<Shown>,
}

#[derive(Debug)]
struct Shown {
    bar: ProgressBar,
    done: Option<mpsc::Sender<()>>,
    appears: Option<JoinHandle<()>>,
}

/// Most of what may be slow is not, and a line that flashes up says nothing.
pub(crate) const APPEARS_AFTER: Duration = Duration::from_millis(400);

impl Progress {
    fn shown(doing: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
            .with_style(style())
            .with_message(doing);
        let (done, waits) = mpsc::channel();
        let later = bar.clone();
        // A thread of its own, because the engine may keep the runtime's only one busy.
        let appears = std::thread::spawn(move || {
            if waits.recv_timeout(APPEARS_AFTER) == Err(RecvTimeoutError::Timeout) {
                later.set_draw_target(ProgressDrawTarget::stderr());
                later.enable_steady_tick(Duration::from_millis(100));
            }
        });
        Self {
            shown: Some(Shown {
                bar,
                done: Some(done),
                appears: Some(appears),
            }),
        }
    }

    /// Whether anybody sees it.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown.is_some()
    }

    pub(crate) fn say(&self, line: &str) {
        if let Some(shown) = &self.shown {
            shown.bar.set_message(printable(line));
        }
    }
}

/// What is done, and for how long already.
fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
    style.unwrap_or_else(|_| ProgressStyle::default_spinner())
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.done.take();
        if let Some(appears) = self.appears.take() {
            let _ = appears.join();
        }
        self.bar.finish_and_clear();
    }
}

/// What clap has to say: help and version are results, the rest is wrong usage.
pub(crate) fn parse_failure(error: &clap::Error, json: bool) -> ExitCode {
    let is_answer = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if json && !is_answer {
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let message = text.split("\n\n").next().unwrap_or(text).trim();
        let usage = CommandError::usage(message)
            .hint("`nacre help` and `--help` after a command say what it takes");
        to_stderr(&error_json(&usage));
    } else {
        // Fails only when the reader is gone.
        let _ = error.print();
    }
    ExitCode::from(if is_answer {
        0
    } else {
        Kind::Usage.exit_code()
    })
}

/// Columns under their headings.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .chain([headings[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let mut text = String::new();
    let headings: Vec<String> = headings.iter().map(|&heading| heading.to_owned()).collect();
    for row in std::iter::once(&headings).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// One fact a line, the values aligned.
pub(crate) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in facts {
        let _ = writeln!(text, "{name:width$}  {value}");
    }
    text
}

/// An absent value in a table.
pub(crate) fn or_dash<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

pub(crate) fn stderr_has_colour() -> bool {
    !config::no_colour() && io::stderr().is_terminal()
}

fn error_json(error: &CommandError) -> String {
    let body = json!({ "error": { "code": error.kind(), "message": error.chain().join(": "), "hints": error.hints() } });
    format!("{body}\n")
}

fn error_for_people(error: &CommandError, colour: bool) -> String {
    let mut text = String::new();
    let chain = error.chain();
    let (label, reset) = if colour {
        ("\x1b[1;31m", "\x1b[0m")
    } else {
        ("", "")
    };
    let _ = writeln!(
        text,
        "{label}error:{reset} {}",
        printable(chain.first().map_or("", String::as_str))
    );
    for cause in chain.iter().skip(1) {
        let _ = writeln!(text, "caused by: {}", printable(cause));
    }
    for hint in error.hints() {
        let _ = writeln!(text, "hint: {}", printable(hint));
    }
    text
}

fn to_stderr(text: &str) {
    // There is nowhere left to say that this failed.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// File names and messages from a sandbox must not steer the terminal they are shown on.
fn printable(text: &str) -> String {
    if !text.contains(|c: char| c.is_control() && c != '\n') {
        return text.to_owned();
    }
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\n' {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect()
}

/// As [`printable`], for text that is laid out with tabs.
fn readable(text: &str) -> String {
    let pieces: Vec<String> = text.split('\t').map(printable).collect();
    pieces.join("\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_line_and_its_causes_and_hints_follow() {
        let error = CommandError::from(anyhow::anyhow!("disk full").context("cannot write"))
            .hint("make room");
        assert_eq!(
            error_for_people(&error, false),
            "error: cannot write\ncaused by: disk full\nhint: make room\n"
        );
    }

    #[test]
    fn an_error_for_programs_has_its_code_message_and_hints() {
        let error = CommandError::refused("it is paused").hint("resume it");
        insta::assert_snapshot!(
            error_json(&error),
            @r#"{"error":{"code":"refused","hints":["resume it"],"message":"it is paused"}}"#
        );
    }

    #[test]
    fn a_table_is_as_wide_as_its_widest_cell() {
        let rows = [
            vec!["sbx_1".to_owned(), "a".to_owned()],
            vec!["s".to_owned(), "bcd".to_owned()],
        ];
        assert_eq!(
            table(&["ID", "NAME"], &rows),
            "ID     NAME\nsbx_1  a\ns      bcd\n"
        );
    }

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc"), "a\u{fffd}[2Jb\nc");
    }
}
