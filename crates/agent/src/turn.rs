//! One answer: its ids, its parts, its end.
//!
//! An adapter tells it what the agent says, under the agent's own names of parts (*keys*), in
//! whatever order and however often; it gives out happenings that are right in themselves: a turn
//! is opened before its parts, text has offsets, tools go forward only, and after the end comes
//! nothing.
//!
//! ```text
//!  text part:  (begun) ── delta ──► open ── whole ──► closed
//!                │                   │ torn: some of its deltas were lost,
//!                │                   ▼ so that none is passed on until it comes whole
//!                └── withdrawn ◄─────┘
//! ```

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use model::{Clock, Id};
use serde_json::{Value, json};

use crate::event::{self, Content, Happening, Reason, TextKind, Tool, ToolState, TurnError, Usage};
use crate::prompt::PromptId;

/// More text than this in one part, or more than four times as much in a turn, is cut off, and says
/// so. A part fits into one frame of the link.
pub const MOST_TEXT: usize = 512 << 10;
/// Arguments and results of tools.
pub const MOST_TOOL_DATA: usize = 256 << 10;
/// Whoever exceeds this is ended: [`Turn::is_full`].
pub const MOST_PARTS: usize = 4096;

const CUT: &str = "\n[cut: the text goes on]";
const INTERRUPTED: &str = "interrupted: the turn ended before the tool did";

pub struct Turn {
    id: Id<event::Turn>,
    prompt: PromptId,
    clock: Arc<dyn Clock>,
    opened: bool,
    done: bool,
    pieces: Vec<Piece>,
    by_key: HashMap<String, usize>,
    text_in_all: usize,
}

struct Piece {
    id: Id<event::Part>,
    body: Body,
    shown: bool,
}

enum Body {
    Text {
        kind: TextKind,
        text: String,
        state: TextState,
    },
    Tool(Tool),
    Withdrawn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextState {
    Begun,
    Open,
    Torn,
    Closed,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turn({}, {} parts)", self.id, self.pieces.len())
    }
}

/// What an agent says of a tool call.
#[derive(Debug, Clone)]
pub struct ToolUpdate {
    pub call: String,
    pub name: String,
    pub state: ToolState,
    pub args: Value,
    pub result: Option<String>,
    pub error: Option<String>,
    pub exit_code: Option<i64>,
    /// The key of the call that started the subagent which calls.
    pub under: Option<String>,
}

impl Turn {
    pub fn new(prompt: PromptId, clock: Arc<dyn Clock>) -> Turn {
        Turn {
            id: Id::new(&*clock),
            prompt,
            clock,
            opened: false,
            done: false,
            pieces: Vec::new(),
            by_key: HashMap::new(),
            text_in_all: 0,
        }
    }

    pub fn id(&self) -> Id<event::Turn> {
        self.id
    }

    /// A text part exists, and nothing of it is known yet. Fixes its place among the others.
    pub fn begin(&mut self, key: &str, kind: TextKind) {
        self.text_piece(key, kind, TextState::Begun);
    }

    /// A text part exists, and some of its deltas were missed.
    pub fn begin_torn(&mut self, key: &str, kind: TextKind) {
        if let Some(index) = self.text_piece(key, kind, TextState::Torn)
            && let Body::Text { state, .. } = &mut self.pieces[index].body
            && *state != TextState::Closed
        {
            *state = TextState::Torn;
        }
    }

