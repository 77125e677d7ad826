//! Nobody shares a session: of two servers that live at once one has it, and no term is anybody
//! else's.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use model::{Id, Session};

use super::Storm;
use crate::processes::ask;
use crate::protocol::{Answer, Request};

/// Which server had a session by which term, of all that anybody said.
#[derive(Debug, Default)]
pub(super) struct Owners(BTreeMap<(Id<Session>, u64), Utf8PathBuf>);

impl Owners {
    fn claim(&mut self, server: &Utf8Path, claims: &[(Id<Session>, u64)]) -> Vec<String> {
        let mut broken = Vec::new();
        for (session, term) in claims {
            let before = self.0.entry((*session, *term));
            let owner = before.or_insert_with(|| server.to_owned());
            if owner != server {
                broken.push(format!("{session} has two owners by term {term}"));
            }
        }
        broken
    }
}

impl Storm {
    /// Asks the server that serves, and another that may still live. What one lets go and the other
    /// takes between two questions looks like both: so the first is asked again.
    pub(super) async fn compare_owners(&mut self, other: &Utf8Path) -> Vec<String> {
        let here = self.address.borrow().clone();
        let first = owned(&here).await;
        let (second, again) = if *other == here {
            (Vec::new(), Vec::new())
        } else {
            (owned(other).await, owned(&here).await)
        };
        self.report.claims += (first.len() + second.len()) as u64;
        let mut broken = self.owners.claim(&here, &first);
        broken.extend(self.owners.claim(other, &second));
        let is_in = |claims: &[(Id<Session>, u64)], session| {
            claims.iter().any(|(claimed, _)| *claimed == session)
        };
        for (session, term) in second {
            if is_in(&first, session) && is_in(&again, session) {
                broken.push(format!("{session} has two owners, one by term {term}"));
            }
        }
        broken
    }
}

async fn owned(server: &Utf8Path) -> Vec<(Id<Session>, u64)> {
    match ask(server, &Request::Owned).await {
        Some(Answer::Owned(claims)) => claims,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use model::SystemClock;

    use super::*;

    #[test]
    fn one_term_of_a_session_is_one_servers() {
        let session = Id::new(&SystemClock);
        let mut owners = Owners::default();
        let (first, second) = (Utf8Path::new("first"), Utf8Path::new("second"));
        assert!(owners.claim(first, &[(session, 1)]).is_empty());
        assert!(owners.claim(second, &[(session, 2)]).is_empty());
        assert!(owners.claim(first, &[(session, 1)]).is_empty());
        assert_eq!(owners.claim(second, &[(session, 1)]).len(), 1);
    }
}
