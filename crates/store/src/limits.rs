//! How large things may be. Whoever writes is told; what is stored is within them.

use crate::{Error, Result};

/// A runner's largest frame, and an event's body.
pub const EVENT_BODY: usize = wire::link::MAX_LINK_FRAME;
/// Ids that others make: prompts, messages, parts, boots, channels.
pub const FOREIGN_ID: usize = 128;
/// Names and titles.
pub const NAME: usize = 256;
/// A prompt, or another document that people make.
pub const DOCUMENT: usize = 1 << 20;
/// Why something is so.
pub const REASON: usize = 2048;
/// Events in one write.
pub const EVENTS_IN_A_WRITE: usize = 64;
/// Messages that one event can be about, and parts that one can bring.
pub const LIST: usize = 1000;
/// Rows in one page.
pub const PAGE: u32 = 1000;
/// Bytes of events in one page; at least one event is given.
pub const PAGE_BYTES: usize = 4 << 20;
/// Prompts that wait in one session.
pub const QUEUED_PROMPTS: u64 = 1000;

/// A secret's value, sealed.
pub const SECRET: usize = 64 << 10;
/// Secrets of one scope: of an organisation, a repository, a session.
pub const SECRETS: u64 = 256;
/// Repositories of one session.
pub const REPOSITORIES: usize = 64;
/// The address of a repository, and a media type.
pub const ADDRESS: usize = 2048;
/// Links of one session that are good at a time.
pub const SHARES: u64 = 100;
/// Repositories that an organisation chooses from.
pub const KNOWN_REPOSITORIES: u64 = 1000;
/// Pull requests of one session.
pub const PULLS: u64 = 200;
/// Tokens of one request, and its cost: more is not believed.
pub const TOKENS: u64 = 1 << 40;
/// Actions of one session, and those of them that wait for a person.
pub const ACTIONS: u64 = 1000;
pub const PENDING_ACTIONS: u64 = 20;
/// Requests for values that are shown at once.
pub const ENV_REQUESTS: u32 = 100;
/// What an action is given, and what comes of it.
pub const ACTION: usize = 16 << 10;
/// Phases of one start, and status events looked at for them.
pub const PHASES: u32 = 64;
/// What went wrong last: so many, looked for among so many events that may tell of it, of the
/// last so many of all.
pub const FAULTS: usize = 10;
pub const FAULTS_AMONG: u32 = 200;
pub const FAULTS_WITHIN: u64 = 5_000;
/// What a listing searches for.
pub const SEARCH: usize = 256;
/// Starts of a runner in one session.
pub const BOOTS: u64 = 10_000;

pub(crate) fn within(what: &'static str, text: &str, limit: usize) -> Result<()> {
    if text.len() > limit {
        return Err(Error::TooLarge { what, limit });
    }
    // PostgreSQL cannot hold it. In documents it is escaped.
    if text.contains('\0') {
        return Err(Error::Misfit("a name with a zero byte"));
    }
    Ok(())
}

/// Words for people are cut, not refused.
pub(crate) fn cut(text: &str, limit: usize) -> String {
    text[..text.floor_char_boundary(limit)].replace('\0', "\u{fffd}")
}

pub(crate) fn page(asked: u32) -> i64 {
    i64::from(asked.clamp(1, PAGE))
}
