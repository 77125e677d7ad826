//! The calls we make, by name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use model::Secret;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::http::{Call, Client, Events, HttpError};
use super::launch::model_reference;
use super::wire::{
    Diff, MessageWithParts, PermissionRequest, QuestionRequest, Recorded, Session, Status,
};
use crate::dial::Dial;
use crate::prompt::ModelName;

/// The server is on the same machine: an answer that takes longer will not come.
const SOON: Duration = Duration::from_secs(10);
/// Histories can be long, and files are restored by a revert.
const LATER: Duration = Duration::from_mins(1);

#[derive(Debug, Clone)]
pub(super) struct Api {
    client: Client,
}

/// A prompt in OpenCode's form, with ids of our own: sent twice, it is taken once.
#[derive(Debug, Clone)]
pub(super) struct Sending {
    pub(super) message: String,
    pub(super) parts: Value,
}

#[derive(Debug, Clone)]
pub(super) struct Health {
    pub(super) healthy: bool,
    pub(super) version: String,
}

impl Api {
    pub(super) fn new(dial: Arc<dyn Dial>, password: &Secret) -> Api {
        Api {
            client: Client::new(dial, password),
        }
    }

    /// Unknown paths are answered too, with a page; so the reply itself has to say that it is well.
    pub(super) async fn health(&self, within: Duration) -> Result<Health, HttpError> {
        let operation = "ask for its health";
        let value: Value = self.get_within(operation, "/global/health", within).await?;
        Ok(Health {
            healthy: value["healthy"] == true,
            version: value["version"].as_str().unwrap_or_default().to_owned(),
        })
    }

    /// The stream of all directories, else that of its own.
    pub(super) async fn events(&self) -> Result<Events, HttpError> {
        match self.client.events("/global/event", SOON).await {
            Err(error) if error.status != 0 => self.client.events("/event", SOON).await,
            opened => opened,
        }
    }

    pub(super) async fn create_session(&self, title: &str) -> Result<Session, HttpError> {
        // A title of ours saves the model a question.
        let body = json!({ "title": title });
        self.post("begin a session", "/session", &body, LATER).await
    }

    pub(super) async fn session(&self, id: &str) -> Result<Session, HttpError> {
        let path = format!("/session/{id}");
        self.get("find a session", &path).await
    }

    pub(super) async fn delete_session(&self, id: &str) -> Result<(), HttpError> {
        self.delete("drop a session", &format!("/session/{id}"))
            .await
    }

    /// All of its directory.
    pub(super) async fn sessions(&self) -> Result<Vec<Session>, HttpError> {
        self.get("list sessions", "/session").await
    }

    pub(super) async fn delete_message(
        &self,
        session: &str,
        message: &str,
    ) -> Result<(), HttpError> {
        let path = format!("/session/{session}/message/{message}");
        self.delete("drop a message", &path).await
    }

    /// Sessions that are not idle.
    pub(super) async fn statuses(&self) -> Result<HashMap<String, Status>, HttpError> {
        self.get("ask who is busy", "/session/status").await
    }

    /// Oldest first.
    pub(super) async fn messages(&self, id: &str) -> Result<Vec<MessageWithParts>, HttpError> {
        let path = format!("/session/{id}/message");
        self.get("read a conversation", &path).await
    }

    pub(super) async fn send(
        &self,
        session: &str,
        sending: &Sending,
        model: Option<&ModelName>,
    ) -> Result<(), HttpError> {
        let mut body = json!({ "messageID": sending.message, "parts": sending.parts });
        if let Some(model) = model {
            body["model"] = model_reference(model);
        }
        let path = format!("/session/{session}/prompt_async");
        self.send_body("send a prompt", &path, &body, LATER)
            .await
            .map(drop)
    }

    /// Adds to the conversation what the model is not to answer.
    pub(super) async fn tell(&self, session: &str, text: &str) -> Result<(), HttpError> {
        let body = json!({ "noReply": true, "parts": [{ "type": "text", "text": text }] });
        let path = format!("/session/{session}/message");
        self.send_body("tell what was said before", &path, &body, LATER)
            .await
            .map(drop)
    }

    /// Asks, and waits for the whole answer.
    pub(super) async fn ask(
        &self,
        session: &str,
        text: &str,
        model: Option<&ModelName>,
        within: Duration,
    ) -> Result<MessageWithParts, HttpError> {
        let mut body = json!({ "parts": [{ "type": "text", "text": text }] });
        if let Some(model) = model {
            body["model"] = model_reference(model);
        }
        let path = format!("/session/{session}/message");
        self.post("ask", &path, &body, within).await
    }

