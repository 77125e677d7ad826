//! What was said on a channel before, as the hub tells it with each prompt: for an agent that has to
//! begin anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::Memory;
use crate::channel::ChannelKey;

const MOST_CHANNELS: usize = 32;
/// In bytes. The end matters most.
const LONGEST: usize = 200_000;

/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Contexts(Arc<Mutex<BTreeMap<ChannelKey, String>>>);

impl Contexts {
    /// In place of what was told with an earlier prompt.
    pub fn note(&self, channel: &ChannelKey, context: Option<String>) {
        let mut told = self.0.lock().expect("no holder of this lock panics");
        let Some(context) = context.filter(|context| !context.trim().is_empty()) else {
            told.remove(channel);
            return;
        };
        if told.len() >= MOST_CHANNELS && !told.contains_key(channel) {
            told.pop_first();
        }
        let from = context.len().saturating_sub(LONGEST);
        let end = &context[context.ceil_char_boundary(from)..];
        told.insert(channel.clone(), end.to_owned());
    }
}

#[async_trait]
impl Memory for Contexts {
    async fn recall(&self, channel: &ChannelKey) -> Option<String> {
        let told = self.0.lock().expect("no holder of this lock panics");
        told.get(channel).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_that_was_told_is_recalled_and_its_end_is_kept() {
        let contexts = Contexts::default();
        let web = ChannelKey::web();
        contexts.note(&web, Some("before".to_owned()));
        contexts.note(&web, Some(format!("{}pearl", "é".repeat(LONGEST))));
        let recalled = contexts.recall(&web).await.unwrap();
        assert!(recalled.ends_with("pearl") && recalled.len() <= LONGEST);
        contexts.note(&web, None);
        assert_eq!(contexts.recall(&web).await, None);
    }
}
