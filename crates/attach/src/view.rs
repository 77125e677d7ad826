//! Shows a screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use unicode_width::UnicodeWidthStr as _;
use wire::v1::ClientStatus;

use crate::ask::Ask;
use crate::blocks::{Block, said};
use crate::screen::{Link, Place, Screen};
use crate::words::{Palette, clean, count, money, one_line, wrap};

/// Of the text that is being typed.
const MOST_ROWS: usize = 8;

pub fn draw(frame: &mut Frame<'_>, screen: &mut Screen) {
    let area = frame.area();
    frame.render_widget(Clear, area);
    if area.width < 20 || area.height < 6 {
        frame.render_widget(Paragraph::new("a larger window, please"), area);
        return;
    }
    let ask = screen.asks();
    let width = usize::from(area.width);
    let tallest = usize::from(match &ask {
        // Nobody should approve what they cannot read.
        Some(Ask::Action { .. }) => area.height.saturating_sub(6).max(area.height / 2),
        _ => area.height / 2,
    });
    let asked = ask.as_ref().map(|ask| asked(screen, ask, width, tallest));
    let asked = asked.unwrap_or_default();
    let is_hidden = ask.as_ref().is_some_and(Ask::is_hidden);
    let (rows, cursor) = typed(screen, is_hidden, width.saturating_sub(3));
    let most = MOST_ROWS.min(usize::from(area.height) / 3).max(1);
    let entry = rows.len().min(most);
    let [title, conversation, question, rule, typing, status] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Max(u16::try_from(asked.len().min(tallest)).unwrap_or(u16::MAX)),
        Constraint::Length(1),
        Constraint::Length(u16::try_from(entry).unwrap_or(1)),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(head(screen, width)), title);
    talk(frame, screen, conversation);
    frame.render_widget(Paragraph::new(asked), question);
    let line = Line::styled("─".repeat(width), Palette::quiet());
    frame.render_widget(Paragraph::new(line), rule);
    let first = cursor.0.saturating_sub(entry - 1);
    let shown = rows.iter().skip(first).take(entry).enumerate();
    let shown = shown.map(|(at, row)| {
        let mark = if first + at == 0 { "> " } else { "  " };
        Line::from(vec![
            Span::styled(mark, Palette::strong()),
            Span::raw(row.clone()),
        ])
    });
    let hint = placeholder(screen, ask.as_ref());
    let shown: Vec<Line<'_>> = if screen.entry().is_empty() {
        vec![Line::from(vec![
            Span::styled("> ", Palette::strong()),
            Span::styled(hint, Palette::quiet()),
        ])]
    } else {
        shown.collect()
    };
    frame.render_widget(Paragraph::new(shown), typing);
    let column = u16::try_from(cursor.1 + 2).unwrap_or(u16::MAX);
    let row = u16::try_from(cursor.0 - first).unwrap_or(0);
    frame.set_cursor_position(Position::new(
        typing.x + column.min(typing.width.saturating_sub(1)),
        typing.y + row,
    ));
    frame.render_widget(Paragraph::new(foot(screen, width)), status);
}

/// Rows of what is typed, and where the cursor is in them.
fn typed(screen: &mut Screen, is_hidden: bool, width: usize) -> (Vec<String>, (usize, usize)) {
    if is_hidden {
        let (dots, column) = screen.entry().dots(width);
        return (vec![dots], (0, column));
    }
    screen.entry().layout(width)
}

fn placeholder(screen: &Screen, ask: Option<&Ask>) -> &'static str {
    match ask {
        Some(ask) if ask.is_hidden() && ask.wants_words() => {
            "type the value (it is not shown), Esc: not now"
        }
        Some(ask) if ask.wants_words() => "why not? The agent reads it",
        Some(ask) if ask.can_wait() => "choose above, then Enter; Esc: not now",
        Some(ask) if ask.takes_text() => "type an answer, or choose one above",
        Some(_) => "choose above, then Enter",
        None if screen.focus.is_some() => "Enter opens the row, Esc goes back",
        None => "ask the agent",
    }
}

