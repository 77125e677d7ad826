//! What a person sees and does, without a terminal and without a server.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod asked;

use std::time::Duration;

use client::Frame;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use nacre_attach::{Deed, Link, Palette, Screen, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};
use wire::link::Answer;

/// Somebody at a screen of 60 by 20.
struct Seat {
    screen: Screen,
    terminal: Terminal<TestBackend>,
    seq: u64,
}

impl Seat {
    fn new() -> Self {
        let mut seat = Self {
            screen: Screen::new(Palette::plain()),
            terminal: Terminal::new(TestBackend::new(60, 20)).unwrap(),
            seq: 9,
        };
        seat.screen.line_is(Link::Online);
        seat.tell(
            &json!({"type": "init", "seq": 9, "messages": [], "runtime": {}, "session": {
            "id": "ses_1", "org_id": "org_1", "title": "pearls", "status": "running",
            "client_status": "running", "type": "coding", "channel": "cli", "provider": "local",
            "agent": "opencode", "model": "demo/demo", "generation": 1,
            "created_at": "2026-01-01T00:00:00Z", "last_active_at": "2026-01-01T00:00:00Z",
            "last_seq": 9}}),
        );
        seat
    }

    fn tell(&mut self, frame: &Value) {
        self.screen.hear(&Frame::read(&frame.to_string()).unwrap());
    }

    /// The same with the next number.
    fn log(&mut self, mut frame: Value) {
        self.seq += 1;
        frame["seq"] = self.seq.into();
        self.tell(&frame);
    }

    fn asked(&mut self, prompt: &str, text: &str) {
        self.log(json!({"type": "message", "message_id": format!("u-{prompt}"), "role": "user",
            "channel": "main", "prompt_id": prompt,
            "parts": [{"part_id": format!("t-{prompt}"), "content": {"kind": "text", "text": text}}]}));
        self.log(json!({"type": "prompt", "id": prompt, "status": "accepted"}));
        self.log(
            json!({"type": "message", "message_id": format!("a-{prompt}"), "channel": "main",
            "prompt_id": prompt}),
        );
    }

    fn part(&mut self, prompt: &str, part: &str, content: &Value) {
        self.log(
            json!({"type": "part", "message_id": format!("a-{prompt}"), "part_id": part,
            "content": content}),
        );
    }

    fn done(&mut self, prompt: &str) {
        self.log(
            json!({"type": "message.done", "message_id": format!("a-{prompt}"),
            "reason": "end_turn", "usage": {"input_tokens": 1200, "output_tokens": 340,
            "cost_micros": 5100}}),
        );
        self.log(json!({"type": "prompt", "id": prompt, "status": "finished"}));
    }

    fn shown(&mut self) -> String {
        self.terminal
            .draw(|frame| draw(frame, &mut self.screen))
            .unwrap();
        let buffer = self.terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(buffer.area.width));
        let rows = rows.map(|row| {
            let row: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
            row.trim_end().to_owned()
        });
        rows.collect::<Vec<_>>().join("\n")
    }

    fn press(&mut self, code: KeyCode) -> Option<Deed> {
        self.press_with(code, KeyModifiers::NONE)
    }

    fn control(&mut self, letter: char) -> Option<Deed> {
        self.press_with(KeyCode::Char(letter), KeyModifiers::CONTROL)
    }

    fn press_with(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Option<Deed> {
        self.shown();
        self.screen
            .typed(&Event::Key(KeyEvent::new(code, modifiers)))
    }

    fn write(&mut self, text: &str) {
        for c in text.chars() {
            assert_eq!(self.press(KeyCode::Char(c)), None);
        }
    }
}

fn tool(status: &str) -> Value {
    json!({"kind": "tool", "call_id": "c", "name": "bash", "status": status, "exit_code": 0,
        "args": {"command": "cat pearl.txt"}, "result": "grit and\nnacre\n"})
}

fn text(text: &str) -> Value {
    json!({"kind": "text", "text": text})
}

#[test]
fn a_conversation_is_read_from_top_to_bottom() {
    let mut seat = Seat::new();
    seat.asked("p1", "what is in pearl.txt?");
    seat.part(
        "p1",
        "r",
        &json!({"kind": "reasoning", "text": "I should look."}),
    );
    seat.part("p1", "c", &tool("completed"));
    seat.part("p1", "t", &text("It has **grit and nacre**:\n\n```\ngrit and\nnacre\n```\nThat is all there is to say about it, in a line that is long."));
    seat.done("p1");
    insta::assert_snapshot!(seat.shown());
}