    pub(super) async fn abort(&self, session: &str) -> Result<(), HttpError> {
        let path = format!("/session/{session}/abort");
        self.send_body("abort", &path, &json!({}), SOON)
            .await
            .map(drop)
    }

    pub(super) async fn revert(&self, session: &str, message: &str) -> Result<Session, HttpError> {
        let path = format!("/session/{session}/revert");
        let body = json!({ "messageID": message });
        self.post("revert", &path, &body, LATER).await
    }

    pub(super) async fn unrevert(&self, session: &str) -> Result<Session, HttpError> {
        let path = format!("/session/{session}/unrevert");
        self.post("bring back", &path, &json!({}), LATER).await
    }

    pub(super) async fn summarize(
        &self,
        session: &str,
        model: &ModelName,
        within: Duration,
    ) -> Result<(), HttpError> {
        let path = format!("/session/{session}/summarize");
        self.send_body("compact", &path, &model_reference(model), within)
            .await
            .map(drop)
    }

    pub(super) async fn diff_of(
        &self,
        session: &str,
        message: &str,
    ) -> Result<Vec<Diff>, HttpError> {
        // Without a message the answer is always empty.
        let path = format!("/session/{session}/diff?messageID={message}");
        self.get("compare", &path).await
    }

    pub(super) async fn diff_of_tree(&self) -> Result<Vec<Diff>, HttpError> {
        self.get("compare", "/vcs/diff?mode=git").await
    }

    pub(super) async fn permissions(&self) -> Result<Vec<PermissionRequest>, HttpError> {
        self.get("list permissions", "/permission").await
    }

    pub(super) async fn reply_permission(&self, id: &str, reply: &str) -> Result<(), HttpError> {
        let path = format!("/permission/{id}/reply");
        self.send_body(
            "decide on a permission",
            &path,
            &json!({ "reply": reply }),
            SOON,
        )
        .await
        .map(drop)
    }

    pub(super) async fn questions(&self) -> Result<Vec<QuestionRequest>, HttpError> {
        self.get("list questions", "/question").await
    }

    pub(super) async fn reply_question(
        &self,
        id: &str,
        answers: &[Vec<String>],
    ) -> Result<(), HttpError> {
        let path = format!("/question/{id}/reply");
        let body = json!({ "answers": answers });
        self.send_body("answer a question", &path, &body, SOON)
            .await
            .map(drop)
    }

    pub(super) async fn reject_question(&self, id: &str) -> Result<(), HttpError> {
        let path = format!("/question/{id}/reject");
        self.send_body("dismiss a question", &path, &json!({}), SOON)
            .await
            .map(drop)
    }

    /// Durable events after the given number of each session. Sessions that are not named come
    /// whole, so the caller names all it knows.
    pub(super) async fn history(
        &self,
        after: &HashMap<String, u64>,
    ) -> Result<Vec<Recorded>, HttpError> {
        let body = json!(after);
        self.post("read what was missed", "/sync/history", &body, LATER)
            .await
    }

    /// Holds keys in clear: nothing but names is taken from it.
    pub(super) async fn providers(&self) -> Result<Value, HttpError> {
        self.get("list models", "/config/providers").await
    }

    async fn delete(&self, operation: &'static str, path: &str) -> Result<(), HttpError> {
        let call = Call {
            operation,
            method: Method::DELETE,
            path,
            body: None,
            within: LATER,
        };
        self.client.call(call).await.map(drop)
    }

    async fn get<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        path: &str,
    ) -> Result<T, HttpError> {
        self.get_within(operation, path, LATER).await
    }

    async fn get_within<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        path: &str,
        within: Duration,
    ) -> Result<T, HttpError> {
        let call = Call {
            operation,
            method: Method::GET,
            path,
            body: None,
            within,
        };
        decode(operation, &self.client.call(call).await?)
    }

    async fn post<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        path: &str,
        body: &Value,
        within: Duration,
    ) -> Result<T, HttpError> {
        decode(
            operation,
            &self.send_body(operation, path, body, within).await?,
        )
    }

    async fn send_body(
        &self,
        operation: &'static str,
        path: &str,
        body: &Value,
        within: Duration,
    ) -> Result<bytes::Bytes, HttpError> {
        let call = Call {
            operation,
            method: Method::POST,
            path,
            body: Some(body.to_string().into_bytes()),
            within,
        };
        self.client.call(call).await
    }
}

fn decode<T: DeserializeOwned>(operation: &'static str, body: &[u8]) -> Result<T, HttpError> {
    serde_json::from_slice(body).map_err(|error| HttpError {
        operation,
        status: 0,
        message: format!("the reply is not what was expected: {error}"),
    })
}
