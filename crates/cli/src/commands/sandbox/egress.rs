use model::ByteCount;
use provider_local::{EgressRecord, EgressVerdict};
use serde::Serialize;
use serde_json::json;

use crate::app::App;
use crate::error::CommandError;
use crate::output::table;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The sandbox's id, name, or the beginning of its id
    #[arg(value_name = "ID")]
    sandbox: String,
    /// Only what was refused
    #[arg(long)]
    refused: bool,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Counts {
    allowed: usize,
    refused: usize,
    failed: usize,
    bytes_in: u64,
    bytes_out: u64,
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<(), CommandError> {
    let engine = app.engine()?;
    let id = engine.sandbox(&arguments.sandbox)?;
    let mut records = joined(engine.local.egress_log(id).await?);
    let counts = counted(&records);
    if arguments.refused {
        records.retain(|record| record.verdict == EgressVerdict::Refused);
    }
    app.output
        .result(&json!({ "records": records, "counts": counts }), || {
            shown(&records, &counts)
        })
}

/// The end of something that lasted is told in a line of its own; here it belongs to its beginning.
fn joined(records: Vec<EgressRecord>) -> Vec<EgressRecord> {
    let mut all: Vec<EgressRecord> = Vec::with_capacity(records.len());
    for record in records {
        let is_beginning = |earlier: &&mut EgressRecord| {
            earlier.number == record.number
                && earlier.host == record.host
                && earlier.verdict == EgressVerdict::Allowed
        };
        if record.verdict != EgressVerdict::Closed {
            all.push(record);
        } else if let Some(beginning) = all.iter_mut().rev().find(is_beginning) {
            beginning.bytes_in = record.bytes_in;
            beginning.bytes_out = record.bytes_out;
            beginning.ms = record.ms;
            beginning.reason = record.reason;
        } else {
            // Its beginning is in a file that is gone.
            all.push(EgressRecord {
                verdict: EgressVerdict::Allowed,
                ..record
            });
        }
    }
    all
}

fn counted(records: &[EgressRecord]) -> Counts {
    let mut counts = Counts::default();
    for record in records {
        match record.verdict {
            EgressVerdict::Allowed | EgressVerdict::Closed => counts.allowed += 1,
            EgressVerdict::Refused => counts.refused += 1,
            EgressVerdict::Failed => counts.failed += 1,
        }
        counts.bytes_in += record.bytes_in;
        counts.bytes_out += record.bytes_out;
    }
    counts
}

fn shown(records: &[EgressRecord], counts: &Counts) -> String {
    let rows: Vec<Vec<String>> = records.iter().map(row).collect();
    let headings = [
        "AT", "VERDICT", "METHOD", "HOST", "ADDRESS", "IN", "OUT", "MS", "WHY",
    ];
    format!(
        "{}\n{} allowed, {} refused, {} failed",
        table(&headings, &rows),
        counts.allowed,
        counts.refused,
        counts.failed
    )
}

fn row(record: &EgressRecord) -> Vec<String> {
    let verdict = match record.verdict {
        EgressVerdict::Allowed | EgressVerdict::Closed => "allowed",
        EgressVerdict::Refused => "refused",
        EgressVerdict::Failed => "failed",
    };
    let or_dash = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), plain);
    let host = match (&*record.host, record.port) {
        ("", _) => None,
        (host, 0) => Some(host.to_owned()),
        (host, port) => Some(format!("{host}:{port}")),
    };
    vec![
        format!("{:.3}", record.at),
        verdict.to_owned(),
        or_dash(Some(&*record.method).filter(|method| !method.is_empty())),
        or_dash(host.as_deref()),
        or_dash(record.address.as_deref()),
        ByteCount::new(record.bytes_in).to_string(),
        ByteCount::new(record.bytes_out).to_string(),
        record.ms.to_string(),
        or_dash(record.reason.as_deref()),
    ]
}

/// Nothing of it may move the cursor of whoever reads it.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, verdict: EgressVerdict, bytes_in: u64) -> EgressRecord {
        EgressRecord {
            at: "2026-01-02T03:04:05Z".parse().unwrap(),
            number,
            verdict,
            method: "CONNECT".to_owned(),
            host: "pypi.org".to_owned(),
            port: 443,
            address: None,
            reason: (verdict == EgressVerdict::Refused).then(|| "not-listed".to_owned()),
            bytes_in,
            bytes_out: 0,
            ms: 5,
        }
    }

    #[test]
    fn an_end_is_shown_with_its_beginning() {
        let records = joined(vec![
            record(0, EgressVerdict::Allowed, 0),
            record(1, EgressVerdict::Refused, 0),
            record(0, EgressVerdict::Closed, 2048),
            record(9, EgressVerdict::Closed, 1),
        ]);
        let counts = counted(&records);
        insta::assert_snapshot!(shown(&records, &counts), @"");
    }
}
