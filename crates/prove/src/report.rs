use std::fmt;

use serde::Serialize;

/// What came of a storm.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    pub seed: u64,
    pub rounds: u64,
    pub took_ms: u64,
    pub blows: Vec<(String, u64)>,
    pub sessions: u64,
    pub prompts: u64,
    /// Of those, by their end.
    pub finished: u64,
    pub failed: u64,
    pub interrupted: u64,
    /// Numbered frames that clients were told, and all of them compared with the log.
    pub frames: u64,
    pub deltas: u64,
    /// Sessions that servers said were theirs, with the term of each.
    pub claims: u64,
    /// Files that were acknowledged, and found again.
    pub files: u64,
    /// What was promised and not kept.
    pub broken: Vec<String>,
}

/// What happened in one round.
#[derive(Debug, Clone, Serialize)]
pub struct Round {
    pub round: u64,
    pub blow: String,
    pub did: Vec<String>,
    pub took_ms: u64,
    pub broken: Vec<String>,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "round {}: {}; {} ({} ms)",
            self.round,
            self.did.join(", "),
            self.blow,
            self.took_ms
        )?;
        for broken in &self.broken {
            write!(f, "\n  BROKEN: {broken}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} rounds with seed {} in {:.1} s",
            self.rounds,
            self.seed,
            std::time::Duration::from_millis(self.took_ms).as_secs_f64()
        )?;
        writeln!(f)?;
        writeln!(f, "What was done to it")?;
        for (blow, times) in &self.blows {
            writeln!(f, "  {times:>6}  {blow}")?;
        }
        writeln!(f)?;
        writeln!(f, "What was asked and what came of it")?;
        writeln!(f, "  {:>6}  sessions", self.sessions)?;
        writeln!(f, "  {:>6}  prompts", self.prompts)?;
        writeln!(f, "  {:>6}    finished", self.finished)?;
        writeln!(f, "  {:>6}    failed", self.failed)?;
        writeln!(f, "  {:>6}    interrupted", self.interrupted)?;
        writeln!(f)?;
        writeln!(f, "What was compared")?;
        writeln!(
            f,
            "  {:>6}  numbered frames that clients saw, with the log, byte for byte",
            self.frames
        )?;
        writeln!(
            f,
            "  {:>6}  pieces of text, with the final text",
            self.deltas
        )?;
        writeln!(
            f,
            "  {:>6}  files that were acknowledged, with the disk",
            self.files
        )?;
        writeln!(
            f,
            "  {:>6}  claims of servers to own a session, with those of others",
            self.claims
        )?;
        writeln!(
            f,
            "  {:>6}  prompts, with the number of their runs",
            self.prompts
        )?;
        writeln!(f)?;
        if self.broken.is_empty() {
            write!(f, "Nothing was lost, nothing ran twice, nobody was stuck.")
        } else {
            writeln!(f, "BROKEN, {} times:", self.broken.len())?;
            for broken in &self.broken {
                writeln!(f, "  {broken}")?;
            }
            write!(
                f,
                "Run it again with --seed {} --rounds {}",
                self.seed, self.rounds
            )
        }
    }
}
