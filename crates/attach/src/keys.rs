//! What each key does.

use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::ask::{Ask, Decided};
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
                let ask = self.asks();
                if ask.is_none_or(|ask| !ask.takes_reply() || ask.wants_words()) {
                    self.entry().insert(text);
                }
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
            KeyCode::Enter if is_newline => self.entry().insert("\n"),
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
        self.entry().take();
        self.notice = Some("Ctrl-C again leaves; the session goes on".to_owned());
        None
    }

    fn control(&mut self, code: KeyCode) -> Option<Deed> {
        match code {
            KeyCode::Char('d') if self.entry().is_empty() => return Some(Deed::Leave),
            KeyCode::Char('d') => self.entry().delete(),
            KeyCode::Char('j') => self.entry().insert("\n"),
            KeyCode::Char('a') => self.entry().home(),
            KeyCode::Char('e') => self.entry().end(),
            KeyCode::Char('u') => self.entry().delete_to_start(),
            KeyCode::Char('k') => self.entry().delete_to_end(),
            KeyCode::Char('w') => self.entry().delete_word(),
            KeyCode::Char('o') => self.toggle_all(),
            KeyCode::Char('l') => return Some(Deed::Redraw),
            KeyCode::Left => self.entry().word_left(),
            KeyCode::Right => self.entry().word_right(),
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
            let decided = self.asked.decide(&ask, self.editor.text());
            if ask.takes_text() && matches!(decided, Decided::Deed(_)) {
                self.editor.take();
            }
            return self.decide(decided);
        }
        if self.editor.text().trim().is_empty() {
            return None;
        }
        self.place = Place::End;
        Some(Deed::Prompt(self.editor.take()))
    }

    fn decide(&mut self, decided: Decided) -> Option<Deed> {
        match decided {
            Decided::Deed(deed) => return Some(deed),
            Decided::Missing(what) => self.notice = Some(what.to_owned()),
            Decided::Step | Decided::PutOff => {}
        }
        None
    }

    /// Back to the end; from there, what is asked is left to somebody else.
    fn escape(&mut self) {
        let was_elsewhere = self.focus.is_some() || self.place != Place::End;
        self.focus = None;
        self.place = Place::End;
        if !was_elsewhere && let Some(ask) = self.asks().filter(Ask::can_wait) {
            self.asked.put_off(&ask);
            self.notice = Some("not now; the agent is not told".to_owned());
        }
    }

    fn edit(&mut self, code: KeyCode, alt: bool) -> Option<Deed> {
        // Whoever types does not look at rows any more.
        self.focus = None;
        if self.entry().is_empty()
            && let Some(ask) = self.asks()
            && let Key::Taken(deed) = self.choose(code, &ask)
        {
            return deed;
        }
        // A value brings back nothing, and is not brought back.
        let is_reply = self.asks().is_some_and(|ask| ask.takes_reply());
        let history = match code {
            KeyCode::Up | KeyCode::Down if !is_reply => self.history(),
            _ => Vec::new(),
        };
        let entry = self.entry();
        match code {
            KeyCode::Char('b') if alt => entry.word_left(),
            KeyCode::Char('f') if alt => entry.word_right(),
            KeyCode::Backspace if alt => entry.delete_word(),
            KeyCode::Char(c) => entry.insert(c.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace => entry.backspace(),
            KeyCode::Delete => entry.delete(),
            KeyCode::Left => entry.left(),
            KeyCode::Right => entry.right(),
            KeyCode::Home => entry.home(),
            KeyCode::End => entry.end(),
            KeyCode::Up => entry.up(&history),
            KeyCode::Down => entry.down(&history),
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
            KeyCode::Char(digit @ '1'..='9') if !ask.takes_text() && !ask.wants_words() => {
                let at = digit as usize - '1' as usize;
                if at < options {
                    self.asked.chosen = at;
                }
            }
            KeyCode::Char(letter @ ('y' | 'n')) if ask.is_yes_or_no() => {
                self.asked.chosen = usize::from(letter == 'n');
                let decided = self.asked.decide(ask, "");
                return Key::Taken(self.decide(decided));
            }
            KeyCode::Char(_) if ask.takes_reply() && !ask.wants_words() => {}
            _ => return Key::Other,
        }
        Key::Taken(None)
    }

    fn page(&self) -> isize {
        isize::try_from(self.drawn.1.saturating_sub(2).max(1)).unwrap_or(1)
    }
}
