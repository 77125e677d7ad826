//! What clients ask over a socket, done.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use model::session::{PauseReason, Place};
use model::{Id, Session};
use serde_json::{Value, json};
use sessions::{Ask, Handle, HubError};
use store::prompts::{Mode, NewPrompt};
use wire::link::{Author, DEFAULT_CHANNEL};
use wire::v1::{self, FromClient, PromptMode};

use crate::inside::{Inside, InsideError};
use crate::pulls::WantedPull;
use crate::shown::word;
use crate::{Caller, Shared};

/// What git and services may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// Services that are started by one wish.
const SERVICES: usize = 64;

/// Does what one client asks.
#[derive(Debug, Clone)]
pub(crate) struct Deeds {
    pub(crate) shared: Arc<Shared>,
    pub(crate) session: Id<Session>,
    pub(crate) caller: Caller,
}

/// Why something is not done, for the one who asked.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
        }
    }
}

impl From<HubError> for Refusal {
    fn from(error: HubError) -> Self {
        let (code, message) = told(&error);
        Self::new(code, message)
    }
}

impl From<InsideError> for Refusal {
    fn from(error: InsideError) -> Self {
        match error {
            InsideError::Said { code, message, .. } => Self { code, message },
            error => Self::new("sandbox-unreachable", error.to_string()),
        }
    }
}

/// A stable code, and words for people.
pub(crate) fn told(error: &HubError) -> (&'static str, String) {
    let code = match error {
        HubError::Refused(refused) => refused.code(),
        HubError::Failed(_) => "start-failed",
        HubError::Gone => "session-elsewhere",
        HubError::Store(store::Error::NotFound(_)) => "not-found",
        HubError::Store(
            store::Error::TooLarge { .. } | store::Error::Misfit(_) | store::Error::Full(_),
        ) => "unprocessable",
        HubError::Store(_) => "store-unavailable",
        HubError::NoProvider(_) => "no-provider",
        HubError::BadSpec(_) => "bad-spec",
    };
    let message = match error {
        HubError::Store(source) => source.to_string(),
        error => error.to_string(),
    };
    (code, message)
}

/// Whether one who may only look may say it.
pub(crate) fn is_looking(frame: &FromClient) -> bool {
    matches!(
        frame,
        FromClient::Ping | FromClient::GetStatus | FromClient::GitStatus { .. }
    )
}

impl Deeds {
    /// A frame for the one who asked, if there is one; else what comes of it is told to all.
    pub(crate) async fn perform(self, frame: FromClient) -> Result<Option<Value>, Refusal> {
        let handle = self.shared.sessions.open(self.session).await?;
        match frame {
            FromClient::Ping => return Ok(Some(json!({ "type": "pong" }))),
            FromClient::GetStatus => {
                let status = word(&handle.seen().borrow().status);
                return Ok(Some(json!({ "type": "status", "status": status })));
            }
            FromClient::Prompt(prompt) => self.prompt(&handle, prompt).await?,
            FromClient::Cancel { channel } => handle.cancel(channel.as_deref()).await?,
            FromClient::NewSession {
                channel,
                request_id,
            } => {
                let request = request_id.unwrap_or_else(|| self.fresh("req"));
                let channel = channel.unwrap_or_else(|| DEFAULT_CHANNEL.to_owned());
                handle.new_conversation(request, channel).await?;
            }
            FromClient::Answer {
                question_id,
                item,
                answer,
            } => handle.answer(&question_id, item, answer).await?,
            FromClient::Permission { id, allow } => handle.permit(&id, allow).await?,
            FromClient::SaveSnapshot { .. } => {
                let snapshot = handle.snapshot().await?;
                let snapshot = snapshot.to_string();
                return Ok(Some(
                    json!({ "type": "snapshot_result", "ok": true, "snapshot": snapshot }),
                ));
            }
            FromClient::Pause => drop(handle.pause(PauseReason::Manual).await?),
            FromClient::Revert {
                message_id,
                request_id,
                channel,
            } => handle.revert(message_id, request_id, channel).await?,
            FromClient::Diff {
                request_id,
                channel,
            } => handle.diff(request_id, channel).await?,
            FromClient::Review {
                request_id,
                focus,
                model,
            } => handle.review(request_id, focus, model).await?,
            FromClient::Command {
                request_id,
                command,
                args,
                channel,
            } => handle.command(request_id, command, args, channel).await?,
            FromClient::RunAutoStart => return self.auto_start(&handle).await.map(Some),
            FromClient::GitCreatePr {
                repo,
                title,
                body,
                base,
            } => {
                let wanted = WantedPull {
                    repo,
                    title,
                    body,
                    base,
                };
                return self.open_pull(&handle, wanted).await.map(Some);
            }
            git => return self.git(&handle, git).await.map(Some),
        }
        Ok(None)
    }

