//! What each key does.

use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::ask::Ask;
use crate::screen::{Deed, Place, Screen};

/// How soon a second Ctrl-C must follow to leave.
const AGAIN: Duration = Duration::from_secs(3);

/// Whether a key was one of a question's.
enum Key {
    Taken(Option<Deed>),
    Other,
}

impl Screen {
    /// What a person did at the terminal.
    pub fn typed(&mut self, event: &Event) -> Option<Deed> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(*key),
            Event::Paste(text) => {
                self.settle();
                self.editor.insert(text);
                None
            }
            _ => None,
        }
    }

    fn key(&mut self, key: KeyEvent) -> Option<Deed> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return self.interrupt();
        }
        self.settle();
        if control {
            return self.control(key.code);
        }
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let is_newline = alt || key.modifiers.contains(KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Enter if is_newline => self.editor.insert("\n"),
            KeyCode::Enter => return self.enter(),
            KeyCode::PageUp => return self.scroll(-self.page()),
            KeyCode::PageDown => return self.scroll(self.page()),
            KeyCode::Tab => self.move_focus(false),
            KeyCode::BackTab => self.move_focus(true),
            KeyCode::Esc => self.escape(),
            _ => return self.edit(key.code, alt),
        }
        None
    }

    /// Cancels the turn; a second time soon after, it leaves.
    fn interrupt(&mut self) -> Option<Deed> {
        if self.leaving.is_some() {
            return Some(Deed::Leave);
        }
        self.leaving = Some(self.now + AGAIN);
        if self.is_busy() {
            self.notice = Some("cancelling the turn; Ctrl-C again leaves".to_owned());
            return Some(Deed::Cancel);
        }
        self.editor.take();
        self.notice = Some("Ctrl-C again leaves; the session goes on".to_owned());
        None
    }

    fn control(&mut self, code: KeyCode) -> Option<Deed> {
        match code {
            KeyCode::Char('d') if self.editor.is_empty() => return Some(Deed::Leave),
            KeyCode::Char('d') => self.editor.delete(),
            KeyCode::Char('j') => self.editor.insert("\n"),
            KeyCode::Char('a') => self.editor.home(),
            KeyCode::Char('e') => self.editor.end(),
            KeyCode::Char('u') => self.editor.delete_to_start(),
            KeyCode::Char('k') => self.editor.delete_to_end(),
            KeyCode::Char('w') => self.editor.delete_word(),
            KeyCode::Char('o') => self.toggle_all(),
            KeyCode::Char('l') => return Some(Deed::Redraw),
            KeyCode::Left => self.editor.word_left(),
            KeyCode::Right => self.editor.word_right(),
            KeyCode::Home => return self.scroll(isize::MIN),
            KeyCode::End => self.place = Place::End,
            _ => {}
        }
        None
    }

    /// Opens the row that is looked at, answers what is asked, or sends what was typed.
    fn enter(&mut self) -> Option<Deed> {
        if let Some(part) = self.focus.clone() {
            self.toggle(&part);
            return None;
        }
        if let Some(ask) = self.asks() {
            let deed = self.asked.decide(&ask, self.editor.text());
            match deed {
                Some(_) if ask.takes_text() => drop(self.editor.take()),
                Some(_) => {}
                None => self.notice = Some("type an answer, then Enter".to_owned()),
            }
            return deed;
        }
        if self.editor.text().trim().is_empty() {
            return None;
        }
        self.place = Place::End;
        Some(Deed::Prompt(self.editor.take()))
    }

    fn escape(&mut self) {
        self.focus = None;
        self.place = Place::End;
    }

    fn edit(&mut self, code: KeyCode, alt: bool) -> Option<Deed> {
        // Whoever types does not look at rows any more.
        self.focus = None;
        if self.editor.is_empty()
            && let Some(ask) = self.asks()
            && let Key::Taken(deed) = self.choose(code, &ask)
        {
            return deed;
        }
        match code {
            KeyCode::Char('b') if alt => self.editor.word_left(),
            KeyCode::Char('f') if alt => self.editor.word_right(),
            KeyCode::Backspace if alt => self.editor.delete_word(),
            KeyCode::Char(c) => self.editor.insert(c.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace => self.editor.backspace(),
            KeyCode::Delete => self.editor.delete(),
            KeyCode::Left => self.editor.left(),
            KeyCode::Right => self.editor.right(),
            KeyCode::Home => self.editor.home(),
            KeyCode::End => self.editor.end(),
            KeyCode::Up => {
                let history = self.history();
                self.editor.up(&history);
            }
            KeyCode::Down => {
                let history = self.history();
                self.editor.down(&history);
            }
            _ => {}
        }
        None
    }

    /// Keys of a question, while nothing is typed.
    fn choose(&mut self, code: KeyCode, ask: &Ask) -> Key {
        let options = ask.options().len();
        match code {
            KeyCode::Up => self.asked.up(),
            KeyCode::Down => self.asked.down(ask),
            KeyCode::Char(' ') if ask.takes_several() => self.asked.mark(),
            KeyCode::Char(digit @ '1'..='9') if !ask.takes_text() => {
                let at = digit as usize - '1' as usize;
                if at < options {
                    self.asked.chosen = at;
                }
            }
            KeyCode::Char(letter @ ('y' | 'n')) if matches!(ask, Ask::Permission(_)) => {
                self.asked.chosen = usize::from(letter == 'n');
                return Key::Taken(self.asked.decide(ask, ""));
            }
            _ => return Key::Other,
        }
        Key::Taken(None)
    }

    fn page(&self) -> isize {
        isize::try_from(self.drawn.1.saturating_sub(2).max(1)).unwrap_or(1)
    }
}
