//! Prompts read, and words made safe.

/// What a prompt asks the demo model for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    Write { file: String, text: String },
    Run { command: String },
    Clone { address: String },
    Serve,
    Slow { words: usize },
    Anything,
}

const SLOW_WORDS: usize = 60;
const MOST_WORDS: usize = 2000;

impl Wish {
    pub(super) fn read(prompt: &str) -> Self {
        let prompt = prompt.trim();
        // Some ways to an agent put what was said into quotation marks.
        let bare = prompt.strip_prefix('"');
        let prompt = bare
            .and_then(|bare| bare.strip_suffix('"'))
            .unwrap_or(prompt);
        let (first, rest) = match prompt.split_once(char::is_whitespace) {
            Some((first, rest)) => (first, rest.trim()),
            None => (prompt, ""),
        };
        let first = first.trim_end_matches([':', '.', ',']).to_ascii_lowercase();
        match (first.as_str(), rest) {
            ("write", rest) => match rest.split_once(" with ") {
                Some((file, text)) if is_file(file.trim()) => Self::Write {
                    file: file.trim().to_owned(),
                    text: text.trim().to_owned(),
                },
                _ => Self::Anything,
            },
            ("run", command) if !command.is_empty() => Self::Run {
                command: command.trim_matches('`').to_owned(),
            },
            ("clone", address) if is_address(address) => Self::Clone {
                address: address.to_owned(),
            },
            ("serve", _) => Self::Serve,
            ("slow" | "slowly", rest) => Self::Slow {
                words: rest.parse().unwrap_or(SLOW_WORDS).clamp(1, MOST_WORDS),
            },
            _ => Self::Anything,
        }
    }
}

fn is_file(name: &str) -> bool {
    !name.is_empty() && name.len() <= 200 && !name.contains(char::is_whitespace)
}

fn is_address(text: &str) -> bool {
    text.starts_with("https://") && !text.contains(char::is_whitespace)
}

/// One word of a shell, whatever is in it.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The beginning of what was said, in one line of harmless letters.
pub(super) fn plain(text: &str, most: usize) -> String {
    let safe = |letter: char| {
        if letter.is_alphanumeric() || " .,:;!?-_/+=()".contains(letter) {
            letter
        } else {
            ' '
        }
    };
    let line: String = text.chars().map(safe).collect();
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(most).collect()
}

/// A few words, for a title.
pub(super) fn title(prompt: &str) -> String {
    let line = plain(prompt, 200);
    let words: Vec<&str> = line.split(' ').take(6).collect();
    let title: String = words.join(" ").chars().take(48).collect();
    if title.is_empty() {
        return "Demo".to_owned();
    }
    format!("Demo: {title}")
}

/// The end of what a tool gave, short enough to repeat.
pub(super) fn excerpt(result: &str) -> String {
    let text = result.trim();
    let skip = text.chars().count().saturating_sub(600);
    text.chars().skip(skip).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn simple_requests_are_understood() {
        let wishes = [
            "write notes/a.txt with hello there",
            "Write a.txt with two\nlines",
            "run: echo hi && ls",
            "run `make`",
            "\"run make\"",
            "clone https://example.org/a/b.git",
            "serve",
            "Serve a page",
            "slow",
            "slow 7",
            "slow 999999999",
            "write",
            "write me a poem",
            "run",
            "clone it",
            "",
            "please write a.txt with b",
        ];
        let read: Vec<String> = wishes
            .iter()
            .map(|wish| format!("{:?}", Wish::read(wish)))
            .collect();
        assert_eq!(
            read,
            [
                r#"Write { file: "notes/a.txt", text: "hello there" }"#,
                r#"Write { file: "a.txt", text: "two\nlines" }"#,
                r#"Run { command: "echo hi && ls" }"#,
                r#"Run { command: "make" }"#,
                r#"Run { command: "make" }"#,
                r#"Clone { address: "https://example.org/a/b.git" }"#,
                "Serve",
                "Serve",
                "Slow { words: 60 }",
                "Slow { words: 7 }",
                "Slow { words: 2000 }",
                "Anything",
                "Anything",
                "Anything",
                "Anything",
                "Anything",
                "Anything",
            ]
        );
    }

    #[test]
    fn a_title_is_short() {
        assert_eq!(
            title("add a   login\nform to the page please"),
            "Demo: add a login form to the"
        );
        assert_eq!(title(" '' "), "Demo");
    }

    proptest! {
        #[test]
        fn what_is_said_in_a_program_cannot_leave_its_quotes(text in any::<String>()) {
            let plain = plain(&text, 120);
            prop_assert!(!plain.contains(['\'', '"', '\\', '$', '`', '\n', '\r']));
        }

        #[test]
        fn any_prompt_is_some_wish(text in any::<String>()) {
            Wish::read(&text);
            title(&text);
            excerpt(&text);
        }
    }
}
