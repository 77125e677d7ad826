//! How a connection to the hub comes about when it is we who dial.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use carrier::{Connection, web_socket_config};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Request, Uri};
use tokio_tungstenite::tungstenite::{self, Error};
use wire::workplace::LINK_DOOR;

// Named for its cryptography, which the WebSocket library leaves to us.
#[cfg(feature = "wss")]
use rustls as _;

use crate::hands::{Hands, HandsError};

/// A hub that does not answer in this time is tried again.
const LIMIT: Duration = Duration::from_secs(10);

pub type Dialling = Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send>>;

pub trait Dial: fmt::Debug + Send {
    fn dial(&mut self) -> Dialling;
}

#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error(transparent)]
    Door(#[from] HandsError),
    #[error("the hub cannot be reached at {address}")]
    Unreachable {
        address: String,
        #[source]
        source: std::io::Error,
    },
    #[error("the hub did not answer within {} s", LIMIT.as_secs())]
    Silent,
    #[error("the hub does not let us in: HTTP {status}")]
    Refused { status: u16 },
    #[error("`{0}` is not an address of a hub: it begins with ws:// or wss://")]
    NoAddress(String),
    #[cfg(not(feature = "wss"))]
    #[error("wss:// is not built in; build with the feature `wss`, or give a ws:// address")]
    NoTls,
    #[error("the hub does not speak WebSocket")]
    Protocol(#[source] Box<Error>),
}

/// The link door, which opens to PID 1 alone.
#[derive(Debug)]
pub struct Door(pub Arc<Hands>);

impl Dial for Door {
    fn dial(&mut self) -> Dialling {
        let hands = Arc::clone(&self.0);
        Box::pin(async move { Ok(Connection::lines(hands.knock(LINK_DOOR)?)) })
    }
}

/// A hub's address. The token goes into a header, never into the address.
pub struct Address {
    pub url: String,
    pub token: String,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Dial for Address {
    fn dial(&mut self) -> Dialling {
        let request = self.request();
        Box::pin(async move {
            let connecting = async { connect(request?).await };
            tokio::time::timeout(LIMIT, connecting)
                .await
                .unwrap_or(Err(DialError::Silent))
        })
    }
}

impl Address {
    fn request(&self) -> Result<Request<()>, DialError> {
        let no_address = || DialError::NoAddress(self.url.clone());
        let mut request = self
            .url
            .as_str()
            .into_client_request()
            .map_err(|_| no_address())?;
        let token = format!("Bearer {}", self.token);
        let mut token = HeaderValue::try_from(token).map_err(|_| no_address())?;
        token.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, token);
        Ok(request)
    }
}

async fn connect(request: Request<()>) -> Result<Connection, DialError> {
    let (host, port, is_secret) = place(request.uri())?;
    let address = format!("{host}:{port}");
    let stream = TcpStream::connect(&address)
        .await
        .map_err(|source| DialError::Unreachable { address, source })?;
    // Small frames, as they come.
    let _ = stream.set_nodelay(true);
    if is_secret {
        return encrypted(request, stream).await;
    }
    let config = Some(web_socket_config());
    let (socket, _) = tokio_tungstenite::client_async_with_config(request, stream, config)
        .await
        .map_err(refusal)?;
    Ok(Connection::web_socket(socket))
}

fn place(uri: &Uri) -> Result<(String, u16, bool), DialError> {
    let no_address = || DialError::NoAddress(uri.to_string());
    let is_secret = match uri.scheme_str() {
        Some("ws") => false,
        Some("wss") => true,
        _ => return Err(no_address()),
    };
    let host = uri.host().ok_or_else(no_address)?.to_owned();
    let port = uri.port_u16().unwrap_or(if is_secret { 443 } else { 80 });
    Ok((host, port, is_secret))
}

#[cfg(feature = "wss")]
async fn encrypted(request: Request<()>, stream: TcpStream) -> Result<Connection, DialError> {
    let config = Some(web_socket_config());
    let (socket, _) =
        tokio_tungstenite::client_async_tls_with_config(request, stream, config, None)
            .await
            .map_err(refusal)?;
    Ok(Connection::web_socket(socket))
}

#[cfg(not(feature = "wss"))]
#[expect(clippy::unused_async, reason = "it waits where TLS is built in")]
async fn encrypted(_: Request<()>, _: TcpStream) -> Result<Connection, DialError> {
    Err(DialError::NoTls)
}

fn refusal(error: tungstenite::Error) -> DialError {
    match error {
        Error::Http(response) => DialError::Refused {
            status: response.status().as_u16(),
        },
        other => DialError::Protocol(Box::new(other)),
    }
}
