use reqwest::Method;
use uuid::Uuid;
use wire::v1::{EditPrompt, NewPrompt, Prompt, Session};

use super::{SESSIONS, V1};
use crate::{Client, ClientError};

const PROMPTS: &str = "prompts";

impl Client {
    /// Asks the agent. It is given an id if it has none, so that it runs once however often it is
    /// sent.
    pub async fn send_prompt(
        &self,
        session: &str,
        mut prompt: NewPrompt,
    ) -> Result<Prompt, ClientError> {
        prompt.id.get_or_insert_with(new_prompt_id);
        self.call(Method::POST, &[V1, SESSIONS, session, PROMPTS])
            .json(&prompt)
            .same_again()
            .answer()
            .await
    }

    pub async fn prompt(&self, session: &str, id: &str) -> Result<Prompt, ClientError> {
        self.call(Method::GET, &[V1, SESSIONS, session, PROMPTS, id])
            .answer()
            .await
    }

    /// Says it otherwise, while it waits.
    pub async fn edit_prompt(
        &self,
        session: &str,
        id: &str,
        edit: &EditPrompt,
    ) -> Result<Prompt, ClientError> {
        self.call(Method::PATCH, &[V1, SESSIONS, session, PROMPTS, id])
            .json(edit)
            .answer()
            .await
    }

    /// Takes it back, while it waits.
    pub async fn withdraw_prompt(&self, session: &str, id: &str) -> Result<(), ClientError> {
        self.call(Method::DELETE, &[V1, SESSIONS, session, PROMPTS, id])
            .done()
            .await
    }

    /// Ends the running turns. Not tried again: by then another may run.
    pub async fn cancel(&self, session: &str) -> Result<Session, ClientError> {
        self.call(Method::POST, &[V1, SESSIONS, session, "cancel"])
            .answer()
            .await
    }
}

pub(crate) fn new_prompt_id() -> String {
    format!("prm_{}", Uuid::new_v4().simple())
}