#[test]
fn an_answer_grows_where_it_stands() {
    let mut seat = Seat::new();
    seat.asked("p1", "say pearl");
    for (offset, piece) in [(0, "pea"), (3, "rl")] {
        seat.tell(
            &json!({"type": "part.delta", "message_id": "a-p1", "part_id": "t",
            "offset": offset, "text": piece}),
        );
    }
    assert!(seat.shown().contains("\npearl\n"), "{}", seat.shown());
    // The same from the log changes nothing.
    let before = seat.shown();
    seat.part("p1", "t", &text("pearl"));
    assert_eq!(seat.shown(), before);
}

#[test]
fn a_row_opens_and_closes() {
    let mut seat = Seat::new();
    seat.asked("p1", "look");
    seat.part("p1", "c", &tool("completed"));
    seat.done("p1");
    assert!(!seat.shown().contains("grit"));
    seat.press(KeyCode::BackTab);
    seat.press(KeyCode::Enter);
    insta::assert_snapshot!(seat.shown());
    seat.press(KeyCode::Enter);
    assert!(!seat.shown().contains("grit"));
    seat.control('o');
    assert!(seat.shown().contains("grit"));
}

#[test]
fn a_prompt_of_several_lines_is_typed_and_sent() {
    let mut seat = Seat::new();
    seat.write("one");
    seat.press_with(KeyCode::Enter, KeyModifiers::ALT);
    seat.write("two");
    insta::assert_snapshot!(seat.shown());
    let prompt = seat.press(KeyCode::Enter);
    assert_eq!(prompt, Some(Deed::Prompt("one\ntwo".to_owned())));
    seat.screen.was_sent("p1".to_owned(), "one\ntwo".to_owned());
    assert!(seat.shown().contains("· sent"));
    seat.asked("p1", "one\ntwo");
    assert!(!seat.shown().contains("· sent"));
    // What was asked comes back.
    seat.press(KeyCode::Up);
    assert_eq!(
        seat.press(KeyCode::Enter),
        Some(Deed::Prompt("one\ntwo".to_owned()))
    );
}

#[test]
fn a_paste_is_no_prompt_until_somebody_sends_it() {
    let mut seat = Seat::new();
    assert_eq!(seat.screen.typed(&Event::Paste("a\nb\n".into())), None);
    assert_eq!(
        seat.press(KeyCode::Enter),
        Some(Deed::Prompt("a\nb\n".into()))
    );
}

#[test]
fn a_question_is_answered_in_place() {
    let mut seat = Seat::new();
    seat.asked("p1", "choose");
    seat.log(
        json!({"type": "question", "question_id": "q", "channel": "main", "items": [
        {"header": "Shell", "text": "Which one?", "options": [
            {"label": "round", "description": "as most are"}, {"label": "flat"}]}]}),
    );
    seat.press(KeyCode::Down);
    insta::assert_snapshot!(seat.shown());
    let answered = seat.press(KeyCode::Enter);
    assert_eq!(
        answered,
        Some(Deed::Answer {
            question: "q".to_owned(),
            item: 0,
            answer: Some(Answer::Text("flat".to_owned())),
        })
    );
    assert!(!seat.shown().contains("Which one?"));
}

#[test]
fn a_permission_is_given_by_a_letter() {
    let mut seat = Seat::new();
    seat.log(
        json!({"type": "permission", "id": "m", "channel": "main", "tool": "bash",
        "targets": ["rm -rf \u{1b}[2Jtarget"]}),
    );
    insta::assert_snapshot!(seat.shown());
    assert_eq!(
        seat.press(KeyCode::Char('y')),
        Some(Deed::Permission {
            id: "m".to_owned(),
            allow: true
        })
    );
    // It is not given twice.
    assert_eq!(seat.press(KeyCode::Char('y')), None);
}

#[test]
fn control_c_cancels_the_turn_and_twice_leaves() {
    let mut seat = Seat::new();
    seat.asked("p1", "slow");
    assert_eq!(seat.control('c'), Some(Deed::Cancel));
    assert!(seat.shown().contains("Ctrl-C again leaves"));
    // Somebody who goes on typing stays.
    seat.write("x");
    assert_eq!(seat.control('c'), Some(Deed::Cancel));
    assert_eq!(seat.control('c'), Some(Deed::Leave));
}

