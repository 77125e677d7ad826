//! What clients ask over a socket, done.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use model::session::{PauseReason, Place};
use model::{Id, Session};
use serde_json::{Value, json};
use sessions::{Handle, HubError};
use wire::link::DEFAULT_CHANNEL;
use wire::v1::{self, FromClient};

use crate::inside::{Inside, encode};
use crate::pulls::WantedPull;
use crate::shown::word;
use crate::socket::about;
use crate::{Caller, Refusal, Shared, prompts};

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
        if !is_looking(&frame) && !matches!(frame, FromClient::Prompt(_)) {
            self.write_down(&frame).await?;
        }
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
            FromClient::SaveSnapshot { message } => {
                let snapshot = match message.filter(|message| !message.trim().is_empty()) {
                    Some(message) => handle.snapshot_called(&message).await?,
                    None => handle.snapshot().await?,
                };
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
        let caller = &self.caller;
        let new = prompts::read(prompt, caller.author(), &*self.shared.clock)?;
        let about = json!({ "prompt": new.id });
        match self.shared.line(caller, self.session, "prompt", &about) {
            Some(line) => handle.prompt_by(new, line).await?,
            None => handle.prompt(new).await?,
        };
        Ok(())
    }

    async fn git(&self, handle: &Handle, frame: FromClient) -> Result<Value, Refusal> {
        let inside = self.inside(handle)?;
        let here = |repo: Option<String>| repo.unwrap_or_else(|| ".".to_owned());
        let (path, body) = match frame {
            FromClient::GitStatus { repo } => {
                let path = format!("/api/git/status?repo={}", encode(&here(repo)));
                let status: Value = inside.ask(Method::GET, &path, None, PATIENCE).await?;
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
            _ => return Err(Refusal::invalid("this is not done here")),
        };
        let result = inside
            .ask(Method::POST, path, Some(&body), PATIENCE)
            .await?;
        Ok(typed("git_result", result))
    }

    /// Who asked for what, before it is done. Never what was said.
    async fn write_down(&self, frame: &FromClient) -> Result<(), Refusal> {
        let about = about(frame);
        let action = about["frame"].as_str().unwrap_or_default();
        let line = self.shared.line(&self.caller, self.session, action, &about);
        let Some(line) = line else {
            return Ok(());
        };
        let mut tx = self.shared.store.begin().await?;
        tx.record(&line).await?;
        Ok(tx.commit().await?)
    }

    async fn open_pull(&self, handle: &Handle, wanted: WantedPull) -> Result<Value, Refusal> {
        let Some(pulls) = &self.shared.pulls else {
            let message = "this server opens no pull requests";
            return Err(Refusal::conflict("not-configured", message));
        };
        let result = pulls.open(handle, &self.caller, wanted).await;
        let result = serde_json::to_value(&result).unwrap_or_default();
        let mut frame = typed("git_result", result);
        frame["action"] = json!("create_pr");
        Ok(frame)
    }

    /// Every service that is known and does not run.
    async fn auto_start(&self, handle: &Handle) -> Result<Value, Refusal> {
        let inside = self.inside(handle)?;
        let known = inside.ask(Method::GET, "/api/services", None, PATIENCE);
        let known: Value = known.await?;
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
            let path = format!("/api/services/{}/start", encode(name));
            let started = inside.ask::<Value>(Method::POST, &path, Some(&nothing), PATIENCE);
            results.push(match started.await {
                Ok(_) => json!({ "name": name, "status": "running" }),
                Err(error) => {
                    json!({ "name": name, "status": "failed", "message": error.to_string() })
                }
            });
        }
        Ok(json!({ "type": "auto_start_output", "services": results }))
    }

    fn inside(&self, handle: &Handle) -> Result<Inside, Refusal> {
        let place: Option<Place> = handle.seen().borrow().place;
        let place = place.ok_or(HubError::Refused(model::session::Refused::NotRunning))?;
        Ok(self.shared.inside(handle, place)?)
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
