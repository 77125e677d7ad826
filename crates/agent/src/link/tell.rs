//! What an agent did, as the hub hears it. Pure: nothing is decided here.

use crate::event::{
    Change, ChangedFile, Choice, Choose, Content, DecidedBy, NewSession, Outcome, Permission,
    Question, QuestionItem, Reason, Status, TextKind, Tool, ToolState, TurnError, Usage, UsedBy,
};
use crate::{Event, Happening};
use ::wire::link::{self, ErrorFrame, FromRunner, PartContent};

/// The frames of one event, in order. A turn's end is the end of its prompt.
#[expect(
    clippy::too_many_lines,
    reason = "a table: one arm for each thing that happens"
)]
pub fn frames(event: Event) -> Vec<FromRunner> {
    let channel = event.channel.to_string();
    let prompt_id = event.prompt.map(|prompt| prompt.0);
    match event.happening {
        Happening::SessionStarted { session, why } => {
            let created = FromRunner::ChannelSessionCreated {
                channel: channel.clone(),
                agent_session: session.0,
            };
            match why {
                // Whoever asked for another one is told of the break by the name of the request.
                NewSession::First | NewSession::Asked => vec![created],
                NewSession::Lost => vec![created, lost(channel)],
            }
        }
        // The hub knows its prompt, and which message of the agent's it became is for us to remember;
        // what the model says to itself comes whole, when it is done.
        Happening::PromptTaken { .. }
        | Happening::PartDelta {
            kind: TextKind::Reasoning,
            ..
        } => Vec::new(),
        Happening::Transcribed { prompt, text } => vec![FromRunner::AudioTranscript {
            prompt_id: prompt.0,
            text,
        }],
        Happening::AgentStatus { status } => {
            let (status, detail) = agent_status(status);
            vec![FromRunner::AgentStatus {
                status,
                detail,
                prompt_id,
                channel: Some(channel),
            }]
        }
        Happening::TurnOpened { turn, prompt } => vec![FromRunner::Message {
            message_id: turn.to_string(),
            prompt_id: Some(prompt.0),
            channel,
            agent_session: event.session.map(|session| session.0),
        }],
        Happening::PartDelta {
            turn,
            part,
            kind: TextKind::Text,
            offset,
            text,
        } => vec![FromRunner::PartDelta {
            message_id: turn.to_string(),
            part_id: part.to_string(),
            offset,
            text,
        }],
        Happening::PartWhole {
            turn,
            part,
            content,
        } => vec![FromRunner::Part(link::Part {
            message_id: turn.to_string(),
            part_id: part.to_string(),
            open: false,
            content: part_content(content),
        })],
        Happening::Image {
            turn,
            prompt,
            image,
        } => vec![FromRunner::Image {
            image: link::Image {
                media_type: image.media_type,
                source: link::Source::Data(image.data),
                description: Some(image.description),
            },
            prompt_id: Some(prompt.0),
            message_id: Some(turn.to_string()),
        }],
        Happening::PartRemoved { turn, part } => vec![FromRunner::PartRemoved {
            message_id: turn.to_string(),
            part_id: part.to_string(),
        }],
        Happening::Used { prompt, by } => vec![FromRunner::Usage {
            prompt_id: prompt.0,
            entries: by.into_iter().map(used).collect(),
        }],
        Happening::TurnDone {
            turn,
            prompt,
            reason,
            text,
            error,
            usage,
        } => {
            let done = FromRunner::MessageDone {
                message_id: turn.to_string(),
                prompt_id: Some(prompt.0.clone()),
                reason: match reason {
                    Reason::EndTurn => link::Reason::EndTurn,
                    Reason::Error => link::Reason::Error,
                    Reason::Canceled => link::Reason::Canceled,
                },
                text,
                error: error.as_ref().map(words),
                usage: Some(tokens(usage)),
            };
            vec![done, end(reason, prompt.0, channel, error.as_ref())]
        }
        Happening::ModelSwitched {
            prompt,
            from,
            to,
            why,
        } => vec![FromRunner::ModelSwitched {
            prompt_id: prompt.0,
            channel,
            from: from.to_string(),
            to: to.to_string(),
            reason: why.message,
        }],
        Happening::Question(question) => {
            vec![FromRunner::Question(asked(question, prompt_id, channel))]
        }
        Happening::QuestionClosed { question, outcome } => vec![FromRunner::QuestionClosed {
            question_id: question.0,
            outcome: how(outcome),
        }],
        Happening::Permission(permission) => {
            vec![FromRunner::Permission(wanted(
                permission, prompt_id, channel,
            ))]
        }
        Happening::PermissionClosed {
            permission,
            action,
            targets,
            outcome,
            by,
        } => vec![FromRunner::PermissionClosed {
            id: permission.0,
            outcome: how(outcome),
            by: match by {
                DecidedBy::Policy => link::DecidedBy::Policy,
                DecidedBy::Person => link::DecidedBy::Person,
                DecidedBy::Nobody => link::DecidedBy::Nobody,
            },
            tool: Some(action),
            targets,
        }],
        Happening::FilesChanged { turn, files } => vec![FromRunner::FilesChanged {
            message_id: Some(turn.to_string()),
            files: files.into_iter().map(changed).collect(),
        }],
    }
}

