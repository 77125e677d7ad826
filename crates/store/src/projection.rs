//! The transcript as the log tells it: messages, their parts, and what the agent asked. Changed in
//! the transaction that appends the event, and by nothing else, so that it can always be told
//! again.
//!
//! An event that cannot follow what is there is refused before it has a number. So the log holds
//! only what fits, and everything in it can be shown.

use model::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use wire::link::Reason;

use crate::columns::{from_json, json, millis, number, words};
use crate::connection::{Connection, changed};
use crate::limits::{self, cut, within};
use crate::log::Event;
use crate::{Error, Result};

words! {
    /// Who speaks in a message.
    Role ("role of a message") {
        User = "user",
        Assistant = "assistant",
        System = "system",
    }
}

/// Opens a message. A frame of the runner has neither `role` nor `author` nor `parts`: what the
/// hub writes for a person has, and is whole at once.
#[derive(Deserialize)]
struct Message {
    #[serde(rename = "message_id")]
    id: String,
    #[serde(default = "assistant")]
    role: Role,
    #[serde(default)]
    prompt_id: Option<String>,
    channel: String,
    #[serde(default)]
    author: Option<Value>,
    #[serde(default)]
    agent_session: Option<String>,
    #[serde(default)]
    parts: Vec<Whole>,
    /// It was said in the session that this one was forked from, and then.
    #[serde(default)]
    inherited: bool,
    #[serde(default)]
    created_at: Option<Timestamp>,
}

fn assistant() -> Role {
    Role::Assistant
}

#[derive(Deserialize)]
struct Whole {
    part_id: String,
    content: Value,
}

#[derive(Deserialize)]
struct Part {
    message_id: String,
    #[serde(rename = "part_id")]
    id: String,
    #[serde(default)]
    open: bool,
    content: Value,
}

#[derive(Deserialize)]
struct PartRemoved {
    message_id: String,
    part_id: String,
}

#[derive(Deserialize)]
struct MessageRemoved {
    message_id: String,
}

#[derive(Deserialize)]
struct MessageDone {
    message_id: String,
    reason: Reason,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    usage: Option<Value>,
    /// When, if not now: of one that is inherited.
    #[serde(default)]
    done_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Reverted {
    #[serde(default)]
    message_ids: Vec<String>,
}

#[derive(Deserialize)]
struct Asked {
    #[serde(alias = "question_id")]
    id: String,
    channel: String,
}

#[derive(Deserialize)]
struct Closed {
    #[serde(alias = "question_id")]
    id: String,
    outcome: Value,
}

/// What became of a prompt. With `content`: somebody said it otherwise while it waited.
#[derive(Deserialize)]
struct Prompt {
    id: String,
    #[serde(default)]
    content: Option<String>,
}

#[derive(Deserialize)]
struct EnvRequest {
    id: String,
}

pub(crate) async fn project(
    connection: &mut Connection<'_>,
    session: &str,
    event: &Event,
) -> Result<()> {
    let mut on = Projection {
        connection,
        session,
        event,
    };
    match event.kind.as_str() {
        "message" => on.message(&read(event)?).await,
        "part" => on.part(&read(event)?).await,
        "part.removed" => on.part_removed(&read(event)?).await,
        "message.removed" => on.message_removed(&read(event)?).await,
        "message.done" => on.message_done(&read(event)?).await,
        "reverted" => on.reverted(&read(event)?).await,
        "question" | "permission" => on.asked(&read(event)?).await,
        "question_closed" => on.closed("question", &read(event)?).await,
        "permission_closed" => on.closed("permission", &read(event)?).await,
        "prompt" => on.prompt(&read(event)?).await,
        "env_request" => on.env_asked(&read(event)?).await,
        "env_answered" => on.env_answered(&read(event)?).await,
        "part.delta" => Err(Error::Misfit("a piece of a part is not kept")),
        _ => Ok(()),
    }
}

fn read<T: for<'a> Deserialize<'a>>(event: &Event) -> Result<T> {
    from_json("event", &event.body)
        .map_err(|_| Error::Misfit("it does not say what one of its type has to say"))
}

struct Projection<'a, 'c> {
    connection: &'a mut Connection<'c>,
    session: &'a str,
    event: &'a Event,
}

impl Projection<'_, '_> {
    async fn message(&mut self, message: &Message) -> Result<()> {
        const PART: &str = "INSERT INTO parts
            (session_id, message_id, id, position, place, kind, content, size)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
            ON CONFLICT (session_id, message_id, id) DO NOTHING";
        // One that was taken back may come again; then it is a new one.
        const FORGET: &str = "DELETE FROM messages
            WHERE session_id = $1 AND id = $2 AND removed_seq IS NOT NULL";
        name(&message.id)?;
        name(&message.channel)?;
        for known in [&message.prompt_id, &message.agent_session] {
            known.as_deref().map_or(Ok(()), name)?;
        }
        few(&message.parts)?;
        if !self.open(message).await? {
            let id = &message.id;
            if changed!(self.connection, FORGET, [self.session, id])? == 0 {
                return Err(Error::Misfit("the message is there already"));
            }
            self.open(message).await?;
        }
        for (place, part) in (0..).zip(&message.parts) {
            name(&part.part_id)?;
            let content = json(&part.content);
            if changed!(
                self.connection,
                PART,
                [
                    self.session,
                    &message.id,
                    &part.part_id,
                    number(self.event.seq),
                    place,
                    kind(&part.content)?,
                    &content,
                    size(&content)
                ]
            )? == 0
            {
                return Err(Error::Misfit("two of its parts have one id"));
            }
        }
        Ok(())
    }

