//! Which prompt of the agent's each of our answers belongs to, so that an answer can be taken back
//! by its name, also after a restart and from a snapshot.
//!
//! They are kept in a file of lines, each a change. A line is written before the next thing happens,
//! so that a workplace that is killed has lost none; it is not synced, because what a machine loses
//! when it dies (the agent's own conversation) it loses of both. The file is the user's to spoil:
//! what makes no sense in it is left out.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Write as _};

use agent::prompt::PromptId;
use agent::{ChannelKey, Mark, SessionRef};
use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::state;

/// Older answers cannot be taken back by name.
const MOST: usize = 2000;
/// Of one prompt. There is one, but for prompts whose turn was begun again.
const MOST_MESSAGES: usize = 16;
const MOST_CHANNELS: usize = 256;
/// Names are ours, or the hub's, and short.
const LONGEST_LINE: usize = 4 << 10;
/// The file is written anew when it has so many lines.
const MOST_LINES: usize = 4 * MOST;
const MAX_FILE: u64 = (MOST_LINES * LONGEST_LINE) as u64;

#[derive(Debug, Default)]
pub struct Marks {
    /// The oldest first.
    entries: VecDeque<Entry>,
    /// The conversation that each channel had last.
    sessions: BTreeMap<ChannelKey, SessionRef>,
    /// Of prompts that the agent has not taken yet.
    stood: VecDeque<(PromptId, Trees)>,
    kept: Option<Kept>,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    channel: ChannelKey,
    prompt: PromptId,
    mark: Mark,
    messages: Vec<String>,
    /// What the repositories held before it, where the agent itself does not know.
    trees: Trees,
}

/// By the repository's name.
pub(super) type Trees = BTreeMap<String, String>;

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The agent has taken the prompt, as the message it calls so.
    Taken {
        channel: ChannelKey,
        prompt: PromptId,
        mark: Mark,
    },
    Opened {
        prompt: PromptId,
        message: String,
    },
    /// Before the prompt is handed on.
    Stood {
        prompt: PromptId,
        trees: Trees,
    },
    Forgotten {
        marks: Vec<Mark>,
    },
    Session {
        channel: ChannelKey,
        session: SessionRef,
    },
}

#[derive(Debug)]
struct Kept {
    path: Utf8PathBuf,
    file: Option<File>,
    lines: usize,
}

