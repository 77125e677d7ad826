//! Prompts as people send them, read for a session.

use model::{Clock, Id, Prompt};
use sessions::Ask;
use store::prompts::{Mode, NewPrompt};
use wire::link::{Author, DEFAULT_CHANNEL, MAX_INLINE};
use wire::v1;

use crate::Refusal;

const LONGEST_ID: usize = 100;
const LONGEST_MODEL: usize = 200;
const CHAIN: usize = 8;
const ATTACHMENTS: usize = 8;

/// As the session takes it, with who asks.
pub fn read(
    new: v1::NewPrompt,
    author: Option<Author>,
    clock: &dyn Clock,
) -> Result<NewPrompt, Refusal> {
    if new.content.trim().is_empty() {
        return Err(Refusal::invalid("`content` is empty"));
    }
    if new.content.len() > MAX_INLINE {
        return Err(Refusal::too_large(format!(
            "`content` has at most {MAX_INLINE} bytes: upload the rest"
        )));
    }
    if new.attachments.len() > ATTACHMENTS {
        return Err(Refusal::invalid(format!(
            "a prompt has at most {ATTACHMENTS} attachments"
        )));
    }
    let id = match new.id {
        Some(id) if is_name(&id) => id,
        Some(_) => {
            return Err(Refusal::invalid(format!(
                "`id` has 1 to {LONGEST_ID} printable characters"
            )));
        }
        None => Id::<Prompt>::new(clock).to_string(),
    };
    let channel = new.channel.unwrap_or_else(|| DEFAULT_CHANNEL.to_owned());
    if !is_name(&channel) {
        return Err(Refusal::invalid("`channel` is as in `web:default`"));
    }
    let ask = Ask {
        content: new.content,
        attachments: new.attachments,
        chain: chain(new.model, new.model_preferences)?,
        author,
        reply_channel: None,
        trace: telemetry::current().trace,
    };
    Ok(NewPrompt {
        id,
        channel,
        mode: match new.mode.unwrap_or_default() {
            v1::PromptMode::Followup => Mode::Followup,
            v1::PromptMode::Steer => Mode::Steer,
            v1::PromptMode::Collect => Mode::Collect,
            v1::PromptMode::Unknown => {
                return Err(Refusal::invalid("`mode` is followup, steer or collect"));
            }
        },
        body: serde_json::to_string(&ask).map_err(Refusal::internal)?,
    })
}

fn is_name(name: &str) -> bool {
    (1..=LONGEST_ID).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The model first, then what is preferred, each once.
pub fn chain(model: Option<String>, preferences: Vec<String>) -> Result<Vec<String>, Refusal> {
    let mut chain: Vec<String> = Vec::new();
    for name in model.into_iter().chain(preferences) {
        let name = name.trim();
        if name.is_empty() || name.len() > LONGEST_MODEL || !name.contains('/') {
            return Err(Refusal::invalid("a model is as in `provider/model`"));
        }
        if !chain.iter().any(|known| known == name) {
            chain.push(name.to_owned());
        }
    }
    if chain.len() > CHAIN {
        return Err(Refusal::invalid(format!(
            "a prompt names at most {CHAIN} models"
        )));
    }
    Ok(chain)
}
