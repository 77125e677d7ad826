//! `--flag value`, `--flag=value`, switches and words.

use std::collections::{BTreeMap, VecDeque};

use super::Failure;

const SWITCHES: [&str; 4] = ["follow", "help", "json", "version"];
const VALUES: [&str; 12] = [
    "action",
    "command",
    "cwd",
    "integration",
    "message",
    "name",
    "params",
    "port",
    "protocol",
    "scope",
    "spec",
    "tail",
];

#[derive(Debug, Default)]
pub(super) struct Arguments {
    words: VecDeque<String>,
    flags: BTreeMap<String, String>,
}

impl Arguments {
    pub(super) fn parse(arguments: Vec<String>) -> Result<Self, Failure> {
        let mut parsed = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let flag = match argument.as_str() {
                "-h" => "help",
                "-f" => "follow",
                "-V" => "version",
                "--" => {
                    parsed.words.extend(arguments.by_ref());
                    break;
                }
                long => {
                    let Some(flag) = long.strip_prefix("--") else {
                        parsed.words.push_back(argument);
                        continue;
                    };
                    flag
                }
            };
            let (flag, value) = match flag.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (flag, None),
            };
            let value = if SWITCHES.contains(&flag) && value.is_none() {
                String::new()
            } else if VALUES.contains(&flag) {
                // Whatever it looks like: a command may well begin with hyphens.
                value
                    .or_else(|| arguments.next())
                    .ok_or_else(|| Failure::usage(format!("`--{flag}` wants a value")))?
            } else {
                return Err(Failure::usage(format!("there is no flag `--{flag}`")));
            };
            parsed.flags.insert(flag.to_owned(), value);
        }
        Ok(parsed)
    }

    pub(super) fn has(&self, switch: &str) -> bool {
        self.flags.contains_key(switch)
    }

    pub(super) fn value(&self, flag: &str) -> Option<String> {
        self.flags.get(flag).cloned()
    }

    pub(super) fn word(&mut self) -> Option<String> {
        self.words.pop_front()
    }

    pub(super) fn verb(&mut self, area: &str) -> Result<String, Failure> {
        self.word().ok_or_else(|| {
            Failure::usage(format!(
                "`nacre {area}` does what? `nacre {area} --help` says"
            ))
        })
    }

    /// By its flag, or the next word.
    pub(super) fn named(&mut self, flag: &str) -> Result<String, Failure> {
        self.value(flag)
            .or_else(|| self.word())
            .ok_or_else(|| Failure::usage(format!("`--{flag}` is missing")))
    }

    pub(super) fn end(&self) -> Result<(), Failure> {
        match self.words.front() {
            None => Ok(()),
            Some(word) => Err(Failure::usage(format!("{word:?} is one word too many"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<Arguments, Failure> {
        Arguments::parse(line.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn flags_are_taken_in_both_forms_and_values_as_they_are() {
        let mut arguments = parse(&[
            "services",
            "start",
            "--name=web",
            "--command",
            "--watch 'a b'",
            "--json",
        ])
        .unwrap();
        assert_eq!(arguments.word().unwrap(), "services");
        assert_eq!(arguments.verb("services").unwrap(), "start");
        assert_eq!(arguments.named("name").unwrap(), "web");
        assert_eq!(arguments.value("command").unwrap(), "--watch 'a b'");
        assert!(arguments.has("json") && arguments.end().is_ok());
    }

    #[test]
    fn what_is_not_known_or_not_complete_is_refused() {
        assert!(parse(&["--nonsense"]).is_err());
        assert!(parse(&["services", "start", "--name"]).is_err());
        assert!(parse(&["--json=yes"]).is_err());
        assert!(parse(&["a"]).unwrap().end().is_err());
    }
}
