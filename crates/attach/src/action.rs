//! Something that the agent wants done outside, as a person decides on it.

use std::fmt::Write as _;

use serde_json::Value;
use wire::v1::{Action, ActionRisk, ActionStatus};

pub(crate) const APPROVE: usize = 0;
pub(crate) const REFUSE: usize = 1;
pub(crate) const REFUSE_WHY: usize = 2;

/// As in `linear: create issue`.
pub(crate) fn name(action: &Action) -> String {
    format!(
        "{}: {}",
        action.integration,
        action.action.replace('_', " ")
    )
}

/// What it is, what it does to the world, and with what: a line for each parameter.
pub(crate) fn text(action: &Action) -> String {
    let risk = match action.risk {
        ActionRisk::Read => "only reads",
        ActionRisk::Write => "changes something",
        ActionRisk::Danger | ActionRisk::Unknown => "cannot be undone",
    };
    let mut text = format!("The agent asks for {} ({risk})", name(action));
    let params = action.params.as_object();
    for (name, value) in params.into_iter().flatten() {
        let _ = match value {
            Value::String(value) => write!(text, "\n{name}: {value}"),
            value => write!(text, "\n{name}: {value}"),
        };
    }
    text
}

pub(crate) fn options() -> Vec<(String, String)> {
    let option = |label: &str, means: &str| (label.to_owned(), means.to_owned());
    vec![
        option("approve", "it is done now"),
        option("refuse", ""),
        option("refuse, and say why", "the agent reads it"),
    ]
}

/// What became of it, for whoever watches.
pub(crate) fn outcome(
    action: &Action,
    status: ActionStatus,
    message: Option<&str>,
) -> Option<String> {
    let became = match status {
        ActionStatus::Pending | ActionStatus::Unknown => return None,
        ActionStatus::Approved => "is approved",
        ActionStatus::Completed => "is done",
        ActionStatus::Denied => "is refused",
        ActionStatus::Failed => "failed",
        ActionStatus::Expired => "was not decided in time",
    };
    let why = message.map(|why| format!(": {why}")).unwrap_or_default();
    Some(format!("{} {became}{why}", name(action)))
}
