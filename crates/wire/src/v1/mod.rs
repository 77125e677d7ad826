//! What clients and servers say to each other over HTTP, as JSON: the bodies of `/v1` and the frames
//! of a session's socket.
//!
//! Keys are in `snake_case`, times are RFC 3339, durations milliseconds with `_ms`, sizes bytes. Ids
//! are text here: a client only hands them back.

mod account;
mod egress;
mod event;
mod fault;
mod frame;
mod host;
mod machine;
mod message;
mod problem;
mod prompt;
mod pull;
mod repository;
mod secret;
mod session;
mod snapshot;
mod tool;
mod usage;

pub use account::{
    AuditLine, Caller, ChangeOrganisation, Login, LoginCode, Member, MemberPut, NewLoginCode,
    NewMember, NewOrganisation, NewToken, Organisation, Role, Token, TokenMade, User,
};
pub use egress::{
    Allow, AllowEgress, AllowedEgress, Egress, EgressBlocked, EgressPass, EgressPolicy, NewEgress,
};
pub use event::{Event, EventPart, Opened};
pub use fault::{Fault, FaultInfo, Next};
pub use frame::{FromClient, Init, PipeWord, Presence, Runtime, STDERR, STDOUT, Watcher, numbered};
pub use host::{Doctor, EgressDefaults, Finding, FindingStatus, Storage, StoragePart};
pub use machine::{
    Endpoint, EnvValues, ExecAnswer, ExecRequest, FileEntry, FileList, ModelInfo, ModelList,
    PortInfo, PortList, ProviderInfo, ProviderList, ServiceInfo, ServiceList, Share, ShareInfo,
    ShareMade, TerminalInfo, TerminalList, TunnelInfo, TunnelList, Upload,
};
pub use message::{Message, MessagePart};
pub use problem::{CODES, Problem};
pub use prompt::{EditPrompt, NewPrompt, Prompt, PromptMode, PromptStatus};
pub use pull::{NewPull, Pull, PullState};
pub use repository::{NewRepository, Repository};
pub use secret::{NewSecret, SecretInfo, SecretScope};
pub use session::{
    AgentState, ChangeSession, ClientStatus, Degraded, Fork, NewRepo, NewSession, PhaseInfo,
    Recover, Session, SessionType, SessionWithReceipt, Status,
};
pub use snapshot::{NewSnapshot, Receipt, SnapshotInfo};
pub use tool::{
    Action, ActionList, ActionOffer, ActionRisk, ActionStatus, Decision, Evidence, Setup,
};
pub use usage::{PromptUsage, SessionUsage, Usage};

use serde::{Deserialize, Serialize};

/// Some of a list, and where to go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Given as `cursor` it leads to the next ones. Absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