/// How a prompt ended: in success or by being cancelled it is over, else it failed.
fn end(
    reason: Reason,
    prompt_id: String,
    channel: String,
    error: Option<&TurnError>,
) -> FromRunner {
    match reason {
        Reason::EndTurn => FromRunner::Complete { prompt_id, channel },
        Reason::Canceled => FromRunner::Canceled { prompt_id, channel },
        Reason::Error => FromRunner::Error(ErrorFrame {
            code: "agent".to_owned(),
            message: error.map_or_else(|| "the agent failed".to_owned(), words),
            prompt_id: Some(prompt_id),
            channel: Some(channel),
            request_id: None,
            frame: None,
        }),
    }
}

fn lost(channel: String) -> FromRunner {
    FromRunner::Error(ErrorFrame {
        code: "agent_session_lost".to_owned(),
        message: "the agent had forgotten this conversation and was told what is known of it"
            .to_owned(),
        prompt_id: None,
        channel: Some(channel),
        request_id: None,
        frame: None,
    })
}

/// An error that names every model that was tried.
fn words(error: &TurnError) -> String {
    let mut words = error.message.clone();
    for tried in &error.tried {
        let model = tried.model.as_ref().map(ToString::to_string);
        words.push('\n');
        words.push_str(model.as_deref().unwrap_or("the agent's own model"));
        words.push_str(": ");
        words.push_str(&tried.failure.message);
    }
    words
}

pub fn agent_status(status: Status) -> (link::AgentStatus, Option<String>) {
    match status {
        Status::Idle => (link::AgentStatus::Idle, None),
        Status::Thinking => (link::AgentStatus::Thinking, None),
        Status::ToolCalling { tool } => (link::AgentStatus::ToolCalling, Some(tool)),
        Status::Streaming => (link::AgentStatus::Streaming, None),
        Status::Waiting => (link::AgentStatus::Waiting, None),
        Status::Error => (link::AgentStatus::Error, None),
    }
}

pub fn part_content(content: Content) -> PartContent {
    match content {
        Content::Text { text } => PartContent::Text { text },
        Content::Reasoning { text } => PartContent::Reasoning { text },
        Content::Tool(Tool {
            call,
            name,
            state,
            args,
            result,
            error,
            exit_code,
            under,
        }) => PartContent::Tool(link::Tool {
            call_id: call,
            name,
            status: match state {
                ToolState::Pending => link::ToolState::Pending,
                ToolState::Running => link::ToolState::Running,
                ToolState::Completed => link::ToolState::Completed,
                ToolState::Error => link::ToolState::Error,
            },
            args,
            result,
            error,
            exit_code,
            under: under.map(|part| part.to_string()),
        }),
    }
}

