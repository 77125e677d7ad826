use std::time::Instant;

use wire::link::{FromRunner, PartContent};

/// How far a text had come, and when.
pub(super) type Reached = (usize, Instant);

/// An answer as the hub gets it: while it grows, and twice more when it is whole.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// As the deltas make it.
    grown: String,
    reached: Vec<Reached>,
    /// Deltas that do not follow what was there.
    gaps: u64,
    closed: Option<String>,
    done: Option<String>,
}

impl Answer {
    pub(super) fn take(&mut self, frame: FromRunner, at: Instant) {
        match frame {
            FromRunner::PartDelta { offset, text, .. } => {
                if offset == self.grown.len() as u64 {
                    self.grown.push_str(&text);
                } else {
                    self.gaps += 1;
                }
                self.reached.push((self.grown.len(), at));
            }
            FromRunner::Part(part) => {
                let PartContent::Text { text } = part.content else {
                    return;
                };
                self.reached.push((text.len(), at));
                if part.open {
                    self.grown = text;
                } else {
                    self.closed = Some(text);
                }
            }
            FromRunner::MessageDone { text, .. } => self.done = Some(text),
            _ => {}
        }
    }

    pub(super) fn reached(&self) -> &[Reached] {
        &self.reached
    }

    /// In how many ways it is not what was said.
    pub(super) fn faults(&self, said: &str) -> u64 {
        let whole = [self.closed.as_deref(), self.done.as_deref()];
        let wrong = whole.iter().filter(|text| **text != Some(said)).count() as u64;
        // The end of it may be told by the closed part alone.
        self.gaps + wrong + u64::from(!said.starts_with(&self.grown))
    }
}

/// For each step of one stream, how much later (in milliseconds) the other had got as far. Several
/// steps may have come as one.
pub(super) fn added(first: &[Reached], second: &[Reached]) -> Vec<f64> {
    let mut later = second.iter().peekable();
    first
        .iter()
        .filter_map(|(end, at)| {
            while later.next_if(|(reached, _)| reached < end).is_some() {}
            let (_, arrived) = later.peek()?;
            let after = arrived.saturating_duration_since(*at).as_secs_f64();
            let before = at.saturating_duration_since(*arrived).as_secs_f64();
            Some((after - before) * 1000.0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wire::link::{Part, Reason};

    use super::*;

    fn delta(offset: u64, text: &str) -> FromRunner {
        FromRunner::PartDelta {
            message_id: "m".to_owned(),
            part_id: "p".to_owned(),
            offset,
            text: text.to_owned(),
        }
    }

    fn part(text: &str, open: bool) -> FromRunner {
        FromRunner::Part(Part {
            message_id: "m".to_owned(),
            part_id: "p".to_owned(),
            open,
            content: PartContent::Text {
                text: text.to_owned(),
            },
        })
    }

    fn done(text: &str) -> FromRunner {
        FromRunner::MessageDone {
            message_id: "m".to_owned(),
            prompt_id: None,
            reason: Reason::EndTurn,
            text: text.to_owned(),
            error: None,
            usage: None,
        }
    }

    fn faults(frames: impl IntoIterator<Item = FromRunner>) -> u64 {
        let mut answer = Answer::default();
        for frame in frames {
            answer.take(frame, Instant::now());
        }
        answer.faults("0 1 2")
    }

    #[test]
    fn an_answer_that_came_whole_has_no_faults() {
        let end = [part("0 1 2", false), done("0 1 2")];
        assert_eq!(
            faults([delta(0, "0"), delta(1, " 1 2")].into_iter().chain(end)),
            0
        );
    }

    #[test]
    fn a_part_sent_whole_after_a_cut_is_no_fault() {
        let frames = [
            delta(0, "0"),
            part("0 1", true),
            delta(3, " 2"),
            part("0 1 2", false),
            done("0 1 2"),
        ];
        assert_eq!(faults(frames), 0);
    }

    #[test]
    fn what_is_lost_doubled_or_missing_at_the_end_is_a_fault() {
        let end = || [part("0 1 2", false), done("0 1 2")];
        assert_eq!(
            faults([delta(0, "0"), delta(3, " 2")].into_iter().chain(end())),
            1
        );
        assert_eq!(
            faults([delta(0, "0"), delta(0, "0")].into_iter().chain(end())),
            1
        );
        assert_eq!(faults([delta(0, "0 0")].into_iter().chain(end())), 1);
        assert_eq!(faults([part("0 1 2", false)]), 1);
        assert_eq!(faults([part("0 1", false), done("0 1")]), 2);
    }

    #[test]
    fn what_is_added_is_counted_for_each_step_though_several_came_as_one() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let first = [(1, at(10)), (3, at(11)), (5, at(12)), (7, at(13))];
        let second = [(1, at(11)), (5, at(11)), (6, at(14))];
        assert_eq!(added(&first, &second), [1.0, 0.0, -1.0]);
    }
}
