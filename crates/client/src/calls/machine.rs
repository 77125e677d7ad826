//! What goes on in a session's sandbox.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use wire::v1::{
    AllowEgress, AllowedEgress, Egress, EnvValues, ExecAnswer, ExecRequest, PortList, ServiceList,
    Share, ShareMade,
};

use super::{SESSIONS, V1};
use crate::call::whole;
use crate::{Client, ClientError};

/// Beyond what a command may take: the sandbox may have to be resumed first.
const AROUND_A_COMMAND: Duration = Duration::from_mins(2);
/// For a command without a limit of its own.
const LONG: Duration = Duration::from_hours(1);
const LONGEST_LOGS: usize = 16 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceAction {
    Start,
    Stop,
    Restart,
}

impl ServiceAction {
    fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
        }
    }
}

impl Client {
    /// Runs a command to its end. Not tried again: it may have run.
    pub async fn exec(
        &self,
        session: &str,
        request: &ExecRequest,
    ) -> Result<ExecAnswer, ClientError> {
        let limit = request.timeout_ms.map_or(LONG, Duration::from_millis);
        self.call(Method::POST, &[V1, SESSIONS, session, "exec"])
            .json(request)
            .within(limit.saturating_add(AROUND_A_COMMAND))
            .answer()
            .await
    }

    pub async fn ports(&self, session: &str) -> Result<PortList, ClientError> {
        self.call(Method::GET, &[V1, SESSIONS, session, "ports"])
            .answer()
            .await
    }

    pub async fn services(&self, session: &str) -> Result<ServiceList, ClientError> {
        self.call(Method::GET, &[V1, SESSIONS, session, "services"])
            .answer()
            .await
    }

    pub async fn act_on_service(
        &self,
        session: &str,
        name: &str,
        action: ServiceAction,
    ) -> Result<(), ClientError> {
        let path = [V1, SESSIONS, session, "services", name, action.word()];
        self.call(Method::POST, &path).patient().done().await
    }

    /// The last that a service printed.
    pub async fn service_logs(&self, session: &str, name: &str) -> Result<String, ClientError> {
        let path = [V1, SESSIONS, session, "services", name, "logs"];
        let response = self.call(Method::GET, &path).response().await?;
        let logs = whole(response, LONGEST_LOGS).await?;
        Ok(String::from_utf8_lossy(&logs).into_owned())
    }

    pub async fn git_status(
        &self,
        session: &str,
        repo: Option<&str>,
    ) -> Result<Value, ClientError> {
        self.call(Method::GET, &[V1, SESSIONS, session, "git", "status"])
            .query("repo", repo)
            .answer()
            .await
    }

    pub async fn git_diff(&self, session: &str, repo: Option<&str>) -> Result<Value, ClientError> {
        self.call(Method::GET, &[V1, SESSIONS, session, "git", "diff"])
            .query("repo", repo)
            .answer()
            .await
    }

    /// Gives values that were asked for. They are in no transcript.
    pub async fn give_env(&self, session: &str, values: &EnvValues) -> Result<(), ClientError> {
        self.call(Method::POST, &[V1, SESSIONS, session, "env"])
            .json(values)
            .once()
            .done()
            .await
    }

    /// A link to one port that lets anybody in, for a while.
    /// What the session's sandboxes may reach, and what they were refused.
    pub async fn egress(&self, session: &str) -> Result<Egress, ClientError> {
        self.call(Method::GET, &[V1, SESSIONS, session, "egress"])
            .answer()
            .await
    }

    /// Lets them reach a host, once or for good.
    pub async fn allow_egress(
        &self,
        session: &str,
        wanted: &AllowEgress,
    ) -> Result<AllowedEgress, ClientError> {
        self.call(Method::POST, &[V1, SESSIONS, session, "egress"])
            .json(wanted)
            .answer()
            .await
    }

    pub async fn share(&self, session: &str, share: &Share) -> Result<ShareMade, ClientError> {
        self.call(Method::POST, &[V1, SESSIONS, session, "shares"])
            .json(share)
            .answer()
            .await
    }

    pub async fn unshare(&self, session: &str, id: &str) -> Result<(), ClientError> {
        self.call(Method::DELETE, &[V1, SESSIONS, session, "shares", id])
            .done()
            .await
    }
}
