//! Text that is shown: cleaned, measured, broken into lines.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// What stands out, and how. Without colours, by weight alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Palette {
    has_colours: bool,
}

impl Palette {
    pub fn colours() -> Self {
        Self { has_colours: true }
    }

    pub fn plain() -> Self {
        Self { has_colours: false }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.has_colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    pub(crate) fn text() -> Style {
        Style::new()
    }

    pub(crate) fn strong() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn quiet() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn code(self) -> Style {
        self.coloured(Color::Cyan)
    }

    pub(crate) fn asks(self) -> Style {
        self.coloured(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn fails(self) -> Style {
        self.coloured(Color::Red)
    }

    pub(crate) fn works(self) -> Style {
        self.coloured(Color::Green)
    }

    pub(crate) fn chosen() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

/// What a sandbox says must not steer the terminal, nor turn around what stands beside it.
pub(crate) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => clean.push('\n'),
            '\t' => clean.push_str("    "),
            '\r' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => {}
            c if c.is_control() => clean.push(char::REPLACEMENT_CHARACTER),
            c => clean.push(c),
        }
    }
    clean
}

/// In one line of at most so many columns.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let line = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.width() <= most {
        return line;
    }
    let (mut kept, mut width) = (String::new(), 0);
    for piece in line.graphemes(true) {
        width += piece.width();
        if width > most.saturating_sub(1) {
            break;
        }
        kept.push_str(piece);
    }
    format!("{}…", kept.trim_end())
}

/// As many lines as it takes, broken between words where there are any. Lines after the first are
/// set in by `hang` columns.
pub(crate) fn wrap(spans: &[Span<'_>], width: usize, hang: usize) -> Vec<Line<'static>> {
    let width = width.max(hang + 8);
    let pieces: Vec<(&str, Style)> = spans
        .iter()
        .flat_map(|span| {
            span.content
                .graphemes(true)
                .map(|piece| (piece, span.style))
        })
        .collect();
    let mut lines = Vec::new();
    let mut start = 0;
    while start < pieces.len() || lines.is_empty() {
        let set_in = if lines.is_empty() { 0 } else { hang };
        let (end, next) = break_at(&pieces, start, width - set_in);
        let mut line = Line::default();
        if set_in > 0 {
            line.push_span(Span::raw(" ".repeat(set_in)));
        }
        for (piece, style) in &pieces[start..end] {
            match line.spans.last_mut() {
                Some(last) if last.style == *style => last.content.to_mut().push_str(piece),
                _ => line.push_span(Span::styled((*piece).to_owned(), *style)),
            }
        }
        lines.push(line);
        start = next;
    }
    lines
}

/// Where a line that begins at `start` ends, and where the next begins.
fn break_at(pieces: &[(&str, Style)], start: usize, width: usize) -> (usize, usize) {
    let mut used = 0;
    let mut space = None;
    for (at, (piece, _)) in pieces.iter().enumerate().skip(start) {
        used += piece.width();
        if used > width {
            return match space {
                _ if *piece == " " && at > start => (at, at + 1),
                Some(space) => (space, space + 1),
                // One that is wider than the screen is better cut off than never shown.
                None if at == start => (at + 1, at + 1),
                None => (at, at),
            };
        }
        if *piece == " " && at > start {
            space = Some(at);
        }
    }
    (pieces.len(), pieces.len())
}

/// How many, as people say it: `950`, `12.3k`, `4.0M`.
pub(crate) fn count(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        1000..1_000_000 => format!("{}.{}k", number / 1000, number % 1000 / 100),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

/// Millionths of a dollar.
pub(crate) fn money(micros: u64) -> String {
    format!("${}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, width: usize, hang: usize) -> Vec<String> {
        let lines = wrap(&[Span::raw(text)], width, hang);
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lines_break_between_words_and_long_words_in_themselves() {
        assert_eq!(wrapped("grit and nacre", 10, 0), ["grit and", "nacre"]);
        assert_eq!(wrapped("abcdefghijklm", 10, 0), ["abcdefghij", "klm"]);
        assert_eq!(wrapped("- one two three", 10, 2), ["- one two", "  three"]);
        assert_eq!(wrapped("", 10, 0), [""]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(wrapped("真珠真珠真珠", 8, 0), ["真珠真珠", "真珠"]);
        assert_eq!(one_line("真珠 真珠", 6), "真珠…");
    }

    #[test]
    fn what_a_sandbox_says_does_not_steer_the_terminal() {
        assert_eq!(clean("a\x1b[2J\u{202e}b\tc\r\n"), "a\u{fffd}[2Jb    c\n");
    }

    #[test]
    fn numbers_are_said_shortly() {
        assert_eq!((count(950), count(12_345)), ("950".into(), "12.3k".into()));
        assert_eq!(money(1_234_500), "$1.2345");
    }
}