    /// Not when there is one of its name.
    async fn open(&mut self, message: &Message) -> Result<bool> {
        const SQL: &str = "INSERT INTO messages
            (session_id, id, position, role, channel, prompt_id, author, agent_session,
             created_at, done_at, reason, inherited)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
            ON CONFLICT (session_id, id) DO NOTHING";
        let said = message.created_at.filter(|_| message.inherited);
        let at = millis(said.unwrap_or(self.event.at));
        let (done_at, reason) = match message.role {
            Role::Assistant => (None, None),
            Role::User | Role::System => (Some(at), Some(word(Reason::EndTurn))),
        };
        let opened = changed!(
            self.connection,
            SQL,
            [
                self.session,
                &message.id,
                number(self.event.seq),
                message.role.as_str(),
                &message.channel,
                &message.prompt_id,
                message.author.as_ref().map(json),
                &message.agent_session,
                at,
                done_at,
                reason,
                i64::from(message.inherited)
            ]
        )?;
        Ok(opened == 1)
    }

    async fn part(&mut self, part: &Part) -> Result<()> {
        const SQL: &str = "INSERT INTO parts
            (session_id, message_id, id, position, place, kind, content, size)
            SELECT session_id, id, $3, $4, 0, $5, $6, $7 FROM messages
            WHERE session_id = $1 AND id = $2 AND done_at IS NULL AND removed_seq IS NULL
            ON CONFLICT (session_id, message_id, id)
            DO UPDATE SET kind = excluded.kind, content = excluded.content, size = excluded.size";
        if part.open {
            return Err(Error::Misfit("an open part is not kept"));
        }
        name(&part.message_id)?;
        name(&part.id)?;
        let content = json(&part.content);
        if changed!(
            self.connection,
            SQL,
            [
                self.session,
                &part.message_id,
                &part.id,
                number(self.event.seq),
                kind(&part.content)?,
                &content,
                size(&content)
            ]
        )? == 0
        {
            return Err(Error::Misfit("its message is not open"));
        }
        Ok(())
    }

    /// A part that was never whole is not there, and can be taken back all the same.
    async fn part_removed(&mut self, part: &PartRemoved) -> Result<()> {
        const OPEN: &str = "UPDATE messages SET position = position
            WHERE session_id = $1 AND id = $2 AND done_at IS NULL AND removed_seq IS NULL";
        const SQL: &str = "DELETE FROM parts WHERE session_id = $1 AND message_id = $2 AND id = $3";
        name(&part.message_id)?;
        name(&part.part_id)?;
        if changed!(self.connection, OPEN, [self.session, &part.message_id])? == 0 {
            return Err(Error::Misfit("its message is not open"));
        }
        changed!(
            self.connection,
            SQL,
            [self.session, &part.message_id, &part.part_id]
        )?;
        Ok(())
    }

    async fn message_removed(&mut self, message: &MessageRemoved) -> Result<()> {
        const SQL: &str = "UPDATE messages SET removed_seq = coalesce(removed_seq, $3)
            WHERE session_id = $1 AND id = $2";
        name(&message.message_id)?;
        if changed!(
            self.connection,
            SQL,
            [self.session, &message.message_id, number(self.event.seq)]
        )? == 0
        {
            return Err(Error::Misfit("there is no such message"));
        }
        Ok(())
    }

    async fn message_done(&mut self, done: &MessageDone) -> Result<()> {
        const SQL: &str = "UPDATE messages SET done_at = $3, reason = $4, error = $5, usage = $6
            WHERE session_id = $1 AND id = $2 AND done_at IS NULL AND removed_seq IS NULL";
        name(&done.message_id)?;
        if changed!(
            self.connection,
            SQL,
            [
                self.session,
                &done.message_id,
                millis(done.done_at.unwrap_or(self.event.at)),
                word(done.reason),
                done.error
                    .as_deref()
                    .map(|error| cut(error, limits::EVENT_BODY)),
                done.usage.as_ref().map(json)
            ]
        )? == 0
        {
            return Err(Error::Misfit("its message is not open"));
        }
        Ok(())
    }

