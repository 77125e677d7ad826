//! How a value is written so that it is read as it was: by a shell, and by the usual libraries.

/// `KEY=value` and the end of the line.
pub(super) fn line(key: &str, value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:@%+,-".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        return format!("{key}={value}\n");
    }
    // Between single quotes nothing means anything, lines included.
    if !value.contains('\'') {
        return format!("{key}='{value}'\n");
    }
    let mut quoted = String::with_capacity(value.len() + 8);
    for c in value.chars() {
        if matches!(c, '\\' | '"' | '$' | '`') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    format!("{key}=\"{quoted}\"\n")
}

/// A line of `info/exclude` for this path and no other.
pub(super) fn pattern(path: &str) -> String {
    let mut pattern = String::from("/");
    for c in path.chars() {
        if matches!(c, '\\' | '*' | '?' | '[' | ']' | '!' | '#' | ' ') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    /// As a shell reads it.
    fn read_back(value: &str) -> Vec<u8> {
        let script = format!("{}printf %s \"$KEY\"", line("KEY", value));
        let output = Command::new("sh").args(["-c", &script]).output();
        output.unwrap().stdout
    }

    #[test]
    fn values_come_out_as_they_went_in() {
        for value in [
            "plain",
            "",
            "with space",
            "it's",
            "\"quoted\"",
            "it's \"both\"",
            "$HOME `id` $(id) \\n",
            "it's $HOME `id` \\",
            "-----BEGIN KEY-----\nabc\n-----END KEY-----\n\n",
            "a#b # c",
            "größe ✓",
        ] {
            assert_eq!(read_back(value), value.as_bytes(), "{value:?}");
        }
        assert_eq!(line("A", "https://x.example/y"), "A=https://x.example/y\n");
        assert_eq!(pattern("a b/#c*"), "/a\\ b/\\#c\\*");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_value_comes_out_as_it_went_in(value in "[a '\"$`\\\\\n#!;&|<>(){}*?~=\t-]{0,24}") {
            prop_assert_eq!(read_back(&value), value.as_bytes());
        }
    }
}
