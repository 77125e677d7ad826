use std::time::Duration;

use reqwest::Url;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::call::{refused, retry_after, shown};
use crate::client::{is_local_name, local_addresses, port};
use crate::error::problem_of;
use crate::{Client, ClientError};

/// A WebSocket of the server, open.
pub type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

const LIMIT: Duration = Duration::from_secs(15);
/// A session is given so many chances to wake, of the server's ten seconds each.
const WAKING: u32 = 12;
/// The longest frame: an `init` with many messages.
const LONGEST: usize = 64 << 20;

impl Client {
    /// A WebSocket at a path below the server's address, with what is asked of it: a terminal.
    pub async fn open_socket(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Socket, ClientError> {
        let mut url = self.at(path)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut tries = 1;
        loop {
            match dial(self, url.clone()).await {
                // The server waited for it already, and nothing was begun.
                Err(error) if error.code() == Some("session-waking") && tries < WAKING => {
                    tries += 1;
                }
                done => return done,
            }
        }
    }
}

pub(super) async fn dial(client: &Client, url: Url) -> Result<Socket, ClientError> {
    let at = shown(&url);
    tokio::time::timeout(LIMIT, connect(client, url))
        .await
        .unwrap_or(Err(ClientError::Silent {
            url: at,
            waited: LIMIT,
        }))
}

async fn connect(client: &Client, mut url: Url) -> Result<Socket, ClientError> {
    let at = shown(&url);
    let bad = || ClientError::BadUrl(at.clone());
    let host = url.host_str().ok_or_else(bad)?.to_owned();
    let port = port(&url);
    let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
    url.set_scheme(scheme).map_err(|()| bad())?;
    let mut request = url.as_str().into_client_request().map_err(|_| bad())?;
    for (name, value) in client.headers() {
        request.headers_mut().insert(name, value.clone());
    }
    let stream = if is_local_name(&host) {
        TcpStream::connect(local_addresses(port).as_slice()).await
    } else {
        TcpStream::connect(format!("{host}:{port}")).await
    };
    let stream = stream.map_err(|source| ClientError::Unreachable {
        url: at.clone(),
        sent: false,
        source: source.into(),
    })?;
    // Small frames, as they come.
    let _ = stream.set_nodelay(true);
    let config = WebSocketConfig::default()
        .max_message_size(Some(LONGEST))
        .max_frame_size(Some(LONGEST));
    let config = Some(config);
    tokio_tungstenite::client_async_tls_with_config(request, stream, config, None)
        .await
        .map(|(socket, _)| socket)
        .map_err(|error| refusal(at, error))
}

fn refusal(url: String, error: tungstenite::Error) -> ClientError {
    match error {
        tungstenite::Error::Http(response) => {
            let status = response.status();
            let body = response.body().as_deref().unwrap_or_default();
            if status.is_client_error() || status.is_server_error() {
                let problem = problem_of(status.as_u16(), body);
                return refused(problem, retry_after(response.headers()));
            }
            ClientError::Protocol {
                url,
                detail: format!("it answers {status} where a socket is expected"),
            }
        }
        other => ClientError::Unreachable {
            url,
            sent: true,
            source: other.into(),
        },
    }
}
