//! Every route, by noun.

mod account;
mod files;
mod machine;
mod prompts;
mod sessions;

pub use files::Download;
pub use machine::ServiceAction;
pub use sessions::SessionFilter;

pub(crate) use prompts::new_prompt_id;

use crate::call::Call;

/// Which part of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paging {
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    pub limit: Option<u32>,
}

impl Paging {
    fn of<'a>(&self, call: Call<'a>) -> Call<'a> {
        let limit = self.limit.map(|limit| limit.to_string());
        call.query("cursor", self.cursor.as_deref())
            .query("limit", limit.as_deref())
    }
}

const V1: &str = "v1";
const SESSIONS: &str = "sessions";
