//! What the agent did with a tool: a row, and what is below it when it is opened.

use ratatui::text::{Line, Span};
use serde_json::Value;

use crate::words::{Palette, clean, one_line, wrap};

/// Of what a tool printed, the end of it.
const MOST_LINES: usize = 200;
/// What of a call's arguments says most.
const TELLING: [&str; 9] = [
    "command",
    "filePath",
    "file_path",
    "path",
    "pattern",
    "url",
    "query",
    "description",
    "name",
];

/// One row: what was called, with what, and how it ended.
pub(crate) fn row(content: &Value, is_open: bool, width: usize, palette: Palette) -> Line<'static> {
    let name = one_line(content["name"].as_str().unwrap_or("tool"), 24);
    let (ending, style) = ending(content, palette);
    let mark = if is_open { "▾ " } else { "▸ " };
    let used = 4 + name.chars().count() + ending.chars().count();
    let call = one_line(
        &called_with(&content["args"]),
        width.saturating_sub(used + 1),
    );
    let mut line = Line::from(vec![
        Span::styled(mark, Palette::quiet()),
        Span::styled(name, Palette::strong()),
        Span::raw(" "),
        Span::styled(call, Palette::quiet()),
    ]);
    if !ending.is_empty() {
        line.push_span(Span::styled(format!(" {ending}"), style));
    }
    line
}

fn ending(content: &Value, palette: Palette) -> (String, ratatui::style::Style) {
    let failed = content["exit_code"].as_i64().filter(|code| *code != 0);
    match (content["status"].as_str().unwrap_or_default(), failed) {
        (_, Some(code)) => (format!("exit {code}"), palette.fails()),
        ("error", None) => ("failed".to_owned(), palette.fails()),
        ("completed", None) => (String::new(), Palette::quiet()),
        ("pending", None) => ("waiting".to_owned(), Palette::quiet()),
        _ => ("…".to_owned(), palette.works()),
    }
}

pub(crate) fn called_with(args: &Value) -> String {
    let telling = TELLING.iter().find_map(|key| args.get(key)?.as_str());
    match (telling, args) {
        (Some(text), _) => text.to_owned(),
        (None, Value::Null) => String::new(),
        (None, Value::Object(map)) if map.is_empty() => String::new(),
        _ => args.to_string(),
    }
}

/// What it was called with and what it said.
pub(crate) fn opened(content: &Value, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(args) = content["args"].as_object() {
        for (key, value) in args {
            let value = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let spans = |text: &str| vec![Span::styled(text.to_owned(), palette.code())];
            let value = clean(&value);
            let mut each = value.lines();
            let first = format!("{} {}", clean(key), each.next().unwrap_or_default());
            lines.extend(wrap(&spans(&first), width, 2));
            for line in last(&mut each) {
                lines.extend(wrap(&spans(&format!("  {line}")), width, 2));
            }
        }
    }
    for (key, style) in [("result", Palette::quiet()), ("error", palette.fails())] {
        let Some(text) = content[key].as_str() else {
            continue;
        };
        let text = clean(text.trim_end());
        for line in last(&mut text.lines()) {
            lines.extend(wrap(&[Span::styled(line, style)], width, 2));
        }
    }
    lines
}

/// The last lines, with what was left out.
fn last(lines: &mut dyn Iterator<Item = &str>) -> Vec<String> {
    let all: Vec<&str> = lines.collect();
    let skipped = all.len().saturating_sub(MOST_LINES);
    let note = (skipped > 0).then(|| format!("… {skipped} lines before"));
    let shown = all[skipped..].iter().map(|line| (*line).to_owned());
    note.into_iter().chain(shown).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_says_what_was_done_and_how_it_ended() {
        let call = |status: &str, code: Option<i64>| {
            let content = json!({"name": "bash", "status": status, "exit_code": code,
                "args": {"command": "cargo test\n --all", "description": "Runs tests"}});
            row(&content, false, 60, Palette::plain()).to_string()
        };
        assert_eq!(call("completed", Some(0)), "▸ bash cargo test --all");
        assert_eq!(
            call("completed", Some(101)),
            "▸ bash cargo test --all exit 101"
        );
        assert_eq!(call("running", None), "▸ bash cargo test --all …");
        assert_eq!(call("error", None), "▸ bash cargo test --all failed");
    }

    #[test]
    fn of_what_is_long_the_end_is_shown() {
        let result: Vec<String> = (0..1000).map(|line| format!("line {line}")).collect();
        let content = json!({"name": "bash", "status": "completed", "result": result.join("\n")});
        let lines = opened(&content, 40, Palette::plain());
        assert_eq!(lines.len(), MOST_LINES + 1);
        assert_eq!(lines[0].to_string(), "… 800 lines before");
        assert_eq!(lines[MOST_LINES].to_string(), "line 999");
    }
}
