//! What agents may have done outside, and what comes of it.
//!
//! What only reads is done at once; all else waits for a person. An action that was approved is done
//! by whoever finds it so: each of them bears being done again, and its outcome is written once.

use std::fmt::Write as _;

use model::{Action, Clock, Id, SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use sessions::Handle;
use store::Store;
use store::actions::{ActionRecord, NewAction, Risk, Status};
use wire::link::{ActionAnswer, ActionsCall};
use wire::v1;

use crate::problem::{Answer, Problem};

/// For a person to decide.
const WAIT: SignedDuration = SignedDuration::from_mins(5);
/// Of a list that an action answers with.
const FEW: u32 = 20;
/// Of what is said of one of them: an answer stays short.
const SHORT: usize = 100;
const LONGEST_TITLE: usize = 200;

/// What can be asked for.
struct Deed {
    integration: &'static str,
    action: &'static str,
    description: &'static str,
    params: &'static str,
    risk: Risk,
}

const DEEDS: [Deed; 3] = [
    Deed {
        integration: "session",
        action: "snapshots",
        description: "Lists what was kept of this session, the newest first.",
        params: "{}",
        risk: Risk::Read,
    },
    Deed {
        integration: "session",
        action: "rename",
        description: "Gives this session another title.",
        params: r#"{"title": "…"}"#,
        risk: Risk::Write,
    },
    Deed {
        integration: "person",
        action: "allow",
        description: "Asks a person whether you may do something that you then do yourself.",
        params: r#"{"what": "…"}"#,
        risk: Risk::Danger,
    },
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rename {
    title: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Allow {
    what: String,
}

pub(crate) fn offers() -> Vec<v1::ActionOffer> {
    let offer = |deed: &Deed| v1::ActionOffer {
        integration: deed.integration.to_owned(),
        action: deed.action.to_owned(),
        description: deed.description.to_owned(),
        risk: gateway::shown::risk(deed.risk),
    };
    DEEDS.iter().map(offer).collect()
}

/// Who does them.
pub(crate) struct Actions<'a> {
    pub(crate) store: &'a Store,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) session: &'a Handle,
}

impl Actions<'_> {
    /// What an agent asks. `request` is the call's own id: the same again is the same action.
    pub(crate) async fn answer(&self, request: &str, call: ActionsCall) -> Answer<ActionAnswer> {
        match call {
            ActionsCall::List => Ok(completed(json!({ "actions": offers() }))),
            ActionsCall::Guide { integration } => guide(&integration),
            ActionsCall::Run(asked) => {
                let deed = find(&asked.integration, &asked.action)?;
                check(deed, &asked.params)?;
                let now = self.clock.now();
                let new = NewAction {
                    id: Id::new(self.clock),
                    session: self.session.session(),
                    request: request.to_owned(),
                    integration: asked.integration,
                    action: asked.action,
                    params: asked.params.to_string(),
                    risk: deed.risk,
                    status: match deed.risk {
                        Risk::Read => Status::Approved,
                        Risk::Write | Risk::Danger => Status::Pending,
                    },
                    at: now,
                    expires_at: now.checked_add(WAIT).unwrap_or(Timestamp::MAX),
                };
                let mut tx = self.store.begin().await?;
                let asked = tx.ask_for_action(&new).await?;
                tx.commit().await?;
                // Said again to nobody: the same call came before.
                if asked.id == new.id && asked.status == Status::Pending {
                    self.tell_wait(&asked, now).await?;
                }
                self.stand(asked).await
            }
            ActionsCall::Status { invocation } => {
                let missing = || Problem::not_found("action of this session");
                let id: Id<Action> = invocation.parse().map_err(|_| missing())?;
                let found = self.store.find_action(self.session.session(), id).await?;
                self.stand(found.ok_or_else(missing)?).await
            }
        }
    }

    /// Does one that is approved, and says how it stands.
    pub(crate) async fn settle(&self, action: ActionRecord) -> Answer<ActionRecord> {
        if action.status != Status::Approved {
            return Ok(action);
        }
        let done = self.perform(&action).await.map(|result| result.to_string());
        let outcome = done.as_deref().map_err(Problem::words);
        let mut tx = self.store.begin().await?;
        let is_first = tx.finish_action(action.id, outcome).await?;
        tx.commit().await?;
        let found = self.store.find_action(action.session, action.id).await?;
        let found = found.ok_or_else(|| Problem::not_found("action"))?;
        if is_first && found.risk != Risk::Read {
            self.tell_decision(&found).await?;
        }
        Ok(found)
    }

    /// Tells all who watch what was decided.
    pub(crate) async fn tell_decision(&self, action: &ActionRecord) -> Answer<()> {
        let status = gateway::shown::action(action, self.clock.now()).status;
        let frame = json!({
            "type": "action_approval_result",
            "id": action.id.to_string(),
            "status": status,
            "decided_by": action.decided_by,
            "message": action.message,
        });
        Ok(self.session.announce(&frame).await?)
    }

    async fn tell_wait(&self, action: &ActionRecord, now: Timestamp) -> Answer<()> {
        let shown = gateway::shown::action(action, now);
        let mut frame = serde_json::to_value(shown).map_err(Problem::internal)?;
        frame["type"] = json!("action_approval_request");
        Ok(self.session.announce(&frame).await?)
    }

    async fn stand(&self, action: ActionRecord) -> Answer<ActionAnswer> {
        let action = self.settle(action).await?;
        let said = |message: Option<String>, or: &str| message.unwrap_or_else(|| or.to_owned());
        Ok(match action.status {
            _ if action.is_over_time(self.clock.now()) => ActionAnswer::Expired,
            Status::Pending | Status::Approved => ActionAnswer::Pending {
                invocation: action.id.to_string(),
            },
            Status::Completed => {
                let result = action.result.unwrap_or_default();
                ActionAnswer::Completed {
                    result: serde_json::from_str(&result).unwrap_or_default(),
                }
            }
            Status::Denied => ActionAnswer::Denied {
                message: said(action.message, "somebody said no"),
            },
            Status::Failed => ActionAnswer::Failed {
                message: said(action.message, "it failed"),
            },
        })
    }

    /// Bears being done twice.
    async fn perform(&self, action: &ActionRecord) -> Answer<Value> {
        let params: Value = serde_json::from_str(&action.params).map_err(Problem::internal)?;
        match (&*action.integration, &*action.action) {
            ("session", "snapshots") => {
                let session = self.session.session();
                let kept = self.store.session_snapshots(session, None, FEW).await?;
                let shown = kept.iter().map(|snapshot| {
                    let message = snapshot.message.as_deref().unwrap_or_default();
                    let message: String = message.chars().take(SHORT).collect();
                    let at = snapshot.created_at.to_string();
                    json!({ "id": snapshot.id, "created_at": at, "message": message })
                });
                Ok(json!({ "snapshots": shown.collect::<Vec<_>>() }))
            }
            ("session", "rename") => {
                let Rename { title } = read(&params)?;
                self.session.rename(title.trim()).await?;
                Ok(json!({ "title": title.trim() }))
            }
            ("person", "allow") => Ok(json!({ "allowed": true })),
            _ => Err(Problem::not_found("action")),
        }
    }
}

fn find(integration: &str, action: &str) -> Answer<&'static Deed> {
    let is_it = |deed: &&Deed| deed.integration == integration && deed.action == action;
    DEEDS.iter().find(is_it).ok_or_else(|| {
        Problem::invalid("there is no such action: `nacre actions list` shows those there are")
    })
}

