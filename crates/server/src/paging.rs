//! Lists that are given a page at a time.

use std::str::FromStr;

use serde::Deserialize;
use utoipa::IntoParams;

use crate::problem::{Answer, Problem};

const PAGE: u32 = 50;
const LONGEST: u32 = 200;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paging {
    /// From the page before.
    cursor: Option<String>,
    limit: Option<u32>,
}

impl Paging {
    pub(crate) fn new(cursor: Option<String>, limit: Option<u32>) -> Self {
        Self { cursor, limit }
    }

    pub(crate) fn cursor<T: FromStr>(&self) -> Answer<Option<T>> {
        let cursor = self.cursor.as_deref().map(str::parse);
        cursor
            .transpose()
            .map_err(|_| Problem::invalid("`cursor` is the `next_cursor` of the page before"))
    }

    pub(crate) fn limit(&self) -> Answer<u32> {
        match self.limit.unwrap_or(PAGE) {
            limit if (1..=LONGEST).contains(&limit) => Ok(limit),
            _ => Err(Problem::invalid(format!("`limit` is 1 to {LONGEST}"))),
        }
    }
}

/// Of one more than fit: those that do, and where to go on if there are others.
pub(crate) fn cut<T>(
    mut found: Vec<T>,
    limit: u32,
    cursor: impl Fn(&T) -> String,
) -> (Vec<T>, Option<String>) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(cursor);
    (found, next)
}
