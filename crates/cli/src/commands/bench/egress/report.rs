use camino::Utf8Path;
use serde::Serialize;

use crate::commands::bench::machine::Machine;
use crate::commands::bench::stats::{middle, number, rounded};
use crate::output::table;

/// What a large body asks of us, as a part of no proxy at all.
const LARGE_AT_LEAST: f64 = 0.6;

/// One measurement: requests a second.
pub(super) struct Figure {
    pub(super) way: &'static str,
    pub(super) bytes: usize,
    pub(super) rate: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Report {
    machine: Machine,
    connections: u32,
    rows: Vec<Row>,
    asked: Vec<Asked>,
    #[serde(skip)]
    figures: Vec<(&'static str, usize, Vec<f64>)>,
}

#[derive(Debug, Serialize)]
struct Row {
    way: &'static str,
    body_bytes: usize,
    rounds: usize,
    requests_per_second: f64,
    mib_per_second: f64,
    /// Of the way without a proxy, each round compared with its own.
    of_direct: f64,
}

/// A figure that was asked for, and what was found.
#[derive(Debug, Serialize)]
struct Asked {
    what: &'static str,
    at_least: f64,
    found: f64,
    ok: bool,
}

impl Report {
    pub(super) fn new(connections: u32, home: &Utf8Path) -> Self {
        Self {
            machine: Machine::look(home),
            connections,
            rows: Vec::new(),
            asked: Vec::new(),
            figures: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, figure: &Figure) {
        let same = |(way, bytes, _): &&mut (&str, usize, Vec<f64>)| {
            *way == figure.way && *bytes == figure.bytes
        };
        match self.figures.iter_mut().find(same) {
            Some((_, _, rates)) => rates.push(figure.rate),
            None => self
                .figures
                .push((figure.way, figure.bytes, vec![figure.rate])),
        }
    }

    pub(super) fn finish(&mut self) {
        self.machine.look_again();
        for (way, bytes, rates) in &self.figures {
            let rate = middle(rates.clone());
            self.rows.push(Row {
                way,
                body_bytes: *bytes,
                rounds: rates.len(),
                requests_per_second: rounded(rate),
                mib_per_second: rounded(rate * number(*bytes as u64) / number(1 << 20)),
                of_direct: rounded(self.compared(way, "direct", *bytes).unwrap_or(0.0)),
            });
        }
        let asked = [
            (
                "64 KiB bodies, nacre of direct",
                "nacre",
                "direct",
                64 << 10,
                LARGE_AT_LEAST,
            ),
            (
                "64 KiB bodies, tunnel of direct",
                "nacre_tunnel",
                "direct",
                64 << 10,
                LARGE_AT_LEAST,
            ),
            (
                "1 KiB bodies, nacre of nginx",
                "nacre",
                "nginx",
                1 << 10,
                1.0,
            ),
        ];
        for (what, way, of, bytes, at_least) in asked {
            if let Some(found) = self.compared(way, of, bytes) {
                self.asked.push(Asked {
                    what,
                    at_least,
                    found: rounded(found),
                    ok: found >= at_least,
                });
            }
        }
    }

    /// The middle of the rounds' ratios: what disturbed a round disturbed both.
    fn compared(&self, way: &str, of: &str, bytes: usize) -> Option<f64> {
        let rates = |name: &str| {
            self.figures
                .iter()
                .find(|(way, size, _)| *way == name && *size == bytes)
                .map(|(_, _, rates)| rates)
        };
        let ratios = rates(way)?
            .iter()
            .zip(rates(of)?)
            .map(|(ours, theirs)| ours / theirs)
            .collect();
        Some(middle(ratios))
    }

    pub(super) fn shown(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| {
                vec![
                    row.way.to_owned(),
                    row.body_bytes.to_string(),
                    format!("{:.0}", row.requests_per_second),
                    format!("{:.1}", row.mib_per_second),
                    format!("{:.2}", row.of_direct),
                ]
            })
            .collect();
        let headings = ["WAY", "BODY", "REQUESTS/S", "MIB/S", "OF DIRECT"];
        let asked: Vec<String> = self
            .asked
            .iter()
            .map(|asked| {
                let mark = if asked.ok { '✓' } else { '✗' };
                format!(
                    "{mark} {}: {:.2}, asked {:.2}",
                    asked.what, asked.found, asked.at_least
                )
            })
            .collect();
        format!(
            "{}\n{}\n{}",
            self.machine.shown(),
            table(&headings, &rows),
            asked.join("\n")
        )
    }
}
