//! A message as lines. They are made once, and again when the message or the screen changes.

use std::collections::{HashMap, HashSet};

use client::{HeldMessage, HeldPart};
use ratatui::text::{Line, Span};
use serde_json::Value;

use crate::words::{Palette, clean, one_line, wrap};
use crate::{markdown, tool};

/// The lines of one message, with an empty one after it.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) lines: Vec<Line<'static>>,
    /// Rows that open: their line here, and their part.
    pub(crate) rows: Vec<(usize, String)>,
}

/// Which rows are open.
#[derive(Debug, Default)]
pub(crate) struct Folds {
    pub(crate) all: bool,
    /// Those that are not as all are.
    pub(crate) other: HashSet<String>,
}

impl Folds {
    pub(crate) fn is_open(&self, part: &str) -> bool {
        self.all != self.other.contains(part)
    }

    pub(crate) fn toggle(&mut self, part: &str) {
        if !self.other.remove(part) {
            self.other.insert(part.to_owned());
        }
    }

    pub(crate) fn toggle_all(&mut self) {
        self.all = !self.all;
        self.other.clear();
    }
}

/// Blocks by message.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    made: HashMap<String, Block>,
    width: usize,
    has_names: bool,
}

impl Blocks {
    /// The lines of this message must be made again.
    pub(crate) fn forget(&mut self, message: &str) {
        self.made.remove(message);
    }

    pub(crate) fn forget_all(&mut self) {
        self.made.clear();
    }

    /// Makes what is missing, for a width.
    pub(crate) fn make(
        &mut self,
        messages: &[HeldMessage],
        width: usize,
        folds: &Folds,
        palette: Palette,
    ) {
        let has_names = has_several_authors(messages);
        if (self.width, self.has_names) != (width, has_names) {
            (self.width, self.has_names) = (width, has_names);
            self.made.clear();
        }
        for message in messages {
            if !self.made.contains_key(&message.id) {
                let author = author(message).filter(|_| has_names);
                let block = block(message, author.as_deref(), width, folds, palette);
                self.made.insert(message.id.clone(), block);
            }
        }
    }

    pub(crate) fn of(&self, message: &str) -> Option<&Block> {
        self.made.get(message)
    }
}

fn block(
    message: &HeldMessage,
    author: Option<&str>,
    width: usize,
    folds: &Folds,
    palette: Palette,
) -> Block {
    let mut block = Block::default();
    match message.role.as_str() {
        "user" => said(&mut block, &message.text(), author, width),
        "assistant" => {
            for part in message.parts() {
                add_part(&mut block, part, width, folds, palette);
            }
        }
        _ => {
            let note = Span::styled(format!("· {}", flat(&message.text())), Palette::quiet());
            block.lines.extend(wrap(&[note], width, 2));
        }
    }
    match (message.reason.as_deref(), &message.error) {
        (Some("error"), error) => {
            let why = error.as_deref().unwrap_or("the turn failed");
            let is_said = message.parts().iter().any(|part| part.kind() == "error");
            if !is_said {
                fail(&mut block, why, width, palette);
            }
        }
        (Some("canceled"), _) => block
            .lines
            .push(Line::styled("· cancelled", Palette::quiet())),
        _ => {}
    }
    if message.reverted {
        block.lines.push(Line::styled("· undone", Palette::quiet()));
    }
    if !block.lines.is_empty() {
        block.lines.push(Line::default());
    }
    block
}

/// What a person said.
pub(crate) fn said(block: &mut Block, text: &str, author: Option<&str>, width: usize) {
    let text = clean(text);
    let mut each = text.trim_end().split('\n');
    let first = match author {
        Some(author) => format!("> {author}: {}", each.next().unwrap_or_default()),
        None => format!("> {}", each.next().unwrap_or_default()),
    };
    let strong = |text: String| [Span::styled(text, Palette::strong())];
    block.lines.extend(wrap(&strong(first), width, 2));
    for line in each {
        block
            .lines
            .extend(wrap(&strong(format!("  {line}")), width, 2));
    }
}

fn has_several_authors(messages: &[HeldMessage]) -> bool {
    let said = messages.iter().filter(|message| message.role == "user");
    let mut authors = said.filter_map(author);
    authors
        .next()
        .is_some_and(|first| authors.any(|other| other != first))
}

fn author(message: &HeldMessage) -> Option<String> {
    let name = message.author.as_ref()?.get("name")?.as_str()?;
    Some(one_line(name, 24))
}

fn add_part(block: &mut Block, part: &HeldPart, width: usize, folds: &Folds, palette: Palette) {
    let is_open = folds.is_open(&part.part_id);
    let row = |block: &mut Block| {
        let at = block.lines.len();
        block.rows.push((at, part.part_id.clone()));
    };
    match part.kind() {
        "text" => {
            let lines = markdown::lines(part.text(), width, palette);
            block.lines.extend(lines);
        }
        "reasoning" if !part.text().trim().is_empty() => {
            row(block);
            let mark = if is_open { "▾" } else { "▸" };
            let words = part.text().split_whitespace().count();
            let line = format!("{mark} thinking ({words} words)");
            block.lines.push(Line::styled(line, Palette::quiet()));
            if is_open {
                let lines = markdown::lines(part.text(), width.saturating_sub(2), palette);
                add_below(block, lines);
            }
        }
        "tool" => {
            row(block);
            let line = tool::row(&part.content, is_open, width, palette);
            block.lines.push(line);
            if is_open {
                let lines = tool::opened(&part.content, width.saturating_sub(4), palette);
                add_below(block, lines);
            }
        }
        "error" => {
            let why = part.content["message"].as_str();
            fail(block, why.unwrap_or("something failed"), width, palette);
        }
        "image" | "screenshot" => {
            let name = part.content.get("name").and_then(Value::as_str);
            let line = format!("· a picture {}", one_line(name.unwrap_or_default(), 40));
            block.lines.push(Line::styled(line, Palette::quiet()));
        }
        "break" => block
            .lines
            .push(Line::styled("· a new conversation", Palette::quiet())),
        _ => {}
    }
}

fn add_below(block: &mut Block, lines: Vec<Line<'static>>) {
    for mut line in lines {
        line.spans.insert(0, Span::styled("  │ ", Palette::quiet()));
        block.lines.push(line);
    }
}

fn fail(block: &mut Block, why: &str, width: usize, palette: Palette) {
    let why = Span::styled(format!("! {}", flat(why)), palette.fails());
    block.lines.extend(wrap(&[why], width, 2));
}

fn flat(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}
