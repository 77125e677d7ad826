//! What a person types: several lines, a cursor, and what was typed before.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// The server takes no longer prompt.
const LONGEST: usize = 256 << 10;

#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Editor {
    text: String,
    /// In bytes, between characters.
    cursor: usize,
    /// Which of the history is shown, from the newest, and what was typed before that.
    recalled: Option<(usize, String)>,
}

/// What is typed may be a secret.
impl std::fmt::Debug for Editor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Editor({} bytes)", self.text.len())
    }
}

impl Editor {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Empties it.
    pub(crate) fn take(&mut self) -> String {
        self.cursor = 0;
        self.recalled = None;
        std::mem::take(&mut self.text)
    }

    pub(crate) fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text: String = text
            .chars()
            .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
            .collect();
        if self.text.len() + text.len() > LONGEST {
            return;
        }
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
        self.recalled = None;
    }

    pub(crate) fn backspace(&mut self) {
        let from = self.before();
        self.cut(from, self.cursor);
    }

    pub(crate) fn delete(&mut self) {
        let to = self.after();
        self.cut(self.cursor, to);
    }

    pub(crate) fn delete_word(&mut self) {
        let from = self.word_before();
        self.cut(from, self.cursor);
    }

    pub(crate) fn delete_to_start(&mut self) {
        let from = self.line_start();
        self.cut(from, self.cursor);
    }

    pub(crate) fn delete_to_end(&mut self) {
        let to = self.line_end();
        self.cut(self.cursor, to);
    }

    pub(crate) fn left(&mut self) {
        self.cursor = self.before();
    }

    pub(crate) fn right(&mut self) {
        self.cursor = self.after();
    }

    pub(crate) fn word_left(&mut self) {
        self.cursor = self.word_before();
    }

    pub(crate) fn word_right(&mut self) {
        let words = self.text[self.cursor..].split_word_bound_indices();
        let end = words
            .filter(|(_, word)| !word.trim().is_empty())
            .map(|(at, word)| at + word.len())
            .next();
        self.cursor = end.map_or(self.text.len(), |end| self.cursor + end);
    }

    pub(crate) fn home(&mut self) {
        self.cursor = self.line_start();
    }

    pub(crate) fn end(&mut self) {
        self.cursor = self.line_end();
    }

    /// A line up, or further back in what was typed before.
    pub(crate) fn up(&mut self, history: &[String]) {
        let start = self.line_start();
        if start > 0 {
            let column = self.text[start..self.cursor].graphemes(true).count();
            self.cursor = self.at_column(start - 1, column);
            return;
        }
        let next = self.recalled.as_ref().map_or(0, |(at, _)| at + 1);
        if next < history.len() {
            let draft = match self.recalled.take() {
                Some((_, draft)) => draft,
                None => self.text.clone(),
            };
            self.show(history[history.len() - 1 - next].clone());
            self.recalled = Some((next, draft));
        }
    }

    /// A line down, or back to what is being typed.
    pub(crate) fn down(&mut self, history: &[String]) {
        let end = self.line_end();
        if end < self.text.len() {
            let start = self.line_start();
            let column = self.text[start..self.cursor].graphemes(true).count();
            self.cursor = self.at_column(self.line_end_at(end + 1), column);
            return;
        }
        match self.recalled.take() {
            Some((0, draft)) => self.show(draft),
            Some((at, draft)) => {
                let text = history.len().checked_sub(at).and_then(|at| history.get(at));
                self.show(text.cloned().unwrap_or_default());
                self.recalled = Some((at - 1, draft));
            }
            None => {}
        }
    }

    /// Its rows at a width, and the row and column of the cursor.
    pub(crate) fn layout(&self, width: usize) -> (Vec<String>, (usize, usize)) {
        let width = width.max(2);
        let mut rows = vec![String::new()];
        let (mut used, mut cursor) = (0, (0, 0));
        for (at, piece) in self.text.grapheme_indices(true) {
            let wide = if piece == "\t" { 4 } else { piece.width() };
            if piece != "\n" && used + wide > width {
                rows.push(String::new());
                used = 0;
            }
            if at == self.cursor {
                cursor = (rows.len() - 1, used);
            }
            match piece {
                "\n" => {
                    rows.push(String::new());
                    used = 0;
                    continue;
                }
                "\t" => rows.last_mut().map(|row| row.push_str("    ")),
                piece => rows.last_mut().map(|row| row.push_str(piece)),
            };
            used += wide;
        }
        if self.cursor == self.text.len() {
            if used >= width {
                rows.push(String::new());
                used = 0;
            }
            cursor = (rows.len() - 1, used);
        }
        (rows, cursor)
    }

    /// As many dots as characters, in one row, and the column of the cursor.
    pub(crate) fn dots(&self, width: usize) -> (String, usize) {
        let before = self.text[..self.cursor].graphemes(true).count();
        let all = self.text.graphemes(true).count();
        let width = width.saturating_sub(1);
        ("•".repeat(all.min(width)), before.min(width))
    }

    fn show(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
    }

    fn cut(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
        self.recalled = None;
    }

    fn before(&self) -> usize {
        let before = self.text[..self.cursor].grapheme_indices(true).next_back();
        before.map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        let next = self.text[self.cursor..].graphemes(true).next();
        self.cursor + next.map_or(0, str::len)
    }

    fn word_before(&self) -> usize {
        let words = self.text[..self.cursor].split_word_bound_indices();
        let word = words.rev().find(|(_, word)| !word.trim().is_empty());
        word.map_or(0, |(at, _)| at)
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.line_end_at(self.cursor)
    }

    fn line_end_at(&self, from: usize) -> usize {
        let end = self.text[from..].find('\n');
        end.map_or(self.text.len(), |at| from + at)
    }

    /// In the line that ends at `end`, or at its end where it is shorter.
    fn at_column(&self, end: usize, column: usize) -> usize {
        let start = self.text[..end].rfind('\n').map_or(0, |at| at + 1);
        let place = self.text[start..end].grapheme_indices(true).nth(column);
        place.map_or(end, |(at, _)| start + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Editor {
        let mut editor = Editor::default();
        editor.insert(text);
        editor
    }

    #[test]
    fn characters_of_several_bytes_are_one_step() {
        let mut editor = typed("né👩‍🚀");
        editor.left();
        editor.backspace();
        assert_eq!(editor.text(), "n👩‍🚀");
        editor.delete();
        assert_eq!(editor.text(), "n");
    }

    #[test]
    fn words_and_lines_go_at_once() {
        let mut editor = typed("one two  three");
        editor.delete_word();
        assert_eq!(editor.text(), "one two  ");
        editor.delete_word();
        assert_eq!(editor.text(), "one ");
        editor.insert("x\ny");
        editor.delete_to_start();
        assert_eq!(editor.text(), "one x\n");
    }

    #[test]
    fn what_was_typed_before_comes_back_and_so_does_the_draft() {
        let history = ["first".to_owned(), "second".to_owned()];
        let mut editor = typed("draft");
        editor.up(&history);
        assert_eq!(editor.text(), "second");
        editor.up(&history);
        editor.up(&history);
        assert_eq!(editor.text(), "first");
        editor.down(&history);
        assert_eq!(editor.text(), "second");
        editor.down(&history);
        assert_eq!(editor.text(), "draft");
    }

    #[test]
    fn up_and_down_stay_in_the_text_while_there_are_lines() {
        let mut editor = typed("long line\nab\nc");
        editor.up(&[]);
        editor.up(&[]);
        editor.insert("|");
        assert_eq!(editor.text(), "l|ong line\nab\nc");
        editor.end();
        editor.down(&[]);
        editor.insert("|");
        assert_eq!(editor.text(), "l|ong line\nab|\nc");
    }

    #[test]
    fn rows_break_at_the_width_and_the_cursor_is_found() {
        let mut editor = typed("abcdef\ng");
        assert_eq!(
            editor.layout(4),
            (vec!["abcd".into(), "ef".into(), "g".into()], (2, 1))
        );
        editor.up(&[]);
        editor.home();
        assert_eq!(editor.layout(4).1, (0, 0));
        assert_eq!(typed("abcd").layout(4).1, (1, 0));
    }

    #[test]
    fn pasted_line_ends_are_line_ends_and_nothing_steers() {
        assert_eq!(typed("a\r\nb\rc\x1b[2J").text(), "a\nb\nc[2J");
    }
}
