//! Frames that are too long for the link, made to fit. An agent may say and change as much as it
//! likes, and nobody is better off with nothing.

use std::io;

use serde::Serialize;
use serde_json::Value;
use wire::link::{ErrorFrame, FromRunner, MAX_LINK_FRAME};

use super::handle::SayError;

/// The longest that a text may be at first, and below which it is not cut: names are shorter.
const LONG: usize = 512 << 10;
const SHORT: usize = 256;
/// For its number.
const ROOM: usize = 64;

/// The frame, cut where it has to be, and what is to be said of lists that lost their end.
pub(super) fn fit(frame: FromRunner) -> Result<(FromRunner, Option<FromRunner>), SayError> {
    // Deltas are cut to size where they are sent.
    if !frame.is_kept() || fits(&frame) {
        return Ok((frame, None));
    }
    let too_long = || SayError::TooLong(length(&frame));
    let whole = serde_json::to_value(&frame).expect("our own types serialise");
    let mut limit = LONG;
    // Counting is quick and writing is not; so it is written when it is likely to fit.
    while texts(&whole, limit) > MAX_LINK_FRAME / 4 * 3 && limit > SHORT {
        limit /= 2;
    }
    let mut value = cut(&whole, limit);
    while !fits(&value) && limit > SHORT {
        limit /= 2;
        value = cut(&whole, limit);
    }
    let mut left_out = 0;
    while !fits(&value) {
        left_out += halve_longest_list(&mut value).ok_or_else(too_long)?;
    }
    let kind = value["type"].as_str().map(str::to_owned);
    let frame = serde_json::from_value(value).map_err(|_| too_long())?;
    let remark = (left_out > 0).then(|| {
        let message = format!("there was too much to say, and {left_out} more are left out");
        FromRunner::Error(ErrorFrame {
            frame: kind,
            ..ErrorFrame::new("cut", message)
        })
    });
    Ok((frame, remark))
}

fn fits(value: &impl Serialize) -> bool {
    length(value) + ROOM <= MAX_LINK_FRAME
}

/// How long its texts are together, none of them longer than this.
fn texts(value: &Value, limit: usize) -> usize {
    match value {
        Value::String(text) => text.len().min(limit),
        Value::Array(items) => items.iter().map(|item| texts(item, limit)).sum(),
        Value::Object(fields) => fields.values().map(|field| texts(field, limit)).sum(),
        _ => 0,
    }
}

/// The same with no text longer than this, but for the mark.
fn cut(value: &Value, limit: usize) -> Value {
    match value {
        Value::String(text) if text.len() > limit => {
            let kept = &text[..text.floor_char_boundary(limit)];
            let rest = text.len() - kept.len();
            Value::String(format!("{kept}\n[cut: {rest} bytes more]"))
        }
        Value::Array(items) => items.iter().map(|item| cut(item, limit)).collect(),
        Value::Object(fields) => {
            let each = fields.iter();
            each.map(|(name, field)| (name.clone(), cut(field, limit)))
                .collect()
        }
        other => other.clone(),
    }
}

/// How many went. `None` when there is no list to shorten.
fn halve_longest_list(value: &mut Value) -> Option<usize> {
    match longest_list(value) {
        0 => None,
        length => halve(value, length),
    }
}

fn longest_list(value: &Value) -> usize {
    let below = |items: &mut dyn Iterator<Item = &Value>| items.map(longest_list).max();
    match value {
        Value::Array(items) => below(&mut items.iter()).unwrap_or(0).max(items.len()),
        Value::Object(fields) => below(&mut fields.values()).unwrap_or(0),
        _ => 0,
    }
}

/// The first list of this length.
fn halve(value: &mut Value, length: usize) -> Option<usize> {
    match value {
        Value::Array(items) if items.len() == length => {
            items.truncate(length / 2);
            Some(length - length / 2)
        }
        Value::Array(items) => items.iter_mut().find_map(|item| halve(item, length)),
        Value::Object(fields) => fields.values_mut().find_map(|field| halve(field, length)),
        _ => None,
    }
}

pub(super) fn length(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("our own types serialise");
    count.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::link::{Change, ChangedFile, FileDiff, Part, PartContent};

    use super::*;

    fn text_part(text: String) -> FromRunner {
        FromRunner::Part(Part {
            message_id: "m1".to_owned(),
            part_id: "p1".to_owned(),
            open: false,
            content: PartContent::Text { text },
        })
    }

    fn changed(path: String) -> ChangedFile {
        ChangedFile {
            path,
            status: Change::Modified,
            added: 1,
            removed: 1,
        }
    }

    #[test]
    fn what_fits_is_said_as_it_is() {
        let frame = text_part("x".repeat(900_000));
        assert_eq!(fit(frame.clone()), Ok((frame, None)));
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_between_characters_and_says_so() {
        let (cut, remark) = fit(text_part("é".repeat(MAX_LINK_FRAME))).unwrap();
        assert!(fits(&cut) && remark.is_none());
        let FromRunner::Part(part) = cut else {
            panic!("another frame");
        };
        let PartContent::Text { text } = part.content else {
            panic!("another part");
        };
        assert_eq!(
            (part.message_id.as_str(), part.part_id.as_str()),
            ("m1", "p1")
        );
        assert!(text.starts_with("ééé") && text.ends_with("bytes more]"));
    }

    #[test]
    fn a_list_that_is_too_long_loses_its_end_and_that_is_said() {
        let files = (0..50_000).map(|n| changed(format!("src/a/b/c/d/{n}.rs")));
        let frame = FromRunner::FilesChanged {
            message_id: Some("m1".to_owned()),
            files: files.collect(),
        };
        let (cut, remark) = fit(frame).unwrap();
        let FromRunner::FilesChanged { files, .. } = &cut else {
            panic!("another frame");
        };
        assert!(fits(&cut) && files.len() > 1000);
        let Some(FromRunner::Error(error)) = remark else {
            panic!("nothing was said");
        };
        let left_out = 50_000 - files.len();
        assert_eq!(
            (error.code.as_str(), error.frame.as_deref()),
            ("cut", Some("files_changed"))
        );
        assert!(
            error.message.contains(&left_out.to_string()),
            "{}",
            error.message
        );
    }

    #[test]
    fn a_diff_keeps_every_file_before_it_keeps_every_line() {
        let patch = "+one more line\n".repeat(20_000);
        let file = |n: u32| FileDiff {
            path: format!("{n}.rs"),
            status: Change::Modified,
            patch: Some(patch.clone()),
        };
        let frame = FromRunner::DiffResult {
            request_id: "r1".to_owned(),
            files: (0..40).map(file).collect(),
            error: None,
        };
        let (cut, remark) = fit(frame).unwrap();
        let FromRunner::DiffResult { files, .. } = &cut else {
            panic!("another frame");
        };
        assert!(fits(&cut) && remark.is_none());
        assert_eq!(files.len(), 40);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn whatever_is_said_fits(text in "\\PC{0,40}|[\\x00-\\x1f]{0,40}", times in 1usize..40_000) {
            let (cut, _) = fit(text_part(text.repeat(times))).unwrap();
            prop_assert!(fits(&cut));
        }
    }
}
