//! What was found, for programs and for people.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::machine::Machine;
use super::peers::Peer;
use super::stats::{Samples, Summary, rounded};
use crate::output::table;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Few runs of everything: to see that it works, not how fast it is.
    pub(super) quick: bool,
    operations: Vec<Operation>,
    values: Vec<Figure>,
    counters: Vec<Counter>,
    peers: Vec<PeerReport>,
    goals: Vec<Goal>,
    failures: Vec<Failure>,
    pub(super) machine: Machine,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Operation {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) summary: Summary,
}

/// A figure that is not a time.
#[derive(Debug, Clone, Serialize)]
struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
}

/// Something that must be as it was before.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Counter {
    pub(super) name: String,
    pub(super) before: u64,
    pub(super) after: u64,
    /// How long after the last cycle it was back; none when it was not.
    pub(super) returned_ms: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
struct PeerReport {
    name: &'static str,
    found: bool,
    version: Option<String>,
    /// Why there are no figures.
    reason: Option<String>,
    operations: Vec<Operation>,
}

#[derive(Debug, Clone, Serialize)]
struct Goal {
    name: String,
    figure: &'static str,
    says: String,
    at_most: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    measured: f64,
    unit: &'static str,
    /// None when there is nothing to compare with.
    met: Option<bool>,
    missed_by: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
struct Failure {
    operation: &'static str,
    reason: String,
}

impl Report {
    pub(super) fn new(quick: bool, machine: Machine, peers: &[Peer]) -> Self {
        let peers = peers
            .iter()
            .map(|peer| PeerReport {
                name: peer.name(),
                found: peer.is_found(),
                version: peer.version().map(str::to_owned),
                reason: peer.reason().map(str::to_owned),
                operations: Vec::new(),
            })
            .collect();
        Self {
            quick,
            operations: Vec::new(),
            values: Vec::new(),
            counters: Vec::new(),
            peers,
            goals: Vec::new(),
            failures: Vec::new(),
            machine,
        }
    }

    /// Adds an operation's times; gives their summary, on which a goal may be put.
    pub(super) fn times(&mut self, name: &str, samples: &Samples) -> Option<Summary> {
        let summary = samples.summary()?;
        self.operations.push(Operation {
            name: name.to_owned(),
            summary,
        });
        Some(summary)
    }

