//! Where one module asks for something in its own words, and another has it.

use std::pin::Pin;

use bytes::Bytes;
use futures::future::LocalBoxFuture;
use hyper::{Method, Response};
use serde_json::{Value, json};
use wire::link::{Action, ActionsCall, Call as _, SaveSnapshot};

use crate::devtools::{self, HubError, HubRequest, Picture, TunnelRefused, TunnelRegistry};
use crate::gateway::{Handler, Origins, Socket};
use crate::link::{AskError, Handle, Who};
use crate::pictures;
use crate::terminal::{self, DEFAULT_NAME, TTYD_SUBPROTOCOL, Terminals, serve_ttyd};
use crate::tunnels::{Tunnel, TunnelError, Tunnels};

/// Whom the list of tunnels names for what is done from inside.
const ACTOR: &str = "inside";

impl TunnelRegistry for Tunnels {
    fn list(&self) -> Vec<Tunnel> {
        self.list()
    }

    fn register(&self, tunnel: Tunnel) -> Result<Tunnel, TunnelRefused> {
        self.register(&tunnel.name, tunnel.port, tunnel.protocol)
            .map_err(refused)
    }

    fn unregister(&self, name: &str) -> Result<(), TunnelRefused> {
        self.remove(name, ACTOR).map(drop).map_err(refused)
    }
}

fn refused(error: TunnelError) -> TunnelRefused {
    match error {
        TunnelError::Unknown(name) => TunnelRefused::Unknown(name),
        TunnelError::Full => TunnelRefused::Full(error.to_string()),
        TunnelError::Name | TunnelError::Port | TunnelError::OurPort(_) => {
            TunnelRefused::Bad(error.to_string())
        }
        other @ TunnelError::Store(_) => TunnelRefused::Failed(other.to_string()),
    }
}

/// The hub, as the dev tools ask it.
impl devtools::Hub for Handle {
    fn show(&self, picture: Picture) -> LocalBoxFuture<'_, Result<(), HubError>> {
        Box::pin(async move {
            let shown = pictures::show(self, picture, Who::default()).await;
            shown.map_err(HubError::Bad)
        })
    }

    fn ask(&self, request: HubRequest) -> LocalBoxFuture<'_, Result<Value, HubError>> {
        let (kind, payload) = asked(request);
        Box::pin(async move {
            let answer = self.ask_for(kind, payload, Who::default()).await;
            answer.map_err(hub_error)
        })
    }
}

fn hub_error(error: AskError) -> HubError {
    match error {
        AskError::JournalFull => HubError::Full,
        AskError::OutcomeUnknown { .. } => HubError::TimedOut,
        AskError::TooLong(_) => HubError::Bad(error.to_string()),
        AskError::Failed(failed) => match failed.code.as_str() {
            "not_found" => HubError::NotFound(failed.message),
            "bad_request" => HubError::Bad(failed.message),
            _ => HubError::Refused(failed.message),
        },
        other => HubError::Refused(other.to_string()),
    }
}

fn asked(request: HubRequest) -> (&'static str, Value) {
    let actions = |call: &ActionsCall| (ActionsCall::KIND, json!(call));
    match request {
        HubRequest::Snapshot { message } => (SaveSnapshot::KIND, json!(SaveSnapshot { message })),
        HubRequest::Actions => actions(&ActionsCall::List),
        HubRequest::ActionGuide { integration } => actions(&ActionsCall::Guide { integration }),
        HubRequest::InvokeAction {
            integration,
            action,
            params,
        } => actions(&ActionsCall::Run(Action {
            integration,
            action,
            params,
        })),
        HubRequest::Invocation { id } => actions(&ActionsCall::Status { invocation: id }),
    }
}

/// The terminal, as the gateway shows it.
#[derive(Debug)]
pub(crate) struct Screen {
    terminals: Terminals,
    origins: Origins,
}

impl Screen {
    pub(crate) fn new(terminals: &Terminals, origins: &Origins) -> Self {
        Self {
            terminals: terminals.clone(),
            origins: origins.clone(),
        }
    }
}

impl Handler for Screen {
    fn protocol(&self) -> &'static str {
        TTYD_SUBPROTOCOL
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Bytes> {
        terminal::page(method, path, &self.origins.list())
    }

    fn serve(&self, socket: Socket) -> Pin<Box<dyn Future<Output = ()>>> {
        let terminals = self.terminals.clone();
        Box::pin(async move { serve_ttyd(&terminals, DEFAULT_NAME, socket.stream).await })
    }
}

#[cfg(test)]
mod tests {
    use wire::link::Failed;

    use super::*;

    #[test]
    fn what_the_hub_does_not_have_is_not_found_and_what_it_does_not_understand_is_bad() {
        let failed = |code: &str| {
            let (code, message) = (code.to_owned(), "why".to_owned());
            hub_error(AskError::Failed(Failed { code, message }))
        };
        assert!(matches!(failed("not_found"), HubError::NotFound(_)));
        assert!(matches!(failed("bad_request"), HubError::Bad(_)));
        assert!(matches!(failed("denied"), HubError::Refused(_)));
    }
}
