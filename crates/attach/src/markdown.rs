//! As much of markdown as helps to read an answer in a terminal: headings, lists, code, weight.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::words::{Palette, clean, wrap};

/// The lines of an answer.
pub(crate) fn lines(text: &str, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let text = clean(text);
    let mut lines = Vec::new();
    let mut is_code = false;
    for line in text.trim_end().split('\n') {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        if is_code {
            let code = Span::styled(format!("  {line}"), palette.code());
            lines.extend(wrap(&[code], width, 2));
            continue;
        }
        if let Some(heading) = heading(line) {
            lines.extend(wrap(&inline(heading, Palette::strong(), palette), width, 0));
            continue;
        }
        let spans = inline(line, Palette::text(), palette);
        lines.extend(wrap(&spans, width, hang(line)));
    }
    lines
}

fn heading(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    ((1..=6).contains(&level)).then(|| rest.strip_prefix(' '))?
}

/// Where the text of a list's entry begins.
fn hang(line: &str) -> usize {
    let rest = line.trim_start_matches(' ');
    let before = (line.len() - rest.len()).min(12);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let numbered = (1..=3).contains(&digits) && rest[digits..].starts_with(". ");
    match rest {
        _ if rest.starts_with("- ") || rest.starts_with("* ") => before + 2,
        _ if numbered => before + digits + 2,
        _ => before,
    }
}

/// Code and weight within a line. What is opened and never closed is shown as it is.
fn inline(line: &str, base: Style, palette: Palette) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find(['`', '*']) {
        let mark = if rest[at..].starts_with("**") {
            "**"
        } else if rest[at..].starts_with('`') {
            "`"
        } else {
            spans.push(Span::styled(rest[..=at].to_owned(), base));
            rest = &rest[at + 1..];
            continue;
        };
        let inner = &rest[at + mark.len()..];
        let Some(end) = inner.find(mark).filter(|end| *end > 0) else {
            spans.push(Span::styled(rest[..at + mark.len()].to_owned(), base));
            rest = inner;
            continue;
        };
        let style = if mark == "`" {
            base.patch(palette.code())
        } else {
            base.patch(Palette::strong())
        };
        spans.push(Span::styled(rest[..at].to_owned(), base));
        spans.push(Span::styled(inner[..end].to_owned(), style));
        rest = &inner[end + mark.len()..];
    }
    spans.push(Span::styled(rest.to_owned(), base));
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, width: usize) -> Vec<String> {
        let lines = lines(text, width, Palette::plain());
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn marks_go_and_what_they_mean_stays() {
        let text = "# Pearls\n\n- **grit** in `pearl.txt`, as ever\n\n```sh\ncat pearl.txt\n```";
        assert_eq!(
            shown(text, 20),
            [
                "Pearls",
                "",
                "- grit in pearl.txt,",
                "  as ever",
                "",
                "  cat pearl.txt"
            ]
        );
    }

    #[test]
    fn a_mark_that_is_never_closed_is_text() {
        assert_eq!(shown("2 * 3 ** 4 ` 5", 40), ["2 * 3 ** 4 ` 5"]);
    }

    #[test]
    fn code_that_is_still_being_said_is_code() {
        let code = lines("```\nls", 20, Palette::colours());
        assert_eq!(code[0].spans[0].style, Palette::colours().code());
    }
}
