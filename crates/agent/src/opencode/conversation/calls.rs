//! What goes between a conversation and its driver.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::event::{Happening, NewSession, PermissionId, QuestionId};
use crate::opencode::api::Sending;
use crate::opencode::wire;
use crate::prompt::{Attachment, ModelName};

/// What has to be done for a conversation. `serial` says for which turn.
#[derive(Debug)]
pub(in crate::opencode) enum Call {
    Prepare {
        serial: u64,
        audio: Vec<Attachment>,
        known: Option<String>,
        verified: Verified,
    },
    Send {
        serial: u64,
        session: String,
        sending: Arc<Sending>,
        model: Option<ModelName>,
        /// Messages of failed attempts. A prompt that has an answer is not answered again, however
        /// empty it is, so they go first.
        forget: Vec<String>,
        after: Duration,
    },
    Abort {
        serial: u64,
        session: String,
    },
    Look {
        serial: u64,
        session: String,
        after: Duration,
    },
    Changes {
        session: String,
        mark: String,
        turn: model::Id<crate::event::Turn>,
    },
    ReplyPermission {
        id: PermissionId,
        reply: &'static str,
    },
    ReplyQuestion {
        id: QuestionId,
        answers: Vec<Vec<String>>,
    },
    RejectQuestion {
        id: QuestionId,
    },
}

/// Whether a session was looked at since the agent's process began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::opencode) enum Verified {
    Yes,
    No,
}

#[derive(Debug, Default)]
pub(in crate::opencode) struct Out {
    pub(in crate::opencode) happenings: Vec<Happening>,
    pub(in crate::opencode) calls: Vec<Call>,
}

/// A session that can be sent to.
#[derive(Debug)]
pub(in crate::opencode) struct Prepared {
    pub(in crate::opencode) session: String,
    pub(in crate::opencode) new: Option<NewSession>,
    /// What was said in audio attachments.
    pub(in crate::opencode) heard: Vec<String>,
}

/// A conversation as the agent has it.
#[derive(Debug)]
pub(in crate::opencode) struct Look {
    /// When it was begun: what was asked later is not in it.
    pub(in crate::opencode) begun: Instant,
    /// Asked before the messages, so that an idle session's messages are its last.
    pub(in crate::opencode) status: wire::Status,
    pub(in crate::opencode) messages: Vec<wire::MessageWithParts>,
    pub(in crate::opencode) children: HashMap<String, Vec<wire::MessageWithParts>>,
    pub(in crate::opencode) permissions: Vec<wire::PermissionRequest>,
    pub(in crate::opencode) questions: Vec<wire::QuestionRequest>,
}
