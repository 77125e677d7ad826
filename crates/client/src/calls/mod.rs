//! Every route, by noun.

mod account;
mod files;
mod machine;
mod prompts;
mod sessions;
mod tools;

pub use files::Download;
pub use machine::ServiceAction;
pub use sessions::SessionFilter;

pub(crate) use prompts::new_prompt_id;

use wire::v1::Page;

use crate::ClientError;
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

/// More pages than any list has: a server that always has another one is wrong.
const MOST_PAGES: usize = 1000;

/// Page by page, to the end.
async fn all<T>(
    page: impl AsyncFn(&Paging) -> Result<Page<T>, ClientError>,
) -> Result<Vec<T>, ClientError> {
    let (mut all, mut paging) = (Vec::new(), Paging::default());
    for _ in 0..MOST_PAGES {
        let page = page(&paging).await?;
        all.extend(page.items);
        paging.cursor = page.next_cursor;
        if paging.cursor.is_none() {
            break;
        }
    }
    Ok(all)
}

const V1: &str = "v1";
const SESSIONS: &str = "sessions";
