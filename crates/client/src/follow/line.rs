use wire::v1::Event;

use crate::{Body, Frame};

/// So often a server may leave out the same frame before everything is asked for anew.
const SAME_GAP: u8 = 3;

/// Where in the log a follow is.
#[derive(Debug)]
pub(super) struct Line {
    /// The number of the last frame that was given on. None: only an `init` can be next.
    last: Option<u64>,
    gaps: u8,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Give,
    /// It is known, or for nobody.
    Leave,
    /// Something before it is missing.
    Gap,
}

impl Line {
    pub(super) fn after(last: Option<u64>) -> Self {
        Self { last, gaps: 0 }
    }

    /// What to ask for on a new connection.
    pub(super) fn since(&self) -> Option<u64> {
        self.last
    }

    pub(super) fn hear(&mut self, frame: &Frame) -> Next {
        match (&frame.body, frame.seq, self.last) {
            (Body::Init(init), ..) => {
                self.last = Some(init.seq);
                self.gaps = 0;
                Next::Give
            }
            (Body::Event(event), None, last) => match (&**event, last) {
                // Nobody's, or said before there is anything it could belong to.
                (Event::Pong, _) | (_, None) => Next::Leave,
                (_, Some(_)) => Next::Give,
            },
            (_, Some(seq), Some(last)) if seq <= last => Next::Leave,
            (_, Some(seq), Some(last)) if seq == last + 1 => {
                self.last = Some(seq);
                self.gaps = 0;
                Next::Give
            }
            (_, Some(_), _) => {
                self.gaps += 1;
                if self.gaps >= SAME_GAP {
                    *self = Self::after(None);
                }
                Next::Gap
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(seq: u64) -> Frame {
        Frame::read(&format!(r#"{{"seq":{seq},"type":"title","title":"t"}}"#)).unwrap()
    }

    #[test]
    fn a_frame_is_given_once() {
        let mut line = Line::after(Some(4));
        assert_eq!(line.hear(&numbered(5)), Next::Give);
        assert_eq!(line.hear(&numbered(5)), Next::Leave);
        assert_eq!(line.hear(&numbered(2)), Next::Leave);
        assert_eq!(line.since(), Some(5));
    }

    #[test]
    fn a_gap_is_asked_for_again_and_in_the_end_everything_is() {
        let mut line = Line::after(Some(4));
        for since in [Some(4), Some(4), None] {
            assert_eq!(line.hear(&numbered(6)), Next::Gap);
            assert_eq!(line.since(), since);
        }
        assert_eq!(line.hear(&numbered(6)), Next::Gap);
    }

    #[test]
    fn what_is_said_in_passing_is_given_and_a_pong_is_not() {
        let mut line = Line::after(Some(0));
        let presence = Frame::read(r#"{"type":"presence","watchers":[]}"#).unwrap();
        let pong = Frame::read(r#"{"type":"pong"}"#).unwrap();
        assert_eq!(line.hear(&presence), Next::Give);
        assert_eq!(line.hear(&pong), Next::Leave);
        assert_eq!(Line::after(None).hear(&presence), Next::Leave);
    }
}
