use std::sync::Arc;

use model::{Id, Session};
use sqlx::error::ErrorKind;

use crate::{dialect, prompts};

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, by what a caller does about it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// Somebody else owns the session: stop, and write nothing more.
    #[error("term {term} of {session} is over: it has another owner")]
    Fenced { session: Id<Session>, term: u64 },
    /// Another process owns it, and its lease has not run out.
    #[error("the session is owned by {owner}")]
    Held { owner: String },
    #[error("{what} is larger than {limit}")]
    TooLarge { what: &'static str, limit: usize },
    /// Nothing more fits until something leaves.
    #[error("{0} is full")]
    Full(&'static str),
    /// The event cannot follow what the log has: its sender is wrong.
    #[error("the event does not fit the session: {0}")]
    Misfit(&'static str),
    /// Frames before it are missing.
    #[error("frame {number} came, but {expected} is next")]
    FrameGap { number: u64, expected: u64 },
    #[error("the prompt is {0} already")]
    PromptMoved(prompts::Status),
    /// A rule of the tables forbids it.
    #[error("what is stored forbids it: {rule}")]
    Forbidden { rule: String },
    /// Nothing was written. Try again.
    #[error("the store is busy")]
    Busy {
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// Whether it was written is not known: read again before going on.
    #[error("the store does not answer")]
    Unavailable {
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The store is being closed, and nothing was written.
    #[error("the store is closed")]
    Closed,
    #[error("a stored {what} cannot be read: {detail}")]
    Unreadable { what: &'static str, detail: String },
}

impl Error {
    pub(crate) fn unreadable(what: &'static str, detail: &(impl ToString + ?Sized)) -> Self {
        Self::Unreadable {
            what,
            detail: detail.to_string(),
        }
    }

    /// Of one writer, and no reason to give up those who write with it.
    pub(crate) fn is_of_the_writer(&self) -> bool {
        !matches!(self, Self::Busy { .. } | Self::Unavailable { .. })
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database) => {
                if dialect::is_busy(database.as_ref()) {
                    return Self::Busy {
                        source: Arc::new(error),
                    };
                }
                match database.kind() {
                    ErrorKind::Other if !dialect::is_unfit(database.as_ref()) => {}
                    _ => {
                        return Self::Forbidden {
                            rule: database
                                .constraint()
                                .unwrap_or(database.message())
                                .to_owned(),
                        };
                    }
                }
            }
            sqlx::Error::PoolTimedOut => {
                return Self::Busy {
                    source: Arc::new(error),
                };
            }
            sqlx::Error::PoolClosed => return Self::Closed,
            sqlx::Error::RowNotFound => return Self::NotFound("row"),
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                return Self::unreadable("row", &error);
            }
            _ => {}
        }
        Self::Unavailable {
            source: Arc::new(error),
        }
    }
}
