//! The agent's tools as it finds them: MCP over HTTP on loopback, behind a token.
//!
//! Each request stands for itself: there is no session to lose when we are started again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::AUTHORIZATION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use model::Secret;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Map, Value};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

pub const PATH: &str = "/mcp";

const MAX_CONNECTIONS: usize = 64;
const MAX_REQUEST: usize = 1 << 20;
const HEADERS: Duration = Duration::from_secs(10);

/// One call, to be answered by whoever has the tools.
#[derive(Debug)]
pub struct Call {
    pub tool: String,
    pub arguments: Map<String, Value>,
    /// What the tool says, or why it did not work; both are for the agent.
    pub reply: oneshot::Sender<Result<String, String>>,
}

/// What a tool is called, what it is for, and what it takes.
#[derive(Debug, Clone)]
pub struct Description {
    pub name: &'static str,
    pub description: &'static str,
    pub schema: Map<String, Value>,
}

#[derive(Clone)]
struct Server {
    tools: Arc<Vec<Tool>>,
    calls: mpsc::Sender<Call>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("nacre", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (reply, answer) = oneshot::channel();
        let call = Call {
            tool: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
            reply,
        };
        let answered = match self.calls.send(call).await {
            Ok(()) => answer.await.ok(),
            Err(_) => None,
        };
        let result = match answered {
            Some(Ok(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Some(Err(why)) => CallToolResult::error(vec![ContentBlock::text(why)]),
            None => {
                let why = "the tools are being shut down; try again in a moment";
                CallToolResult::error(vec![ContentBlock::text(why)])
            }
        };
        Ok(result.into())
    }
}

/// Serves for as long as it is polled.
pub async fn serve(
    listener: TcpListener,
    token: Secret,
    tools: &[Description],
    calls: mpsc::Sender<Call>,
) {
    let tools = tools
        .iter()
        .map(|tool| Tool::new(tool.name, tool.description, tool.schema.clone()))
        .collect();
    let server = Server {
        tools: Arc::new(tools),
        calls,
    };
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_REQUEST);
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    let token = Arc::new(format!("Bearer {}", token.expose()));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if connections.len() < MAX_CONNECTIONS => {
                    connections.spawn(connection(stream, service.clone(), Arc::clone(&token)));
                }
                Ok(_) => {}
                // Out of descriptors: those in use come back.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(
    stream: TcpStream,
    service: StreamableHttpService<Server, NeverSessionManager>,
    token: Arc<String>,
) {
    let visit = service_fn(move |request: Request<Incoming>| {
        let (service, token) = (service.clone(), Arc::clone(&token));
        async move {
            let shown = request.headers().get(AUTHORIZATION);
            let is_let_in = shown.is_some_and(|shown| same(shown.as_bytes(), token.as_bytes()));
            let refuse = |status| {
                let mut refused = Response::new(Full::new(Bytes::new()).boxed());
                *refused.status_mut() = status;
                Ok::<_, Infallible>(refused)
            };
            if !is_let_in {
                return refuse(StatusCode::UNAUTHORIZED);
            }
            if request.uri().path() != PATH {
                return refuse(StatusCode::NOT_FOUND);
            }
            Ok(service.handle(request).await)
        }
    });
    // A client that breaks off is none of our business.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .serve_connection(TokioIo::new(stream), visit)
        .await;
}

/// Takes as long for the first wrong byte as for the last.
fn same(shown: &[u8], expected: &[u8]) -> bool {
    shown.len() == expected.len()
        && shown
            .iter()
            .zip(expected)
            .fold(0, |differs, (a, b)| differs | (a ^ b))
            == 0
}
