//! Answers, for people.

use std::fmt::Write as _;

use serde_json::Value;

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("-")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A control character of a service's making must not reach the terminal.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let cell = plain(cell);
            let _ = write!(line, "{cell:<width$}  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(super) fn services(answer: &Value) -> String {
    let mut rows = vec![header(&[
        "NAME", "STATUS", "PID", "CODE", "RESTARTS", "COMMAND",
    ])];
    for service in list(answer, "services") {
        let number = |key: &str| {
            service[key]
                .as_i64()
                .map_or("-".to_owned(), |n| n.to_string())
        };
        rows.push(vec![
            text(service, "name").to_owned(),
            text(service, "status").to_owned(),
            number("pid"),
            number("exit_code"),
            number("restarts"),
            text(service, "command").chars().take(60).collect(),
        ]);
    }
    let mut out = table(&rows);
    if let Some(port) = answer["exposed_port"].as_u64() {
        let _ = write!(out, "\nport {port} is exposed\n");
    }
    out
}

pub(super) fn service(answer: &Value) -> String {
    let service = &answer["service"];
    let status = match text(service, "status") {
        "restarting" => "starting",
        other => other,
    };
    format!("{}: {status}\n", plain(text(service, "name")))
}

pub(super) fn exposed(answer: &Value) -> String {
    format!("port {} is exposed\n", answer["exposed_port"])
}

pub(super) fn ports(answer: &Value) -> String {
    let mut rows = vec![header(&["PORT", "REACH"])];
    for port in list(answer, "ports") {
        rows.push(vec![
            port["port"].to_string(),
            text(port, "reach").to_owned(),
        ]);
    }
    table(&rows)
}

pub(super) fn tunnels(answer: &Value) -> String {
    let mut rows = vec![header(&["NAME", "PORT", "PROTOCOL"])];
    for tunnel in list(answer, "tunnels") {
        rows.push(vec![
            text(tunnel, "name").to_owned(),
            tunnel["port"].to_string(),
            text(tunnel, "protocol").to_owned(),
        ]);
    }
    table(&rows)
}

pub(super) fn tunnel(answer: &Value) -> String {
    let tunnel = &answer["tunnel"];
    format!(
        "{} leads to port {}\n",
        plain(text(tunnel, "name")),
        tunnel["port"]
    )
}

pub(super) fn applied(answer: &Value) -> String {
    let files = list(answer, "applied");
    let lines = files.iter().map(|file| {
        format!(
            "{} ({} keys)\n",
            plain(text(file, "path")),
            file["key_count"]
        )
    });
    lines.collect()
}

pub(super) fn scrubbed(answer: &Value) -> String {
    let mut out = String::new();
    for path in list(answer, "scrubbed").iter().filter_map(Value::as_str) {
        out.push_str(&plain(path));
        out.push('\n');
    }
    out
}

pub(super) fn snapshot(answer: &Value) -> String {
    format!("snapshot {}\n", plain(text(answer, "snapshot_id")))
}

pub(super) fn done(_: &Value) -> String {
    String::new()
}

pub(super) fn value(answer: &Value) -> String {
    serde_json::to_string_pretty(answer).unwrap_or_default() + "\n"
}
