use std::fmt;

/// Something to be told about a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Set aside: it is not as it was written.
    Damaged {
        segment: u64,
    },
    /// Set aside: nothing in it can be proved to be ours.
    Forged {
        segment: u64,
    },
    /// Frames between this segment and the one before it are gone; it is set aside.
    Gap {
        segment: u64,
    },
    Unreadable {
        segment: u64,
        reason: String,
    },
    Unwritable {
        reason: String,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { segment } => write!(
                f,
                "segment {segment} of the journal is damaged; what stands before the damage is sent, the file is set aside"
            ),
            Self::Forged { segment } => write!(
                f,
                "segment {segment} of the journal was not written by this session; it is set aside"
            ),
            Self::Gap { segment } => write!(
                f,
                "frames before segment {segment} of the journal are missing; it is set aside"
            ),
            Self::Unreadable { segment, reason } => {
                write!(
                    f,
                    "segment {segment} of the journal cannot be read: {reason}"
                )
            }
            Self::Unwritable { reason } => write!(
                f,
                "the journal cannot be written, and what is said now is kept in memory alone: {reason}"
            ),
        }
    }
}