impl Marks {
    /// Those of before, and a place for those to come. A disk that cannot be written costs the
    /// memory of them, not the turns.
    pub fn open(path: Utf8PathBuf) -> Self {
        let mut marks = Self::default();
        let content = match state::read(&path, MAX_FILE) {
            Ok(content) => content.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "which answers can be taken back is not known");
                Vec::new()
            }
        };
        for line in content.split(|byte| *byte == b'\n') {
            if let Ok(line) = serde_json::from_slice(line) {
                marks.apply(line);
            }
        }
        marks.kept = Some(Kept {
            path,
            file: None,
            lines: 0,
        });
        // A line that was being written when somebody pulled the plug is not the beginning of ours.
        marks.write_anew();
        marks
    }

    pub(super) fn taken(&mut self, channel: &ChannelKey, prompt: &PromptId, mark: &Mark) {
        self.note(Line::Taken {
            channel: channel.clone(),
            prompt: prompt.clone(),
            mark: mark.clone(),
        });
    }

    pub(super) fn stood(&mut self, prompt: &str, trees: Trees) {
        self.note(Line::Stood {
            prompt: PromptId(prompt.to_owned()),
            trees,
        });
    }

    /// What the repositories held before the first of these.
    pub(super) fn trees_before(&self, marks: &[Mark]) -> Trees {
        let mut entries = self.entries.iter();
        let first = entries.find(|entry| marks.contains(&entry.mark));
        first.map(|entry| entry.trees.clone()).unwrap_or_default()
    }

    pub(super) fn opened(&mut self, message: &str, prompt: &PromptId) {
        self.note(Line::Opened {
            prompt: prompt.clone(),
            message: message.to_owned(),
        });
    }

    pub(super) fn began(&mut self, channel: &ChannelKey, session: &SessionRef) {
        self.note(Line::Session {
            channel: channel.clone(),
            session: session.clone(),
        });
    }

    /// The conversation that each channel had last.
    pub(super) fn sessions(&self) -> Vec<(ChannelKey, SessionRef)> {
        let sessions = self.sessions.iter();
        sessions
            .map(|(channel, session)| (channel.clone(), session.clone()))
            .collect()
    }

    pub(super) fn find(&self, message: &str) -> Option<(ChannelKey, Mark)> {
        let entry = self
            .entries
            .iter()
            .rev()
            .find(|entry| entry.messages.iter().any(|known| known == message))?;
        Some((entry.channel.clone(), entry.mark.clone()))
    }

    /// The answers to prompts that were taken back.
    pub(super) fn forget(&mut self, marks: &[Mark]) -> Vec<String> {
        let gone = self.entries.iter().filter(|e| marks.contains(&e.mark));
        let gone = gone.flat_map(|entry| entry.messages.clone()).collect();
        for few in marks.chunks(32) {
            self.note(Line::Forgotten {
                marks: few.to_vec(),
            });
        }
        gone
    }

    fn note(&mut self, line: Line) {
        let text = serde_json::to_string(&line).unwrap_or_default();
        if text.is_empty() || text.len() >= LONGEST_LINE {
            return tracing::warn!("a name is too long for its answer to be taken back by it");
        }
        self.apply(line);
        let Some(kept) = &mut self.kept else { return };
        if kept.lines >= MOST_LINES {
            return self.write_anew();
        }
        if let Err(error) = kept.append(&text) {
            tracing::warn!(%error, "which answers can be taken back is not written down");
            // Half a line may be there.
            kept.file = None;
            kept.lines = MOST_LINES;
        }
    }

    fn apply(&mut self, line: Line) {
        match line {
            Line::Taken {
                channel,
                prompt,
                mark,
            } => {
                if let Some(entry) = self.entries.iter_mut().find(|e| e.prompt == prompt) {
                    entry.mark = mark;
                    return;
                }
                if self.entries.len() == MOST {
                    self.entries.pop_front();
                }
                let place = self.stood.iter().position(|(stood, _)| *stood == prompt);
                let trees = place.and_then(|place| self.stood.remove(place));
                let trees = trees.map(|(_, trees)| trees).unwrap_or_default();
                self.entries.push_back(Entry {
                    channel,
                    prompt,
                    mark,
                    messages: Vec::new(),
                    trees,
                });
            }
            Line::Stood { prompt, trees } => {
                self.stood.truncate(MOST_CHANNELS - 1);
                self.stood.push_front((prompt, trees));
            }
            Line::Opened { prompt, message } => {
                let entry = self.entries.iter_mut().rev().find(|e| e.prompt == prompt);
                if let Some(entry) = entry.filter(|e| e.messages.len() < MOST_MESSAGES) {
                    entry.messages.push(message);
                }
            }
            Line::Forgotten { marks } => self.entries.retain(|e| !marks.contains(&e.mark)),
            Line::Session { channel, session } => {
                if self.sessions.len() < MOST_CHANNELS || self.sessions.contains_key(&channel) {
                    self.sessions.insert(channel, session);
                }
            }
        }
    }

    /// What there is, without how it came to be. The old file is there until the new one is whole.
    fn write_anew(&mut self) {
        let sessions = self
            .sessions
            .iter()
            .map(|(channel, session)| Line::Session {
                channel: channel.clone(),
                session: session.clone(),
            });
        let entries = self.entries.iter().flat_map(|entry| {
            let taken = Line::Taken {
                channel: entry.channel.clone(),
                prompt: entry.prompt.clone(),
                mark: entry.mark.clone(),
            };
            let opened = entry.messages.iter().map(|message| Line::Opened {
                prompt: entry.prompt.clone(),
                message: message.clone(),
            });
            let stood = (!entry.trees.is_empty()).then(|| Line::Stood {
                prompt: entry.prompt.clone(),
                trees: entry.trees.clone(),
            });
            stood.into_iter().chain([taken]).chain(opened)
        });
        let (mut content, mut lines) = (String::new(), 0);
        for line in sessions.chain(entries) {
            content.push_str(&serde_json::to_string(&line).unwrap_or_default());
            content.push('\n');
            lines += 1;
        }
        let Some(kept) = &mut self.kept else { return };
        kept.file = None;
        kept.lines = match state::replace_synced(&kept.path, content.as_bytes()) {
            Ok(()) => lines,
            Err(error) => {
                tracing::warn!(%error, "which answers can be taken back is not written down");
                MOST_LINES
            }
        };
    }
}

