//! Named steps, how each ended, and the table at the end.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;

#[derive(Debug, Default)]
pub(crate) struct Report {
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    name: &'static str,
    end: End,
    took: Duration,
}

#[derive(Debug)]
pub(crate) enum End {
    Passed,
    /// Nothing to fail over, but somebody should read it.
    Noted(String),
    /// Not checked, and why.
    Skipped(String),
    Failed(anyhow::Error),
}

impl Report {
    /// Runs the step; false when it failed.
    pub(crate) fn step(&mut self, name: &'static str, body: impl FnOnce() -> Result<End>) -> bool {
        println!("\n==> {name}");
        let began = Instant::now();
        let end = body().unwrap_or_else(End::Failed);
        let took = began.elapsed();
        let passed = !matches!(end, End::Failed(_));
        println!("<== {name}: {end} ({:.1} s)", took.as_secs_f64());
        if let End::Failed(error) = &end {
            println!("{error:#}");
        }
        self.steps.push(Step { name, end, took });
        passed
    }

    /// Prints the table; true when nothing failed.
    pub(crate) fn finish(self) -> bool {
        let width = self
            .steps
            .iter()
            .map(|step| step.name.len())
            .max()
            .unwrap_or(0);
        println!();
        for Step { name, end, took } in &self.steps {
            println!("{name:width$}  {:>7.1} s  {end}", took.as_secs_f64());
        }
        let failed = self
            .steps
            .iter()
            .filter(|step| matches!(step.end, End::Failed(_)))
            .count();
        let took: Duration = self.steps.iter().map(|step| step.took).sum();
        println!(
            "{:width$}  {:>7.1} s  {failed} failed",
            "",
            took.as_secs_f64()
        );
        failed == 0
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("ok"),
            Self::Noted(note) => write!(f, "ok, but {note}"),
            Self::Skipped(reason) => write!(f, "SKIPPED: {reason}"),
            Self::Failed(_) => f.write_str("FAILED"),
        }
    }
}