    /// Adds what another run measured.
    pub(super) fn add(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    pub(super) fn peer_times(&mut self, peer: &str, name: &str, samples: &Samples) {
        let found = self.peers.iter_mut().find(|report| report.name == peer);
        if let (Some(report), Some(summary)) = (found, samples.summary()) {
            report.operations.push(Operation {
                name: name.to_owned(),
                summary,
            });
        }
    }

    /// A peer that ran at first and then did not.
    pub(super) fn peer_failed(&mut self, peer: &str, reason: String) {
        if let Some(report) = self.peers.iter_mut().find(|report| report.name == peer) {
            report.reason = Some(reason);
        }
    }

    pub(super) fn value(&mut self, name: &str, value: f64, unit: &'static str) {
        self.values.push(Figure {
            name: name.to_owned(),
            value: rounded(value),
            unit,
        });
    }

    pub(super) fn counter(&mut self, counter: Counter) {
        self.counters.push(counter);
    }

    pub(super) fn failed(&mut self, operation: &'static str, reason: String) {
        self.failures.push(Failure { operation, reason });
    }

    pub(super) fn has_failures(&self) -> bool {
        !self.failures.is_empty()
    }

    pub(super) fn goal(
        &mut self,
        name: &str,
        figure: &'static str,
        measured: f64,
        at_most: f64,
        unit: &'static str,
    ) {
        let says = format!("{figure} ≤ {at_most} {unit}");
        self.add_goal(name, figure, says, measured, Some(at_most), unit);
    }

    pub(super) fn goal_at_least(
        &mut self,
        name: &str,
        figure: &'static str,
        measured: f64,
        at_least: f64,
        unit: &'static str,
    ) {
        let short = at_least - measured;
        self.goals.push(Goal {
            name: name.to_owned(),
            figure,
            says: format!("{figure} ≥ {at_least} {unit}"),
            at_most: None,
            at_least: Some(at_least),
            measured: rounded(measured),
            unit,
            met: Some(short <= 0.0),
            missed_by: Some(short).filter(|short| *short > 0.0).map(rounded),
        });
    }

    /// A goal that is a share of a peer's p50 in the same run.
    pub(super) fn goal_by_peer(&mut self, name: &str, measured: f64, peer: &str, factor: f64) {
        let theirs = self
            .peers
            .iter()
            .find(|report| report.name == peer)
            .and_then(|report| report.operations.iter().find(|o| o.name == name))
            .map(|operation| rounded(operation.summary.p50_ms * factor));
        let says = format!("p50_ms ≤ {factor} × {peer}'s p50");
        self.add_goal(name, "p50_ms", says, measured, theirs, "ms");
    }

    fn add_goal(
        &mut self,
        name: &str,
        figure: &'static str,
        says: String,
        measured: f64,
        at_most: Option<f64>,
        unit: &'static str,
    ) {
        let over = at_most.map(|most| measured - most);
        self.goals.push(Goal {
            name: name.to_owned(),
            figure,
            says,
            at_most,
            at_least: None,
            measured: rounded(measured),
            unit,
            met: over.map(|over| over <= 0.0),
            missed_by: over.filter(|over| *over > 0.0).map(rounded),
        });
    }

    pub(super) fn shown(&self) -> String {
        let mut text = String::new();
        if self.quick {
            text.push_str("a quick run: it shows that the command works, not how fast it is\n\n");
        }
        let parts = [
            self.times_shown(),
            self.goals_shown(),
            self.values_shown(),
            self.counters_shown(),
            self.peers_shown(),
            self.machine.shown(),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        text.push_str(&parts.join("\n"));
        for failure in &self.failures {
            let _ = writeln!(
                text,
                "\n{} could not be measured: {}",
                failure.operation, failure.reason
            );
        }
        text
    }

    fn times_shown(&self) -> String {
        let row = |name: String, summary: &Summary| {
            let ms = |value: f64| format!("{value:.3}");
            vec![
                name,
                summary.n.to_string(),
                ms(summary.min_ms),
                ms(summary.p50_ms),
                ms(summary.p95_ms),
                ms(summary.p99_ms),
            ]
        };
        let mut rows = Vec::new();
        for operation in &self.operations {
            rows.push(row(operation.name.clone(), &operation.summary));
            for peer in &self.peers {
                let same = peer.operations.iter().filter(|o| o.name == operation.name);
                rows.extend(same.map(|o| row(format!("  {}", peer.name), &o.summary)));
            }
        }
        table_or_nothing(
            &["OPERATION", "N", "MIN MS", "P50 MS", "P95 MS", "P99 MS"],
            &rows,
        )
    }

    fn goals_shown(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .goals
            .iter()
            .map(|goal| {
                let verdict = match (goal.met, goal.missed_by, goal.at_most.or(goal.at_least)) {
                    (Some(true), ..) => "✓ met".to_owned(),
                    (_, Some(by), Some(bound)) if bound > 0.0 => {
                        let percent = by / bound * 100.0;
                        format!("✗ missed by {by:.3} {} ({percent:.0} %)", goal.unit)
                    }
                    (_, Some(by), _) => format!("✗ missed by {by:.3} {}", goal.unit),
                    _ => "no peer to compare with".to_owned(),
                };
                let measured = format!("{:.3} {}", goal.measured, goal.unit);
                vec![goal.name.clone(), goal.says.clone(), measured, verdict]
            })
            .collect();
        table_or_nothing(&["FIGURE", "GOAL", "MEASURED", "VERDICT"], &rows)
    }

    fn values_shown(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .values
            .iter()
            .map(|value| {
                vec![
                    value.name.clone(),
                    value.value.to_string(),
                    value.unit.to_owned(),
                ]
            })
            .collect();
        table_or_nothing(&["VALUE", "IS", "UNIT"], &rows)
    }

    fn counters_shown(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .counters
            .iter()
            .map(|counter| {
                let returned = counter
                    .returned_ms
                    .map_or_else(|| "not".to_owned(), |ms| format!("{ms:.0} ms"));
                vec![
                    counter.name.clone(),
                    counter.before.to_string(),
                    counter.after.to_string(),
                    returned,
                ]
            })
            .collect();
        table_or_nothing(&["COUNTER", "BEFORE", "AFTER", "RETURNED AFTER"], &rows)
    }

    fn peers_shown(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .peers
            .iter()
            .map(|peer| {
                let standing = match (&peer.version, &peer.reason) {
                    (_, Some(reason)) if peer.found => {
                        format!("found, does not run here: {reason}")
                    }
                    (_, Some(reason)) => reason.clone(),
                    (Some(version), None) => version.clone(),
                    (None, None) => "not found".to_owned(),
                };
                vec![peer.name.to_owned(), standing]
            })
            .collect();
        table_or_nothing(&["PEER", "STANDING"], &rows)
    }
}

fn table_or_nothing(headings: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        String::new()
    } else {
        table(headings, rows)
    }
}