impl Kept {
    fn append(&mut self, line: &str) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(state::open_to_append(&self.path)?),
        };
        file.write_all(format!("{line}\n").as_bytes())?;
        self.lines += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(number: usize) -> (PromptId, Mark) {
        (PromptId(format!("p{number}")), Mark(format!("m{number}")))
    }

    #[test]
    fn an_answer_leads_to_its_prompt_and_goes_with_it() {
        let mut marks = Marks::default();
        for number in 1..=3 {
            let (prompt, mark) = marked(number);
            marks.taken(&ChannelKey::web(), &prompt, &mark);
            marks.opened(&format!("a{number}"), &prompt);
        }
        assert_eq!(marks.find("a2"), Some((ChannelKey::web(), marked(2).1)));
        let gone = marks.forget(&[marked(2).1, marked(3).1]);
        assert_eq!(gone, ["a2", "a3"]);
        assert_eq!(marks.find("a3"), None);
        assert!(marks.find("a1").is_some());
    }

    #[test]
    fn a_prompt_that_is_sent_again_to_another_model_is_still_one() {
        let mut marks = Marks::default();
        let (prompt, mark) = marked(1);
        marks.taken(&ChannelKey::web(), &prompt, &mark);
        marks.opened("a1", &prompt);
        marks.taken(&ChannelKey::web(), &prompt, &Mark("again".to_owned()));
        assert_eq!(
            marks.find("a1").map(|found| found.1.0),
            Some("again".to_owned())
        );
    }

    fn on_disk() -> (camino_tempfile::Utf8TempDir, Utf8PathBuf) {
        let directory = camino_tempfile::tempdir().unwrap();
        let path = directory.path().join("marks.jsonl");
        (directory, path)
    }

    fn with_three(path: &Utf8PathBuf) -> Marks {
        let mut marks = Marks::open(path.clone());
        marks.began(&ChannelKey::web(), &SessionRef("ses_a".to_owned()));
        for number in 1..=3 {
            let (prompt, mark) = marked(number);
            marks.taken(&ChannelKey::web(), &prompt, &mark);
            marks.opened(&format!("a{number}"), &prompt);
        }
        marks
    }

    #[test]
    fn a_workplace_that_was_killed_knows_its_answers_again() {
        let (_directory, path) = on_disk();
        let mut marks = with_three(&path);
        marks.forget(&[marked(3).1]);
        std::mem::forget(marks);
        let again = Marks::open(path);
        assert_eq!(again.find("a2"), Some((ChannelKey::web(), marked(2).1)));
        assert_eq!(again.find("a3"), None, "it was taken back");
        assert_eq!(
            again.sessions(),
            [(ChannelKey::web(), SessionRef("ses_a".to_owned()))]
        );
    }

    #[test]
    fn cut_anywhere_it_knows_what_was_written_before_the_cut() {
        let (_directory, path) = on_disk();
        drop(with_three(&path));
        let whole = fs_err::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs_err::write(&path, &whole[..cut]).unwrap();
            let mut marks = Marks::open(path.clone());
            let (prompt, mark) = marked(9);
            marks.taken(&ChannelKey::web(), &prompt, &mark);
            marks.opened("a9", &prompt);
            let again = Marks::open(path.clone());
            assert!(again.find("a9").is_some(), "cut at {cut}");
            // A line that only lacks its end is whole.
            let lines = whole[..=cut].split(|byte| *byte == b'\n').count() - 1;
            assert_eq!(again.find("a1").is_some(), lines >= 3, "cut at {cut}");
        }
    }

    #[test]
    fn a_file_that_somebody_spoiled_costs_no_more_than_what_was_in_it() {
        let (_directory, path) = on_disk();
        fs_err::write(&path, b"\xff\xff\n{\"taken\": 7}\n[]\n{\"opened\":{}}\n").unwrap();
        let marks = with_three(&path);
        assert!(marks.find("a1").is_some());
        fs_err::remove_file(&path).unwrap();
        fs_err::create_dir(&path).unwrap();
        assert!(with_three(&path).find("a3").is_some(), "in memory alone");
    }

    #[test]
    fn the_file_does_not_grow_with_every_turn() {
        let (_directory, path) = on_disk();
        let mut marks = Marks::open(path.clone());
        let (prompt, mark) = marked(1);
        for _ in 0..3 * MOST_LINES {
            marks.taken(&ChannelKey::web(), &prompt, &mark);
        }
        let lines = fs_err::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= MOST_LINES, "{lines}");
        assert_eq!(Marks::open(path).entries.len(), 1);
    }

    #[test]
    fn the_oldest_are_forgotten_first() {
        let mut marks = Marks::default();
        for number in 0..=MOST {
            let (prompt, mark) = marked(number);
            marks.taken(&ChannelKey::web(), &prompt, &mark);
            marks.opened(&format!("a{number}"), &prompt);
        }
        assert_eq!(marks.find("a0"), None);
        assert!(marks.find("a1").is_some());
    }
}