fn used(used: UsedBy) -> link::UsageEntry {
    link::UsageEntry {
        agent_message: used.message,
        model: used
            .model
            .map(|model| model.to_string())
            .unwrap_or_default(),
        usage: tokens(used.usage),
    }
}

fn tokens(usage: Usage) -> link::Usage {
    link::Usage {
        input_tokens: usage.input,
        output_tokens: usage.output,
        reasoning_tokens: usage.reasoning,
        cache_read_tokens: usage.cache_read,
        cache_write_tokens: usage.cache_write,
    }
}

fn asked(question: Question, prompt_id: Option<String>, channel: String) -> link::Question {
    let item = |item: QuestionItem| link::QuestionItem {
        header: item.header,
        text: item.text,
        options: item.options.into_iter().map(choice).collect(),
        choose: match item.choose {
            Choose::One => link::Choose::One,
            Choose::Several => link::Choose::Several,
        },
        free_text: item.free_text,
    };
    link::Question {
        question_id: question.question.0,
        prompt_id,
        channel,
        items: question.items.into_iter().map(item).collect(),
        expires_at: Some(question.expires_at.to_string()),
    }
}

fn choice(choice: Choice) -> link::Choice {
    link::Choice {
        label: choice.label,
        description: choice.description,
    }
}

fn wanted(permission: Permission, prompt_id: Option<String>, channel: String) -> link::Permission {
    link::Permission {
        id: permission.permission.0,
        prompt_id,
        channel,
        tool: permission.action,
        targets: permission.targets,
        expires_at: Some(permission.expires_at.to_string()),
    }
}

fn how(outcome: Outcome) -> link::Outcome {
    match outcome {
        Outcome::Answered { answers } => link::Outcome::Answered { answers },
        Outcome::Allowed => link::Outcome::Allowed,
        Outcome::Refused => link::Outcome::Refused,
        Outcome::Expired => link::Outcome::Expired,
        Outcome::Gone => link::Outcome::Gone,
    }
}

pub fn change(change: Change) -> link::Change {
    match change {
        Change::Added => link::Change::Added,
        Change::Modified => link::Change::Modified,
        Change::Deleted => link::Change::Deleted,
    }
}

fn changed(file: ChangedFile) -> link::ChangedFile {
    link::ChangedFile {
        path: file.path,
        status: change(file.change),
        added: file.added,
        removed: file.removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{PermissionId, SessionRef};
    use crate::prompt::PromptId;
    use crate::{ChannelKey, Event};

    fn told(happening: Happening) -> FromRunner {
        let event = Event {
            channel: ChannelKey::web(),
            prompt: Some(PromptId("p1".to_owned())),
            session: Some(SessionRef("ses_1".to_owned())),
            happening,
        };
        frames(event).remove(0)
    }

    #[test]
    fn a_status_names_its_prompt_and_an_answer_its_conversation() {
        let status = told(Happening::AgentStatus {
            status: Status::Thinking,
        });
        assert!(
            matches!(&status, FromRunner::AgentStatus { prompt_id: Some(id), .. } if id == "p1"),
            "{status:?}"
        );
        let opened = told(Happening::TurnOpened {
            turn: model::Id::new(&model::SystemClock),
            prompt: PromptId("p1".to_owned()),
        });
        assert!(
            matches!(&opened, FromRunner::Message { agent_session: Some(id), .. } if id == "ses_1"),
            "{opened:?}"
        );
    }

    #[test]
    fn what_the_policy_allowed_is_told_with_what_it_was() {
        let closed = told(Happening::PermissionClosed {
            permission: PermissionId("per_1".to_owned()),
            action: "bash".to_owned(),
            targets: vec!["rm -r build".to_owned()],
            outcome: Outcome::Allowed,
            by: DecidedBy::Policy,
        });
        let FromRunner::PermissionClosed { tool, targets, .. } = closed else {
            panic!("{closed:?}");
        };
        assert_eq!(
            (tool.as_deref(), targets),
            (Some("bash"), vec!["rm -r build".to_owned()])
        );
    }
}