    pub fn delta(&mut self, key: &str, kind: TextKind, more: &str, out: &mut Vec<Happening>) {
        if self.done || more.is_empty() {
            return;
        }
        let Some(index) = self.text_piece(key, kind, TextState::Begun) else {
            return;
        };
        let allowed = self.allowance(index, more);
        let takes_more = matches!(&self.pieces[index].body,
            Body::Text { text, state, .. } if !text.ends_with(CUT)
                && matches!(state, TextState::Begun | TextState::Open));
        if !takes_more {
            return;
        }
        // Deltas are in no log: its place is, before the first of them, so that a tool which is told
        // of while the text is still being said comes after it.
        self.hold_places(index + 1, out);
        let piece = &mut self.pieces[index];
        let Body::Text { text, state, kind } = &mut piece.body else {
            return;
        };
        *state = TextState::Open;
        let offset = text.len() as u64;
        let mut allowed = allowed.to_owned();
        if allowed.len() < more.len() {
            allowed.push_str(CUT);
        }
        text.push_str(&allowed);
        self.text_in_all += allowed.len();
        let happening = Happening::PartDelta {
            turn: self.id,
            part: piece.id,
            kind: *kind,
            offset,
            text: allowed,
        };
        self.emit(happening, out);
    }

    /// The part as it will stay.
    pub fn whole(&mut self, key: &str, kind: TextKind, full: &str, out: &mut Vec<Happening>) {
        if self.done {
            return;
        }
        let Some(index) = self.text_piece(key, kind, TextState::Begun) else {
            return;
        };
        let Body::Text { text, state, .. } = &self.pieces[index].body else {
            return;
        };
        if full.is_empty() {
            // An empty part is nothing to show; one that was shown and turns out empty goes.
            return self.withdraw_piece(index, out);
        }
        let others = self.text_in_all - text.len();
        let mut kept =
            cut_at(full, MOST_TEXT.min((4 * MOST_TEXT).saturating_sub(others))).to_owned();
        if kept.len() < full.len() {
            kept.push_str(CUT);
        }
        if *state == TextState::Closed && *text == kept {
            return;
        }
        self.text_in_all = others + kept.len();
        if let Body::Text { text, state, .. } = &mut self.pieces[index].body {
            *text = kept;
            *state = TextState::Closed;
        }
        self.emit_piece(index, out);
    }

    /// From now on it is not known what of the open text was missed.
    pub fn tear(&mut self) {
        for piece in &mut self.pieces {
            if let Body::Text { state, .. } = &mut piece.body
                && *state != TextState::Closed
            {
                *state = TextState::Torn;
            }
        }
    }

    pub fn withdraw(&mut self, key: &str, out: &mut Vec<Happening>) {
        if let Some(index) = self.by_key.get(key).copied() {
            self.withdraw_piece(index, out);
        }
    }

    /// Text that was begun and not closed: an attempt that is made again will not go on with it.
    pub fn withdraw_open_text(&mut self, out: &mut Vec<Happening>) {
        for index in 0..self.pieces.len() {
            let is_open = matches!(&self.pieces[index].body,
                Body::Text { state, .. } if *state != TextState::Closed);
            if is_open {
                self.withdraw_piece(index, out);
            }
        }
    }

    /// Everything that was shown: another model begins anew.
    pub fn withdraw_all(&mut self, out: &mut Vec<Happening>) {
        for index in 0..self.pieces.len() {
            self.withdraw_piece(index, out);
        }
    }

    pub fn tool(&mut self, key: &str, update: ToolUpdate, out: &mut Vec<Happening>) {
        if self.done {
            return;
        }
        let under = update
            .under
            .as_ref()
            .and_then(|key| self.by_key.get(key))
            .map(|index| self.pieces[*index].id);
        let tool = Tool {
            call: update.call,
            name: update.name,
            state: update.state,
            args: cut_value(update.args),
            result: update.result.map(|text| cut_text(&text)),
            error: update.error.map(|text| cut_text(&text)),
            exit_code: update.exit_code,
            under,
        };
        let Some(index) = self.by_key.get(key).copied() else {
            if self.pieces.len() < MOST_PARTS {
                let index = self.add(key, Body::Tool(tool));
                self.emit_piece(index, out);
            }
            return;
        };
        let Body::Tool(known) = &mut self.pieces[index].body else {
            return;
        };
        let goes_forward = known.state.is_open() && tool.state >= known.state;
        let changed = tool.state != known.state || tool.args != known.args;
        if goes_forward && changed {
            *known = tool;
            self.emit_piece(index, out);
        }
    }