fn head(screen: &Screen, width: usize) -> Line<'static> {
    let title = screen.transcript.title.as_deref().unwrap_or("a session");
    let watchers = screen.transcript.watchers.len();
    let beside = if watchers > 1 {
        format!("{watchers} are here")
    } else {
        String::new()
    };
    let title = one_line(title, width.saturating_sub(beside.width() + 2));
    sides(
        vec![Span::styled(title, Palette::strong())],
        Span::styled(beside, Palette::quiet()),
        width,
    )
}

/// The conversation, as much as fits.
fn talk(frame: &mut Frame<'_>, screen: &mut Screen, area: Rect) {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let messages = screen.transcript.messages();
    screen
        .blocks
        .make(messages, width, &screen.folds, screen.palette);
    let mut waiting = Block::default();
    for (_, content) in &screen.sent {
        said(&mut waiting, content, None, width);
        waiting
            .lines
            .push(Line::styled("  · sent", Palette::quiet()));
    }
    if messages.is_empty() && screen.sent.is_empty() {
        waiting.lines.extend(welcome(screen, width));
    }
    let blocks: Vec<&Block> = messages
        .iter()
        .filter_map(|message| screen.blocks.of(&message.id))
        .chain([&waiting])
        .collect();
    let total: usize = blocks.iter().map(|block| block.lines.len()).sum();
    let last = total.saturating_sub(height);
    let top = match screen.place {
        Place::End => last,
        Place::Line(line) => line.min(last),
    };
    let mut shown = Vec::with_capacity(height);
    let mut at = 0;
    for block in blocks {
        let end = at + block.lines.len();
        if end > top && at < top + height {
            for (place, line) in block.lines.iter().enumerate() {
                if (top..top + height).contains(&(at + place)) {
                    shown.push(focused(screen, block, place, line));
                }
            }
        }
        at = end;
    }
    frame.render_widget(Paragraph::new(shown), area);
    screen.drawn = (total, height);
}

fn focused(screen: &Screen, block: &Block, place: usize, line: &Line<'static>) -> Line<'static> {
    let row = block.rows.iter().find(|(at, _)| *at == place);
    let is_focused = row.is_some_and(|(_, part)| screen.focus.as_ref() == Some(part));
    if is_focused {
        line.clone().style(Palette::chosen())
    } else {
        line.clone()
    }
}

fn welcome(screen: &Screen, width: usize) -> Vec<Line<'static>> {
    let text = match &screen.link {
        Link::Connecting => "connecting …",
        _ => "Nothing was said yet. Ask something below.",
    };
    wrap(&[Span::styled(text, Palette::quiet())], width, 0)
}

/// What is asked, cut so that all there is to choose from fits too.
fn asked(screen: &Screen, ask: &Ask, width: usize, tallest: usize) -> Vec<Line<'static>> {
    let palette = screen.palette;
    let mut lines = Vec::new();
    let header = ask.item().map_or("", |item| item.header.as_str());
    let text = match header {
        "" => clean(&ask.text()),
        header => clean(&format!("{header}: {}", ask.text())),
    };
    for (at, line) in text.split('\n').enumerate() {
        let mark = if at == 0 { "? " } else { "  " };
        let span = Span::styled(format!("{mark}{line}"), palette.asks());
        lines.extend(wrap(&[span], width, 2));
    }
    let options = ask.options();
    let room = tallest.saturating_sub(options.len()).max(1);
    if lines.len() > room {
        let more = format!("  … {} more lines", lines.len() - (room - 1));
        lines.truncate(room - 1);
        lines.push(Line::styled(more, palette.fails()));
    }
    for (at, (label, means)) in options.into_iter().enumerate() {
        let is_chosen = at == screen.asked.chosen;
        let mark = if ask.takes_several() && screen.asked.marked.contains(&at) {
            "[x]"
        } else if ask.takes_several() {
            "[ ]"
        } else {
            ""
        };
        let label = one_line(
            &format!("{} {mark} {label}", at + 1),
            width.saturating_sub(6),
        );
        let means = one_line(&means, width.saturating_sub(label.width() + 8));
        let style = if is_chosen {
            Palette::chosen()
        } else {
            Palette::text()
        };
        lines.push(Line::from(vec![
            Span::raw(if is_chosen { "  › " } else { "    " }),
            Span::styled(label, style),
            Span::styled(format!("  {means}"), Palette::quiet()),
        ]));
    }
    lines
}

