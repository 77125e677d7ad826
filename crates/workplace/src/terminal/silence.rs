//! Questions that programs ask of a terminal: what it is, where its cursor is, which colours it has.
//! The one that was there has answered. Shown again, they would be answered again, and the answers
//! typed into whatever runs by now.

/// Longer sequences are not questions, and pass.
const LONGEST: usize = 256;
const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;
/// Asks for the answerback message.
const ENQUIRY: u8 = 0x05;

/// Takes the questions out of output, wherever it is cut into pieces.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// The sequence under way.
    held: Vec<u8>,
}

impl Silence {
    pub(super) fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut passed = Vec::with_capacity(bytes.len());
        for byte in bytes {
            self.step(*byte, &mut passed);
        }
        passed
    }

    /// What was held back for its end, which will come with what is not filtered.
    pub(super) fn end(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn step(&mut self, byte: u8, passed: &mut Vec<u8>) {
        if self.held.is_empty() {
            match byte {
                ESCAPE => self.held.push(byte),
                ENQUIRY => {}
                _ => passed.push(byte),
            }
            return;
        }
        if byte == ESCAPE && !matches!(self.held.get(1), Some(b']' | b'P')) {
            // The one before was not finished.
            passed.append(&mut self.held);
        }
        self.held.push(byte);
        if !is_complete(&self.held) {
            if self.held.len() >= LONGEST {
                passed.append(&mut self.held);
            }
            return;
        }
        if is_question(&self.held) {
            self.held.clear();
        } else {
            passed.append(&mut self.held);
        }
    }
}

fn is_complete(sequence: &[u8]) -> bool {
    match sequence {
        [ESCAPE, b']' | b'P', rest @ ..] => rest.ends_with(&[BELL]) || rest.ends_with(b"\x1b\\"),
        [ESCAPE, b'[', .., last] if sequence.len() > 2 => !(0x20..=0x3f).contains(last),
        [ESCAPE, b'['] | [ESCAPE] => false,
        [ESCAPE, .., last] => !(0x20..=0x2f).contains(last),
        _ => true,
    }
}

fn is_question(sequence: &[u8]) -> bool {
    match sequence {
        [ESCAPE, b'[', rest @ .., last] => match last {
            // Who are you; where is the cursor; what are your settings.
            b'c' | b'n' | b'x' => true,
            // Is a mode on; which version; which keyboard.
            b'p' => rest.ends_with(b"$"),
            b'q' => rest.starts_with(b">"),
            b'u' => rest.starts_with(b"?"),
            // How large is the window, and where.
            b't' => matches!(
                rest,
                b"11" | b"13" | b"14" | b"15" | b"16" | b"18" | b"19" | b"20" | b"21"
            ),
            _ => false,
        },
        // Colours, the clipboard.
        [ESCAPE, b']', rest @ ..] => {
            let end = rest.iter().position(|byte| matches!(*byte, BELL | ESCAPE));
            rest[..end.unwrap_or(rest.len())].ends_with(b"?")
        }
        // Capabilities, settings; who are you, of old.
        [ESCAPE, b'P', b'+' | b'$', b'q', ..] | [ESCAPE, b'Z'] => true,
        _ => false,
    }
}

/// Whether a terminal says this by itself, so that nobody typed it.
pub(super) fn is_report(keys: &[u8]) -> bool {
    match keys {
        [ESCAPE, b']' | b'P', ..] | [ESCAPE, b'[', b'I' | b'O'] => true,
        [
            ESCAPE,
            b'[',
            parameters @ ..,
            b'c' | b'n' | b'R' | b'y' | b't',
        ] => !parameters.is_empty() && parameters.iter().all(|byte| (0x20..=0x3f).contains(byte)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn passed(text: &[u8]) -> Vec<u8> {
        let mut silence = Silence::default();
        let mut passed = silence.pass(text);
        passed.extend(silence.end());
        passed
    }

    #[test]
    fn questions_go_and_the_rest_stays() {
        for question in [
            &b"\x1b[c"[..],
            b"\x1b[>c",
            b"\x1b[0c",
            b"\x1b[6n",
            b"\x1b[?6n",
            b"\x1b[?2026$p",
            b"\x1b[>0q",
            b"\x1b[?u",
            b"\x1b[18t",
            b"\x1b]11;?\x07",
            b"\x1b]10;?\x1b\\",
            b"\x1bP+q544e\x1b\\",
            b"\x1bP$qm\x1b\\",
            b"\x05",
            b"\x1bZ",
        ] {
            assert_eq!(
                passed(&[b"a", question, b"b"].concat()),
                b"ab",
                "{question:?}"
            );
        }
        for other in [
            &b"\x1b[31mred\x1b[0m"[..],
            b"\x1b[2J\x1b[H",
            b"\x1b]0;title\x07",
            b"\x1b(B",
            b"\x1b[?1049h",
            b"\x1b[22;0t",
            b"\x1b7\x1b8",
            b"\x1b[",
            b"\x1b",
            b"\xff\xfe",
            b"\x1b]0;what?!\x07",
            b"\x1b[3 q",
        ] {
            assert_eq!(passed(other), other, "{other:?}");
        }
    }

    #[test]
    fn what_a_terminal_says_by_itself_is_not_typed() {
        for report in [
            &b"\x1b[?64;1c"[..],
            b"\x1b[12;40R",
            b"\x1b[0n",
            b"\x1b]11;rgb:0/0/0\x07",
            b"\x1b[I",
        ] {
            assert!(is_report(report), "{report:?}");
        }
        for typed in [
            &b"c"[..],
            b"\x1b[A",
            b"\x1b",
            b"\x1bOA",
            b"ls\n",
            b"\x1b[3~",
            b"\x1b[200~x\x1b[201~",
            b"",
        ] {
            assert!(!is_report(typed), "{typed:?}");
        }
    }

    proptest! {
        #[test]
        fn wherever_it_is_cut_the_same_passes(text in "[\x1b\\[\\]P?;0-9cnhqtm\x07\\\\ a-c]{0,60}", cut in 0usize..60) {
            let text = text.as_bytes();
            let (first, second) = text.split_at(cut.min(text.len()));
            let mut silence = Silence::default();
            let mut pieces = silence.pass(first);
            pieces.extend(silence.pass(second));
            pieces.extend(silence.end());
            prop_assert_eq!(pieces, passed(text));
        }

        #[test]
        fn nothing_is_held_for_ever(bytes: Vec<u8>) {
            let mut silence = Silence::default();
            silence.pass(&bytes);
            prop_assert!(silence.held.len() < LONGEST);
        }
    }
}