/// Before a person is asked about it.
fn check(deed: &Deed, params: &Value) -> Answer<()> {
    let is_line = |text: &str| {
        let text = text.trim();
        (1..=LONGEST_TITLE).contains(&text.len()) && !text.chars().any(char::is_control)
    };
    let is_good = match (deed.integration, deed.action) {
        ("session", "rename") => is_line(&read::<Rename>(params)?.title),
        ("person", "allow") => is_line(&read::<Allow>(params)?.what),
        _ => true,
    };
    if is_good {
        return Ok(());
    }
    Err(Problem::invalid(format!(
        "what is given has 1 to {LONGEST_TITLE} bytes, in one line"
    )))
}

fn read<T: serde::de::DeserializeOwned>(params: &Value) -> Answer<T> {
    T::deserialize(params).map_err(|error| Problem::invalid(format!("`params`: {error}")))
}

fn guide(integration: &str) -> Answer<ActionAnswer> {
    let mut text = String::new();
    for deed in DEEDS.iter().filter(|deed| deed.integration == integration) {
        let asked = match deed.risk {
            Risk::Read => "done at once",
            Risk::Write | Risk::Danger => "done when a person approves",
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{integration} {}: {} Params: {}. It is {asked}.",
            deed.action, deed.description, deed.params
        );
    }
    if text.is_empty() {
        return Err(Problem::not_found("integration"));
    }
    Ok(completed(json!({ "guide": text })))
}

fn completed(result: Value) -> ActionAnswer {
    ActionAnswer::Completed { result }
}