    async fn prompt(&self, handle: &Handle, prompt: v1::NewPrompt) -> Result<(), Refusal> {
        let mut chain = prompt.model_preferences;
        if let Some(model) = prompt.model {
            chain.retain(|other| *other != model);
            chain.insert(0, model);
        }
        let caller = &self.caller;
        let ask = Ask {
            content: prompt.content,
            attachments: prompt.attachments,
            chain,
            author: Some(Author {
                id: caller.id.clone(),
                email: caller.email.clone(),
                name: Some(caller.name.clone()),
                ..Author::default()
            }),
            reply_channel: None,
        };
        let new = NewPrompt {
            id: prompt.id.unwrap_or_else(|| self.fresh("prompt")),
            channel: prompt.channel.unwrap_or_else(|| DEFAULT_CHANNEL.to_owned()),
            mode: match prompt.mode.unwrap_or_default() {
                PromptMode::Followup => Mode::Followup,
                PromptMode::Steer => Mode::Steer,
                PromptMode::Collect => Mode::Collect,
            },
            body: serde_json::to_string(&ask).unwrap_or_default(),
        };
        handle.prompt(new).await?;
        Ok(())
    }

    async fn git(&self, handle: &Handle, frame: FromClient) -> Result<Value, Refusal> {
        let inside = self.inside(handle).await?;
        let here = |repo: Option<String>| repo.unwrap_or_else(|| ".".to_owned());
        let (path, body) = match frame {
            FromClient::GitStatus { repo } => {
                let path = format!("/api/git/status?repo={}", query(&here(repo)));
                let status = inside.ask(Method::GET, &path, None, PATIENCE).await?;
                return Ok(typed("git_status", status));
            }
            FromClient::GitCreateBranch { repo, name } => {
                let body = json!({ "repo": here(repo), "name": name });
                ("/api/git/branch", body)
            }
            FromClient::GitCommit {
                repo,
                message,
                include_untracked,
                files,
            } => {
                let mut body = json!({ "repo": here(repo), "message": message,
                    "include_untracked": include_untracked });
                if !files.is_empty() {
                    body["files"] = json!(files);
                }
                ("/api/git/commit", body)
            }
            FromClient::GitPush { repo } => ("/api/git/push", json!({ "repo": here(repo) })),
            _ => return Err(Refusal::new("unsupported", "this is not done here")),
        };
        let result = inside
            .ask(Method::POST, path, Some(&body), PATIENCE)
            .await?;
        Ok(typed("git_result", result))
    }

    async fn open_pull(&self, handle: &Handle, wanted: WantedPull) -> Result<Value, Refusal> {
        let Some(pulls) = &self.shared.pulls else {
            let message = "this server opens no pull requests";
            return Err(Refusal::new("not-configured", message));
        };
        let result = pulls.open(handle, &self.caller, wanted).await;
        let result = serde_json::to_value(&result).unwrap_or_default();
        let mut frame = typed("git_result", result);
        frame["action"] = json!("create_pr");
        Ok(frame)
    }

    /// Every service that is known and does not run.
    async fn auto_start(&self, handle: &Handle) -> Result<Value, Refusal> {
        let inside = self.inside(handle).await?;
        let known = inside.ask(Method::GET, "/api/services", None, PATIENCE);
        let known = known.await?;
        let empty = Vec::new();
        let services = known["services"].as_array().unwrap_or(&empty);
        let (mut results, nothing) = (Vec::new(), json!({}));
        for service in services.iter().take(SERVICES) {
            let Some(name) = service["name"].as_str() else {
                continue;
            };
            if service["status"] == "running" {
                results.push(json!({ "name": name, "status": "running" }));
                continue;
            }
            let path = format!("/api/services/{}/start", query(name));
            let started = inside.ask(Method::POST, &path, Some(&nothing), PATIENCE);
            results.push(match started.await {
                Ok(_) => json!({ "name": name, "status": "running" }),
                Err(error) => {
                    json!({ "name": name, "status": "failed", "message": error.to_string() })
                }
            });
        }
        Ok(json!({ "type": "auto_start_output", "services": results }))
    }

    async fn inside(&self, handle: &Handle) -> Result<Inside, Refusal> {
        let place: Option<Place> = handle.seen().borrow().place;
        let place = place.ok_or(HubError::Refused(model::session::Refused::NotRunning))?;
        Ok(self.shared.inside(self.session, place).await?)
    }

    fn fresh(&self, what: &str) -> String {
        let id = Id::<Session>::new(&*self.shared.clock).uuid();
        format!("{what}-{}", id.simple())
    }
}

/// What the sandbox said, as a frame of this type and no other.
fn typed(kind: &str, said: Value) -> Value {
    match said {
        Value::Object(mut fields) => {
            fields.remove("seq");
            fields.insert("type".to_owned(), json!(kind));
            Value::Object(fields)
        }
        _ => json!({ "type": kind }),
    }
}

/// Text as a part of an address.
pub fn query(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