    /// Closes what is open, then the turn. A second call does nothing.
    pub fn finish(
        &mut self,
        reason: Reason,
        error: Option<TurnError>,
        usage: Usage,
        out: &mut Vec<Happening>,
    ) {
        if self.done {
            return;
        }
        for index in 0..self.pieces.len() {
            self.close_piece(index, out);
        }
        let happening = Happening::TurnDone {
            turn: self.id,
            prompt: self.prompt.clone(),
            reason,
            text: self.text(),
            error,
            usage,
        };
        self.emit(happening, out);
        self.done = true;
    }

    /// The text parts, joined in order.
    pub fn text(&self) -> String {
        let texts = self.pieces.iter().filter_map(|piece| match &piece.body {
            Body::Text { kind, text, .. } if *kind == TextKind::Text && !text.is_empty() => {
                Some(text.as_str())
            }
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// Whether a part of that key was ever begun.
    pub fn knows(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    pub fn is_done(&self) -> bool {
        self.done
    }

    pub fn is_open(&self) -> bool {
        self.opened && !self.done
    }

    pub fn is_full(&self) -> bool {
        self.pieces.len() >= MOST_PARTS
    }

    pub fn has_text(&self) -> bool {
        self.pieces.iter().any(
            |piece| matches!(&piece.body, Body::Text { kind: TextKind::Text, text, .. } if !text.is_empty()),
        )
    }

    /// Whether a tool got as far as doing something. What it did cannot be undone by asking again.
    pub fn has_run_a_tool(&self) -> bool {
        self.tools().any(|tool| tool.state != ToolState::Pending)
    }

    pub fn has_tools(&self) -> bool {
        self.tools().next().is_some()
    }

    /// The name of a tool that runs, the last one of several.
    pub fn running_tool(&self) -> Option<&str> {
        let running = self.tools().filter(|tool| tool.state == ToolState::Running);
        running.last().map(|tool| tool.name.as_str())
    }

    /// Keys of text parts that are not closed.
    pub fn unsettled_text(&self) -> Vec<String> {
        self.by_key
            .iter()
            .filter(|(_, index)| {
                matches!(&self.pieces[**index].body,
                    Body::Text { state, .. } if *state != TextState::Closed)
            })
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Parts that may still change, whole.
    pub fn open_parts(&self) -> Vec<(Id<event::Part>, Content)> {
        let open = self.pieces.iter().filter(|piece| match &piece.body {
            Body::Text { state, text, .. } => *state != TextState::Closed && !text.is_empty(),
            Body::Tool(tool) => tool.state.is_open(),
            Body::Withdrawn => false,
        });
        open.filter_map(|piece| Some((piece.id, content(&piece.body)?)))
            .collect()
    }

    fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.pieces.iter().filter_map(|piece| match &piece.body {
            Body::Tool(tool) => Some(tool),
            _ => None,
        })
    }

    fn add(&mut self, key: &str, body: Body) -> usize {
        let id = Id::new(&*self.clock);
        self.pieces.push(Piece {
            id,
            body,
            shown: false,
        });
        self.by_key.insert(key.to_owned(), self.pieces.len() - 1);
        self.pieces.len() - 1
    }

    /// The text part of that key, made if there is room for it.
    fn text_piece(&mut self, key: &str, kind: TextKind, state: TextState) -> Option<usize> {
        if self.done {
            return None;
        }
        if let Some(index) = self.by_key.get(key).copied() {
            return matches!(self.pieces[index].body, Body::Text { .. }).then_some(index);
        }
        let body = Body::Text {
            kind,
            text: String::new(),
            state,
        };
        (self.pieces.len() < MOST_PARTS).then(|| self.add(key, body))
    }

    fn allowance<'a>(&self, index: usize, more: &'a str) -> &'a str {
        let Body::Text { text, .. } = &self.pieces[index].body else {
            return "";
        };
        let in_part = MOST_TEXT.saturating_sub(text.len());
        let in_all = (4 * MOST_TEXT).saturating_sub(self.text_in_all);
        cut_at(more, in_part.min(in_all))
    }

    fn close_piece(&mut self, index: usize, out: &mut Vec<Happening>) {
        match &mut self.pieces[index].body {
            Body::Text { state, text, .. } if *state != TextState::Closed => {
                if text.is_empty() {
                    return self.withdraw_piece(index, out);
                }
                *state = TextState::Closed;
            }
            Body::Tool(tool) if tool.state.is_open() => {
                tool.state = ToolState::Error;
                tool.error = Some(INTERRUPTED.to_owned());
            }
            _ => return,
        }
        self.emit_piece(index, out);
    }

    fn withdraw_piece(&mut self, index: usize, out: &mut Vec<Happening>) {
        let piece = &mut self.pieces[index];
        if let Body::Text { text, .. } = &piece.body {
            self.text_in_all -= text.len();
        }
        piece.body = Body::Withdrawn;
        if std::mem::take(&mut piece.shown) {
            let happening = Happening::PartRemoved {
                turn: self.id,
                part: piece.id,
            };
            self.emit(happening, out);
        }
    }

    fn emit_piece(&mut self, index: usize, out: &mut Vec<Happening>) {
        self.hold_places(index, out);
        let piece = &mut self.pieces[index];
        piece.shown = true;
        if let Some(content) = content(&piece.body) {
            let happening = Happening::PartWhole {
                turn: self.id,
                part: piece.id,
                content,
            };
            self.emit(happening, out);
        }
    }

    /// A reader puts parts in the order in which they are first whole. Text among the first `count`
    /// that is not known yet is shown empty, so that it comes where it belongs.
    fn hold_places(&mut self, count: usize, out: &mut Vec<Happening>) {
        for index in 0..count {
            let piece = &mut self.pieces[index];
            let waits = matches!(&piece.body,
                Body::Text { state, .. } if *state != TextState::Closed);
            if waits && !std::mem::replace(&mut piece.shown, true) {
                let (part, content) = (piece.id, content(&piece.body));
                let turn = self.id;
                if let Some(content) = content {
                    self.emit(
                        Happening::PartWhole {
                            turn,
                            part,
                            content,
                        },
                        out,
                    );
                }
            }
        }
    }

    fn emit(&mut self, happening: Happening, out: &mut Vec<Happening>) {
        if !self.opened {
            self.opened = true;
            out.push(Happening::TurnOpened {
                turn: self.id,
                prompt: self.prompt.clone(),
            });
        }
        out.push(happening);
    }
}

fn content(body: &Body) -> Option<Content> {
    match body {
        Body::Text { kind, text, .. } => Some(match kind {
            TextKind::Text => Content::Text { text: text.clone() },
            TextKind::Reasoning => Content::Reasoning { text: text.clone() },
        }),
        Body::Tool(tool) => Some(Content::Tool(tool.clone())),
        Body::Withdrawn => None,
    }
}

/// The beginning of it, at most so many bytes, characters left whole.
pub(crate) fn cut_at(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

fn cut_text(text: &str) -> String {
    if text.len() <= MOST_TOOL_DATA {
        return text.to_owned();
    }
    format!(
        "{}\n[cut: {} bytes in all]",
        cut_at(text, MOST_TOOL_DATA),
        text.len()
    )
}

fn cut_value(value: Value) -> Value {
    let text = value.to_string();
    if text.len() <= MOST_TOOL_DATA {
        return value;
    }
    json!({ "cut": cut_at(&text, MOST_TOOL_DATA), "bytes": text.len() })
}

#[cfg(test)]
mod tests;