/// How the session is, what it cost, and what to press.
fn foot(screen: &Screen, width: usize) -> Line<'static> {
    let palette = screen.palette;
    if let Some(notice) = &screen.notice {
        return Line::styled(one_line(notice, width), palette.asks());
    }
    if let Link::Offline { why, until } = &screen.link {
        let left = until.saturating_sub(screen.now).as_secs();
        let text = format!("offline, again in {left} s: {why}");
        return Line::styled(one_line(&text, width), palette.fails());
    }
    let mut spans = standing(screen);
    let usage = screen.transcript.usage();
    let mut facts = Vec::new();
    let model = screen.transcript.session.as_ref();
    facts.extend(model.and_then(|session| session.model.clone()));
    if usage.input_tokens + usage.output_tokens > 0 {
        facts.push(format!(
            "{} in, {} out",
            count(usage.input_tokens + usage.cache_read_tokens),
            count(usage.output_tokens)
        ));
    }
    if usage.cost_micros > 0 {
        facts.push(money(usage.cost_micros));
    }
    for fact in facts {
        spans.push(Span::styled(
            format!(" · {}", clean(&fact)),
            Palette::quiet(),
        ));
    }
    let (total, height) = screen.drawn;
    let help = match screen.place {
        Place::Line(line) => format!(
            "{} lines below, Esc: end",
            total.saturating_sub(line + height)
        ),
        Place::End if screen.is_busy() => "Ctrl-C cancels".to_owned(),
        Place::End => "Tab: rows  Ctrl-C twice: leave".to_owned(),
    };
    sides(spans, Span::styled(help, Palette::quiet()), width)
}

fn standing(screen: &Screen) -> Vec<Span<'static>> {
    let palette = screen.palette;
    let Some(standing) = &screen.transcript.status else {
        return vec![Span::styled("connecting", Palette::quiet())];
    };
    let (word, style) = match standing.status {
        ClientStatus::Creating => ("starting", palette.asks()),
        ClientStatus::Resuming => ("resuming", palette.asks()),
        ClientStatus::Migrating => ("moving", palette.asks()),
        ClientStatus::Running => ("running", palette.works()),
        ClientStatus::Paused => ("paused", Palette::quiet()),
        ClientStatus::Suspended => ("suspended", palette.fails()),
        ClientStatus::Degraded => ("degraded", palette.fails()),
        ClientStatus::Stopped => ("stopped", Palette::quiet()),
        ClientStatus::Error => ("error", palette.fails()),
        ClientStatus::Unknown => ("as a newer server says", Palette::quiet()),
    };
    let mut spans = vec![Span::styled(word, style)];
    let is_starting = matches!(
        standing.status,
        ClientStatus::Creating | ClientStatus::Resuming | ClientStatus::Migrating
    );
    if let Some(phase) = standing.phase.as_ref().filter(|_| is_starting) {
        spans.push(Span::raw(format!(": {}", one_line(&phase.name, 24))));
    } else if let Some(message) = standing.message.as_ref().filter(|_| !is_starting) {
        spans.push(Span::raw(format!(": {}", one_line(message, 60))));
    }
    let busy = screen.busy_for();
    match (screen.agent(), busy) {
        (Some(agent), Some(seconds)) => {
            spans.push(Span::raw(format!(" · {agent}, {seconds} s")));
        }
        (None, Some(seconds)) => spans.push(Span::raw(format!(" · waiting, {seconds} s"))),
        _ => {}
    }
    spans
}

/// One at each end, as far as both fit.
fn sides(mut left: Vec<Span<'static>>, right: Span<'static>, width: usize) -> Line<'static> {
    let used: usize = left.iter().map(Span::width).sum();
    let room = width.saturating_sub(used);
    if right.width() > 0 && right.width() + 2 <= room {
        left.push(Span::raw(" ".repeat(room - right.width())));
        left.push(right);
    }
    Line::from(left)
}