#[test]
fn a_second_control_c_long_after_the_first_is_a_first_one() {
    let mut seat = Seat::new();
    assert_eq!(seat.control('c'), None);
    seat.screen.tick(Duration::from_secs(5));
    assert!(!seat.shown().contains("again leaves"));
    assert_eq!(seat.control('c'), None);
    assert_eq!(seat.control('c'), Some(Deed::Leave));
}

#[test]
fn control_c_between_turns_empties_the_line_first() {
    let mut seat = Seat::new();
    seat.write("never mind");
    assert_eq!(seat.control('c'), None);
    assert!(!seat.shown().contains("never mind"));
    assert_eq!(seat.control('c'), Some(Deed::Leave));
}

#[test]
fn what_is_looked_at_stays_while_more_is_said() {
    let mut seat = Seat::new();
    seat.asked("p1", "count");
    let lines: Vec<String> = (1..=60).map(|line| format!("line {line}")).collect();
    seat.part("p1", "t", &text(&lines.join("\n")));
    assert!(seat.shown().contains("line 60"));
    assert_eq!(seat.press(KeyCode::PageUp), None);
    let above = seat.shown();
    assert!(
        !above.contains("line 60") && above.contains("lines below"),
        "{above}"
    );
    seat.tell(
        &json!({"type": "part.delta", "message_id": "a-p1", "part_id": "u", "offset": 0,
        "text": "more"}),
    );
    let first = |shown: &str| shown.lines().nth(1).unwrap().to_owned();
    assert_eq!(first(&seat.shown()), first(&above));
    seat.press(KeyCode::Esc);
    assert!(seat.shown().contains("more"));
}

#[test]
fn older_messages_are_asked_for_at_the_top_once() {
    let mut seat = Seat::new();
    seat.asked("p1", "hello");
    assert_eq!(seat.press(KeyCode::PageUp), Some(Deed::Older));
    assert_eq!(seat.press(KeyCode::PageUp), None);
    let older = json!([{"id": "m0", "position": 2, "role": "user", "channel": "main",
        "created_at": "2026-01-01T00:00:00Z",
        "parts": [{"part_id": "x", "content": text("long ago")}]}]);
    seat.screen
        .add_older(serde_json::from_value(older).unwrap());
    assert!(seat.shown().contains("> long ago"));
}

#[test]
fn a_lost_line_is_said_and_heals() {
    let mut seat = Seat::new();
    seat.asked("p1", "hello");
    let before = seat.shown();
    seat.screen.line_is(Link::Offline {
        why: "cannot reach http://127.0.0.1:7070".to_owned(),
        until: Duration::from_secs(5),
    });
    seat.screen.tick(Duration::from_secs(2));
    assert!(
        seat.shown().contains("offline, again in 3 s: cannot reach"),
        "{}",
        seat.shown()
    );
    seat.screen.tick(Duration::ZERO);
    seat.screen.line_is(Link::Online);
    assert_eq!(seat.shown(), before);
}

#[test]
fn a_start_tells_its_phase_and_a_failure_why() {
    let mut seat = Seat::new();
    seat.log(json!({"type": "status", "status": "resuming",
        "phase": {"name": "clone", "state": "started"}}));
    assert!(seat.shown().contains("resuming: clone"));
    seat.log(json!({"type": "status", "status": "error", "message": "no disk"}));
    assert!(seat.shown().contains("error: no disk"));
}

#[test]
fn every_size_of_a_window_is_drawn() {
    let mut seat = Seat::new();
    seat.asked("p1", "真珠 and a rather long question");
    seat.part("p1", "c", &tool("running"));
    seat.part(
        "p1",
        "t",
        &text("# 真珠\n- pearls\n\n```\nlong code line, longer than most\n```"),
    );
    seat.log(
        json!({"type": "question", "question_id": "q", "channel": "main", "items": [
        {"text": "Which one?", "options": [{"label": "round"}, {"label": "flat"}]}]}),
    );
    seat.write("typed");
    for width in 1..40 {
        for height in 1..16 {
            let mut small = Terminal::new(TestBackend::new(width, height)).unwrap();
            small.draw(|frame| draw(frame, &mut seat.screen)).unwrap();
        }
    }
}
