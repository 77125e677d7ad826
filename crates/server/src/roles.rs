//! What one process does of all that there is to do.

use std::fmt;
use std::str::FromStr;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::app::App;
use crate::problem::Problem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Records of `/v1`, and the page.
    Api,
    /// Sessions themselves: sockets, previews, doors, and the hubs behind them.
    Gateway,
    /// What is done in the background: jobs, sweeps, tidying up.
    Worker,
}

/// Those of one process: all, unless it is told otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    pub api: bool,
    pub gateway: bool,
    pub worker: bool,
}

impl Roles {
    pub const ALL: Self = Self {
        api: true,
        gateway: true,
        worker: true,
    };

    pub fn of(roles: &[Role]) -> Self {
        Self {
            api: roles.contains(&Role::Api),
            gateway: roles.contains(&Role::Gateway),
            worker: roles.contains(&Role::Worker),
        }
    }

    fn has(self, role: Role) -> bool {
        match role {
            Role::Api => self.api,
            Role::Gateway => self.gateway,
            Role::Worker => self.worker,
        }
    }
}

impl FromStr for Role {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "api" => Ok(Self::Api),
            "gateway" => Ok(Self::Gateway),
            "worker" => Ok(Self::Worker),
            _ => Err("a role is `api`, `gateway` or `worker`"),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Api => "api",
            Self::Gateway => "gateway",
            Self::Worker => "worker",
        })
    }
}

/// Who else is asked for something else says so.
pub(crate) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    match serves(request.uri().path()) {
        Some(role) if !app.parts.roles.has(role) => refusal(role).into_response(),
        _ => next.run(request).await,
    }
}

pub(crate) fn refusal(role: Role) -> Problem {
    Problem::new(
        StatusCode::MISDIRECTED_REQUEST,
        "other-role",
        format!("this process does not serve that: ask one with the role `{role}`"),
    )
}

/// Who serves an address; none for what every process answers.
fn serves(path: &str) -> Option<Role> {
    let parts: Vec<&str> = path.trim_start_matches('/').splitn(5, '/').collect();
    match parts[..] {
        ["healthz" | "readyz" | "metrics" | "openapi.json"] => None,
        ["doors", ..]
        | [
            "v1",
            "sessions",
            _,
            "connect" | "events" | "terminal" | "exec" | "ports",
            ..,
        ] => Some(Role::Gateway),
        _ => Some(Role::Api),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_everybodys_and_sockets_and_doors_are_the_gateways() {
        for path in ["/healthz", "/readyz", "/metrics", "/openapi.json"] {
            assert_eq!(serves(path), None, "{path}");
        }
        for path in [
            "/doors/model/ses_1/openai/v1/responses",
            "/v1/sessions/ses_1/connect",
            "/v1/sessions/ses_1/events",
            "/v1/sessions/ses_1/ports/3000",
        ] {
            assert_eq!(serves(path), Some(Role::Gateway), "{path}");
        }
        for path in [
            "/",
            "/v1/sessions",
            "/v1/sessions/ses_1",
            "/v1/sessions/ses_1/prompts",
        ] {
            assert_eq!(serves(path), Some(Role::Api), "{path}");
        }
    }

    #[test]
    fn a_process_has_the_roles_that_it_was_given() {
        let roles = Roles::of(&["api".parse().unwrap(), "worker".parse().unwrap()]);
        assert!(roles.has(Role::Api) && roles.has(Role::Worker) && !roles.has(Role::Gateway));
        assert!("hub".parse::<Role>().is_err());
    }
}
