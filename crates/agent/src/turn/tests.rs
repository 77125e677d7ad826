use model::SystemClock;
use proptest::prelude::*;

use super::*;

fn turn() -> Turn {
    Turn::new(PromptId("p".to_owned()), Arc::new(SystemClock))
}

fn tool(state: ToolState) -> ToolUpdate {
    ToolUpdate {
        call: "call".to_owned(),
        name: "bash".to_owned(),
        state,
        args: json!({}),
        result: None,
        error: None,
        exit_code: None,
        under: None,
    }
}

/// A happening in a word.
fn words(out: &[Happening]) -> Vec<String> {
    out.iter()
        .map(|happening| match happening {
            Happening::TurnOpened { .. } => "opened".to_owned(),
            Happening::PartDelta { offset, text, .. } => format!("delta {offset} {text}"),
            Happening::PartWhole {
                content: Content::Tool(tool),
                ..
            } => format!("tool {:?}", tool.state),
            Happening::PartWhole {
                content: Content::Text { text } | Content::Reasoning { text },
                ..
            } => format!("whole {text}"),
            Happening::PartRemoved { .. } => "removed".to_owned(),
            Happening::TurnDone { reason, text, .. } => format!("done {reason:?} {text}"),
            other => format!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_turn_opens_with_its_first_text() {
    let (mut turn, mut out) = (turn(), Vec::new());
    turn.begin("a", TextKind::Text);
    assert!(out.is_empty());
    turn.delta("a", TextKind::Text, "é", &mut out);
    turn.delta("a", TextKind::Text, "x", &mut out);
    assert_eq!(words(&out), ["opened", "whole ", "delta 0 é", "delta 2 x"]);
}

#[test]
fn a_torn_part_is_silent_until_it_comes_whole() {
    let (mut turn, mut out) = (turn(), Vec::new());
    turn.delta("a", TextKind::Text, "one ", &mut out);
    turn.tear();
    turn.delta("a", TextKind::Text, "three", &mut out);
    turn.whole("a", TextKind::Text, "one two three", &mut out);
    assert_eq!(
        words(&out),
        ["opened", "whole ", "delta 0 one ", "whole one two three"]
    );
}

#[test]
fn a_tool_never_goes_back() {
    let (mut turn, mut out) = (turn(), Vec::new());
    turn.tool("t", tool(ToolState::Completed), &mut out);
    turn.tool("t", tool(ToolState::Running), &mut out);
    assert_eq!(words(&out), ["opened", "tool Completed"]);
}

#[test]
fn tools_still_open_are_closed_before_the_end() {
    let (mut turn, mut out) = (turn(), Vec::new());
    turn.tool("t", tool(ToolState::Running), &mut out);
    turn.finish(Reason::Error, None, Usage::default(), &mut out);
    assert_eq!(
        words(&out),
        ["opened", "tool Running", "tool Error", "done Error "]
    );
}

#[test]
fn nothing_comes_after_the_end() {
    let (mut turn, mut out) = (turn(), Vec::new());
    turn.finish(Reason::Canceled, None, Usage::default(), &mut out);
    let ended = out.len();
    turn.delta("a", TextKind::Text, "late", &mut out);
    turn.whole("b", TextKind::Text, "late", &mut out);
    turn.tool("t", tool(ToolState::Running), &mut out);
    turn.withdraw_all(&mut out);
    turn.finish(Reason::EndTurn, None, Usage::default(), &mut out);
    assert_eq!(out.len(), ended);
    assert_eq!(words(&out), ["opened", "done Canceled "]);
}

#[test]
fn each_text_part_holds_only_its_own_text() {
    let (mut turn, mut out) = (turn(), Vec::new());
    turn.whole("a", TextKind::Text, "before", &mut out);
    turn.tool("t", tool(ToolState::Completed), &mut out);
    turn.whole("b", TextKind::Text, "after", &mut out);
    turn.finish(Reason::EndTurn, None, Usage::default(), &mut out);
    let all = words(&out);
    assert_eq!(all[1..4], ["whole before", "tool Completed", "whole after"]);
    assert_eq!(all[4], "done EndTurn before\n\nafter");
}

#[test]
fn a_tool_comes_after_the_text_that_led_to_it() {
    let (mut turn, mut out) = (turn(), Vec::new());
    turn.delta("a", TextKind::Text, "I look", &mut out);
    turn.tool("t", tool(ToolState::Running), &mut out);
    turn.whole("a", TextKind::Text, "I look.", &mut out);
    assert_eq!(
        words(&out),
        [
            "opened",
            "whole ",
            "delta 0 I look",
            "tool Running",
            "whole I look."
        ]
    );
}

#[test]
fn withdrawn_text_is_not_in_the_answer() {
    let (mut turn, mut out) = (turn(), Vec::new());
    turn.delta("a", TextKind::Text, "half", &mut out);
    turn.withdraw_open_text(&mut out);
    turn.delta("a", TextKind::Text, "more", &mut out);
    turn.whole("b", TextKind::Text, "anew", &mut out);
    turn.finish(Reason::EndTurn, None, Usage::default(), &mut out);
    assert_eq!(
        words(&out)[3..],
        ["removed", "whole anew", "done EndTurn anew"]
    );
}

#[test]
fn endless_text_is_cut_and_says_so() {
    let (mut turn, mut out) = (turn(), Vec::new());
    let piece = "é".repeat(MOST_TEXT / 4);
    for _ in 0..12 {
        turn.delta("a", TextKind::Text, &piece, &mut out);
    }
    let cut = format!("{}{CUT}", "é".repeat(MOST_TEXT / 2));
    assert!(turn.text() == cut);
    // What comes whole is cut at the same place, and said once.
    let full = piece.repeat(12);
    turn.whole("a", TextKind::Text, &full, &mut out);
    let said = out.len();
    turn.whole("a", TextKind::Text, &full, &mut out);
    assert!(turn.text() == cut && out.len() == said);
}

#[test]
fn a_big_result_is_cut_and_says_so() {
    let (mut turn, mut out) = (turn(), Vec::new());
    let mut update = tool(ToolState::Completed);
    update.result = Some("x".repeat(MOST_TOOL_DATA + 1));
    turn.tool("t", update, &mut out);
    let Happening::PartWhole {
        content: Content::Tool(tool),
        ..
    } = &out[1]
    else {
        panic!("no tool");
    };
    assert!(
        tool.result
            .as_ref()
            .unwrap()
            .ends_with("[cut: 262145 bytes in all]")
    );
}

/// What a plain reader of the happenings holds.
fn read(out: &[Happening]) -> String {
    let mut parts: Vec<(Id<event::Part>, String)> = Vec::new();
    for happening in out {
        match happening {
            Happening::PartDelta {
                part, offset, text, ..
            } => {
                if !parts.iter().any(|(id, _)| id == part) {
                    parts.push((*part, String::new()));
                }
                let held = parts.iter_mut().find(|(id, _)| id == part).unwrap();
                if held.1.len() as u64 == *offset {
                    held.1.push_str(text);
                }
            }
            Happening::PartWhole {
                part,
                content: Content::Text { text },
                ..
            } => match parts.iter_mut().find(|(id, _)| id == part) {
                Some(held) => held.1.clone_from(text),
                None => parts.push((*part, text.clone())),
            },
            Happening::PartRemoved { part, .. } => parts.retain(|(id, _)| id != part),
            _ => {}
        }
    }
    let texts: Vec<String> = parts
        .into_iter()
        .map(|(_, text)| text)
        .filter(|text| !text.is_empty())
        .collect();
    texts.join("\n\n")
}

/// Parts in the order in which they are first in the log.
fn numbered(out: &[Happening]) -> Vec<Id<event::Part>> {
    let mut parts = Vec::new();
    for happening in out {
        if let Happening::PartWhole { part, .. } = happening
            && !parts.contains(part)
        {
            parts.push(*part);
        }
    }
    parts
}

proptest! {
    #[test]
    fn parts_are_in_the_log_in_the_order_in_which_they_began(
        steps in prop::collection::vec((0..4usize, 0..6u8, "[a-zé]{0,4}"), 0..40)
    ) {
        let (mut turn, mut out) = (turn(), Vec::new());
        for (part, step, text) in steps {
            let key = part.to_string();
            match step {
                0 | 1 => turn.delta(&key, TextKind::Text, &text, &mut out),
                2 => turn.delta(&key, TextKind::Reasoning, &text, &mut out),
                3 => turn.whole(&key, TextKind::Text, &text, &mut out),
                4 => turn.tool(&key, tool(ToolState::Running), &mut out),
                _ => turn.begin(&key, TextKind::Text),
            }
        }
        turn.finish(Reason::EndTurn, None, Usage::default(), &mut out);
        let begun = turn.pieces.iter().map(|piece| piece.id);
        let mut told = numbered(&out);
        let begun: Vec<_> = begun.filter(|id| told.contains(id)).collect();
        told.retain(|id| begun.contains(id));
        prop_assert_eq!(told, begun);
    }

    #[test]
    fn a_plain_reader_ends_with_the_answer(
        steps in prop::collection::vec((0..4usize, 0..6u8, "[a-zé]{0,4}"), 0..40)
    ) {
        let (mut turn, mut out) = (turn(), Vec::new());
        for (part, step, text) in steps {
            let key = part.to_string();
            match step {
                0..=2 => turn.delta(&key, TextKind::Text, &text, &mut out),
                5 => turn.begin(&key, TextKind::Text),
                3 => turn.whole(&key, TextKind::Text, &text, &mut out),
                _ => turn.tear(),
            }
        }
        turn.finish(Reason::EndTurn, None, Usage::default(), &mut out);
        let Some(Happening::TurnDone { text, .. }) = out.last() else { panic!("no end") };
        prop_assert_eq!(&read(&out), text);
    }
}
