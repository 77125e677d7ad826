//! What only the hub can do, asked over the link.

use std::fmt;

use futures::future::LocalBoxFuture;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub enum HubRequest {
    Snapshot {
        message: Option<String>,
    },
    Actions,
    ActionGuide {
        integration: String,
    },
    InvokeAction {
        integration: String,
        action: String,
        params: Value,
    },
    /// How an invocation that waited for approval stands.
    Invocation {
        id: String,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error("this sandbox belongs to no session")]
    NotConfigured,
    #[error("the journal is full; try again when the hub is back")]
    Full,
    #[error("the hub did not answer in time")]
    TimedOut,
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Bad(String),
    #[error("{0}")]
    Refused(String),
}

/// Something to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    pub media_type: String,
    /// Base 64.
    pub data: String,
    pub description: Option<String>,
}

pub trait Hub: fmt::Debug {
    /// Into the conversation.
    fn show(&self, picture: Picture) -> LocalBoxFuture<'_, Result<(), HubError>>;

    /// Exactly one request over the link.
    fn ask(&self, request: HubRequest) -> LocalBoxFuture<'_, Result<Value, HubError>>;
}

/// In a sandbox that belongs to no session.
impl Hub for () {
    fn show(&self, _: Picture) -> LocalBoxFuture<'_, Result<(), HubError>> {
        Box::pin(std::future::ready(Err(HubError::NotConfigured)))
    }

    fn ask(&self, _: HubRequest) -> LocalBoxFuture<'_, Result<Value, HubError>> {
        Box::pin(std::future::ready(Err(HubError::NotConfigured)))
    }
}
