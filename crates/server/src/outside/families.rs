use std::collections::HashMap;

use doors::models::Asker;
use model::{Id, Session};

/// Conversations of subagents that are remembered; then all are forgotten.
const REMEMBERED: usize = 10_000;

/// Which conversation of an agent began the others. A subagent says who began it, and one that began
/// others has asked before they did.
#[derive(Debug, Default)]
pub(super) struct Families(HashMap<(Id<Session>, String), String>);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Family {
    /// The one that a channel has.
    pub(super) first: String,
    pub(super) is_subagent: bool,
}

impl Families {
    pub(super) fn of(&mut self, session: Id<Session>, asker: &Asker) -> Option<Family> {
        let conversation = asker.conversation.as_ref()?;
        let known = |name: &String| self.0.get(&(session, name.clone())).cloned();
        let Some(parent) = &asker.parent else {
            return Some(known(conversation).map_or_else(
                || Family {
                    first: conversation.clone(),
                    is_subagent: false,
                },
                |first| Family {
                    first,
                    is_subagent: true,
                },
            ));
        };
        let first = known(parent).unwrap_or_else(|| parent.clone());
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        let of_it = (session, conversation.clone());
        self.0.insert(of_it, first.clone());
        Some(Family {
            first,
            is_subagent: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use model::SystemClock;

    use super::*;

    fn asker(conversation: &str, parent: Option<&str>) -> Asker {
        Asker {
            conversation: Some(conversation.to_owned()),
            parent: parent.map(str::to_owned),
        }
    }

    #[test]
    fn subagents_of_subagents_belong_to_the_conversation_that_began_it_all() {
        let (mut families, session) = (Families::default(), Id::new(&SystemClock));
        let mut of = |asker: &Asker| {
            let family = families.of(session, asker).unwrap();
            (family.first, family.is_subagent)
        };
        assert_eq!(of(&asker("a", None)), ("a".to_owned(), false));
        assert_eq!(of(&asker("b", Some("a"))), ("a".to_owned(), true));
        assert_eq!(of(&asker("c", Some("b"))), ("a".to_owned(), true));
        assert_eq!(of(&asker("c", None)), ("a".to_owned(), true));
    }

    #[test]
    fn who_does_not_say_who_they_are_belongs_to_nobody() {
        let mut families = Families::default();
        assert_eq!(families.of(Id::new(&SystemClock), &Asker::default()), None);
    }

    #[test]
    fn one_sessions_names_mean_nothing_in_another() {
        let mut families = Families::default();
        let (one, other) = (Id::new(&SystemClock), Id::new(&SystemClock));
        families.of(one, &asker("b", Some("a")));
        let family = families.of(other, &asker("b", None)).unwrap();
        assert_eq!(family.first, "b");
    }
}