    async fn reverted(&mut self, reverted: &Reverted) -> Result<()> {
        const SQL: &str = "UPDATE messages SET reverted_seq = coalesce(reverted_seq, $3)
            WHERE session_id = $1 AND id = $2";
        few(&reverted.message_ids)?;
        for message in &reverted.message_ids {
            name(message)?;
            changed!(
                self.connection,
                SQL,
                [self.session, message, number(self.event.seq)]
            )?;
        }
        Ok(())
    }

    /// What a person said is in the transcript as the agent gets it.
    async fn prompt(&mut self, prompt: &Prompt) -> Result<()> {
        const SQL: &str = "UPDATE parts SET content = $3, size = $4
            WHERE session_id = $1 AND id = 'text' AND message_id IN
                (SELECT id FROM messages
                 WHERE session_id = $1 AND prompt_id = $2 AND role = 'user')";
        let Some(text) = &prompt.content else {
            return Ok(());
        };
        name(&prompt.id)?;
        let content = serde_json::json!({ "kind": "text", "text": text }).to_string();
        changed!(
            self.connection,
            SQL,
            [self.session, &prompt.id, &content, size(&content)]
        )?;
        Ok(())
    }

    /// Asked again under the same name it is the same.
    async fn env_asked(&mut self, asked: &EnvRequest) -> Result<()> {
        const SQL: &str = "INSERT INTO env_requests (session_id, id, position, body, asked_at)
            VALUES ($1, $2, $3, $4, $5) ON CONFLICT (session_id, id) DO NOTHING";
        name(&asked.id)?;
        changed!(
            self.connection,
            SQL,
            [
                self.session,
                &asked.id,
                number(self.event.seq),
                &*self.event.body,
                millis(self.event.at)
            ]
        )?;
        Ok(())
    }

    async fn env_answered(&mut self, answered: &EnvRequest) -> Result<()> {
        const SQL: &str = "UPDATE env_requests SET answered_at = $3
            WHERE session_id = $1 AND id = $2 AND answered_at IS NULL";
        name(&answered.id)?;
        if changed!(
            self.connection,
            SQL,
            [self.session, &answered.id, millis(self.event.at)]
        )? == 0
        {
            return Err(Error::Misfit("no values are asked for under that name"));
        }
        Ok(())
    }

    async fn asked(&mut self, asked: &Asked) -> Result<()> {
        const SQL: &str = "INSERT INTO questions
            (session_id, id, kind, position, channel, body, asked_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            ON CONFLICT (session_id, kind, id) DO NOTHING";
        name(&asked.id)?;
        name(&asked.channel)?;
        if changed!(
            self.connection,
            SQL,
            [
                self.session,
                &asked.id,
                &self.event.kind,
                number(self.event.seq),
                &asked.channel,
                &*self.event.body,
                millis(self.event.at)
            ]
        )? == 0
        {
            return Err(Error::Misfit("it was asked already"));
        }
        Ok(())
    }

    async fn closed(&mut self, kind: &'static str, closed: &Closed) -> Result<()> {
        const SQL: &str = "UPDATE questions SET outcome = $4, closed_at = $5
            WHERE session_id = $1 AND kind = $2 AND id = $3 AND closed_at IS NULL";
        name(&closed.id)?;
        if changed!(
            self.connection,
            SQL,
            [
                self.session,
                kind,
                &closed.id,
                json(&closed.outcome),
                millis(self.event.at)
            ]
        )? == 0
        {
            return Err(Error::Misfit("nothing of that name is asked"));
        }
        Ok(())
    }
}

/// What others call something.
fn name(name: &str) -> Result<()> {
    within("a name in an event", name, limits::FOREIGN_ID)
}

/// Each of them takes a statement.
fn few<T>(list: &[T]) -> Result<()> {
    if list.len() > limits::LIST {
        return Err(Error::TooLarge {
            what: "a list in an event",
            limit: limits::LIST,
        });
    }
    Ok(())
}

fn kind(content: &Value) -> Result<&str> {
    let kind = content["kind"]
        .as_str()
        .ok_or(Error::Misfit("a part without a kind"))?;
    name(kind)?;
    Ok(kind)
}

/// In bytes, so that a page can be measured before it is read.
fn size(content: &str) -> i64 {
    i64::try_from(content.len()).unwrap_or(i64::MAX)
}

fn word(reason: Reason) -> &'static str {
    match reason {
        Reason::EndTurn => "end_turn",
        Reason::Error => "error",
        Reason::Canceled => "canceled",
    }
}
