//! Runner to workplace. The runner (PID 1) starts the workplace with one end of a socket pair as its
//! standard input, sends its [`Order`] there, and does for it what only PID 1 can: run commands and
//! move files in groups that end together, and knock at the link door, which opens to nobody else.
//!
//! The pair keeps messages apart (`SOCK_SEQPACKET`): each is one JSON value, at most [`MAX_MESSAGE`]
//! bytes, with the descriptors that belong to it.

use serde::{Deserialize, Serialize};

/// The largest message between runner and workplace.
pub const MAX_MESSAGE: usize = 16 << 10;

/// Ports on the sandbox's loopback that are ours.
pub const GATEWAY_PORT: u16 = 9000;
pub const DEVTOOLS_PORT: u16 = 4000;
pub const AGENT_PORT: u16 = 4096;
pub const PREVIEW_PORT: u16 = 20000;
pub const EDITOR_PORT: u16 = 8765;
pub const DESKTOP_PORT: u16 = 6080;
pub const VNC_PORT: u16 = 5900;
/// Where the agent finds its tools.
pub const TOOLS_PORT: u16 = 4001;
/// Where the runner carries what goes to the model and git doors.
pub const MODEL_PORT: u16 = 4002;
pub const GIT_PORT: u16 = 4003;

/// The desktop's screen, in everybody's environment.
pub const DISPLAY: &str = ":99";

/// No tunnel leads to these, and no list of ports has them.
pub const OUR_PORTS: [u16; 11] = [
    GATEWAY_PORT,
    DEVTOOLS_PORT,
    AGENT_PORT,
    PREVIEW_PORT,
    EDITOR_PORT,
    DESKTOP_PORT,
    VNC_PORT,
    TOOLS_PORT,
    MODEL_PORT,
    GIT_PORT,
    crate::keeper::EGRESS_PORT,
];

/// Who works in a sandbox, and where.
pub const USER: &str = "user";
pub const HOME: &str = "/home/user";
pub const WORKSPACE: &str = "/home/user/workspace";
/// What must outlive a sandbox and is not the user's: state, logs, the journal.
pub const STATE: &str = "/home/user/.nacre";

/// The door that leads to the hub.
pub const LINK_DOOR: &str = "link";

/// What a workplace is for. Given by the host, never written to the sandbox's disk.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub sandbox: String,
    pub generation: u64,
    pub boot: String,
    /// Absent in a sandbox that belongs to no session.
    #[serde(default)]
    pub session: Option<String>,
    /// How hub and runner find each other. Without it the workplace is served through its ports
    /// alone.
    #[serde(default)]
    pub link: Option<Link>,
    /// Of this session and generation: what lets in at the edge ports is derived from it. Without
    /// it nothing does.
    #[serde(default)]
    pub secret: Option<String>,
    /// Of the session: seals the journal, so that a later generation can read it and nobody inside.
    #[serde(default)]
    pub journal_key: Option<String>,
}

/// Who dials.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// The runner, at the link door.
    Door,
    /// The runner, to the hub's address.
    Dial { url: String, token: String },
    /// The hub, to the gateway's port.
    Listen,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Order")
            .field("sandbox", &self.sandbox)
            .field("generation", &self.generation)
            .field("boot", &self.boot)
            .field("session", &self.session)
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Door => f.write_str("Door"),
            Self::Dial { url, .. } => f
                .debug_struct("Dial")
                .field("url", url)
                .finish_non_exhaustive(),
            Self::Listen => f.write_str("Listen"),
        }
    }
}

/// What the workplace asks of PID 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// With one descriptor: a connection on which the workplace speaks [`crate::guest`].
    Operate,
    /// Answered by [`Reply::Door`] with the connected socket.
    Knock { door: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Door,
    /// Nobody is there, or there is no such door.
    Closed {
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tunnel_leads_to_a_port_that_we_promised_to_keep() {
        for port in [
            3128, 4000, 4001, 4002, 4003, 4096, 5900, 6080, 8765, 9000, 20000,
        ] {
            assert!(OUR_PORTS.contains(&port), "{port}");
        }
    }

    #[test]
    fn an_order_shows_no_secret() {
        let order = Order {
            sandbox: "s".to_owned(),
            generation: 1,
            boot: "b".to_owned(),
            session: None,
            link: Some(Link::Dial {
                url: "wss://hub.example/link".to_owned(),
                token: "canary-1".to_owned(),
            }),
            secret: Some("canary-2".to_owned()),
            journal_key: Some("canary-3".to_owned()),
        };
        assert!(!format!("{order:?}").contains("canary"));
    }
}
