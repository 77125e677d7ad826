//! HTTP/1 to a server that is close by. A connection serves one request, because a server that is
//! just starting may never answer on those it took first.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::{Either, select};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use model::{Redactor, Secret};

use super::launch::USER;
use super::sse::{Frame, Parser};
use crate::dial::Dial;

/// Histories of long conversations are megabytes.
const MOST_BYTES: usize = 64 << 20;
/// How much of a reply is repeated in an error.
const MOST_SAID: usize = 500;

#[derive(Debug, Clone)]
pub(super) struct Client {
    dial: Arc<dyn Dial>,
    authorization: String,
    redactor: Redactor,
}

/// What went wrong with a request. A status of 0 means that there was no usable reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {message} (HTTP {status})")]
pub(super) struct HttpError {
    pub(super) operation: &'static str,
    pub(super) status: u16,
    pub(super) message: String,
}

impl HttpError {
    /// The session that was meant does not exist there.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.status, 404 | 410)
    }
}

pub(super) struct Call<'a> {
    pub(super) operation: &'static str,
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) body: Option<Vec<u8>>,
    pub(super) within: Duration,
}

impl Client {
    pub(super) fn new(dial: Arc<dyn Dial>, password: &Secret) -> Client {
        let credentials = STANDARD.encode(format!("{USER}:{}", password.expose()));
        Client {
            dial,
            redactor: Redactor::new([password.expose(), &credentials]),
            authorization: format!("Basic {credentials}"),
        }
    }

    /// The body of a reply that says it went well.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<Bytes, HttpError> {
        let operation = call.operation;
        let within = call.within;
        let failed = |status, message: String| HttpError {
            operation,
            status,
            message: self.said(&message),
        };
        let exchange = self.exchange(call);
        let (status, body) = match tokio::time::timeout(within, exchange).await {
            Ok(answer) => answer.map_err(|message| failed(0, message))?,
            Err(_) => {
                return Err(failed(0, format!("no answer within {within:?}")));
            }
        };
        if !(200..300).contains(&status) {
            return Err(failed(status, String::from_utf8_lossy(&body).into_owned()));
        }
        Ok(body)
    }

    async fn exchange(&self, call: Call<'_>) -> Result<(u16, Bytes), String> {
        let request = self.request(call.method, call.path, call.body)?;
        let (mut sender, connection) = self.connect().await?;
        let exchange = pin!(async move {
            let response = sender.send_request(request).await.map_err(words)?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), MOST_BYTES);
            let body = body.collect().await.map_err(|error| {
                match error.downcast::<LengthLimitError>() {
                    Ok(_) => format!("the reply is longer than {MOST_BYTES} bytes"),
                    Err(error) => error.to_string(),
                }
            })?;
            Ok((status, body.to_bytes()))
        });
        match select(exchange, connection).await {
            Either::Left((answer, _)) => answer,
            // What was read before the connection ended is still on its way.
            Either::Right((_, exchange)) => exchange.await,
        }
    }

    /// A stream of events; the server says what kind of reply it is.
    pub(super) async fn events(&self, path: &str, within: Duration) -> Result<Events, HttpError> {
        let failed = |status, message: String| HttpError {
            operation: "listen to events",
            status,
            message: self.said(&message),
        };
        let opening = async {
            let request = self
                .request(Method::GET, path, None)
                .map_err(|message| failed(0, message))?;
            let (mut sender, mut connection) =
                self.connect().await.map_err(|message| failed(0, message))?;
            let response = {
                let mut sending = pin!(sender.send_request(request));
                poll_fn(|context| {
                    let _ = connection.as_mut().poll(context);
                    sending.as_mut().poll(context)
                })
                .await
                .map_err(|error| failed(0, words(error)))?
            };
            let status = response.status().as_u16();
            if status != 200 || !is_event_stream(&response) {
                return Err(failed(status, "not a stream of events".to_owned()));
            }
            Ok(Events {
                connection: Some(connection),
                body: response.into_body(),
                parser: Parser::default(),
            })
        };
        match tokio::time::timeout(within, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(failed(0, format!("no answer within {within:?}"))),
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Request<Full<Bytes>>, String> {
        Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "127.0.0.1")
            .header(AUTHORIZATION, &self.authorization)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| error.to_string())
    }

    async fn connect(&self) -> Result<(http1::SendRequest<Full<Bytes>>, Connection), String> {
        let stream = self.dial.dial().await.map_err(|error| error.to_string())?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(words)?;
        Ok((sender, Box::pin(connection)))
    }

    fn said(&self, message: &str) -> String {
        let message = self.redactor.apply(message);
        message.chars().take(MOST_SAID).collect()
    }
}

type Connection = Pin<Box<dyn Future<Output = Result<(), hyper::Error>> + Send>>;

/// Errors of hyper name their cause only one level down.
#[expect(
    clippy::needless_pass_by_value,
    reason = "it is what map_err hands over"
)]
fn words(error: hyper::Error) -> String {
    match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn is_event_stream(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// Events as they come. Waiting for the next one may be given up and begun again.
pub(super) struct Events {
    connection: Option<Connection>,
    body: Incoming,
    parser: Parser,
}

impl Events {
    /// `None` when the server ended the stream.
    pub(super) async fn next(&mut self) -> Option<Result<Frame, String>> {
        loop {
            if let Some(frame) = self.parser.pop() {
                return Some(Ok(frame));
            }
            let piece = poll_fn(|context| {
                if let Some(connection) = &mut self.connection
                    && connection.as_mut().poll(context).is_ready()
                {
                    self.connection = None;
                }
                Pin::new(&mut self.body).poll_frame(context)
            });
            match piece.await? {
                Ok(piece) => {
                    if let Ok(data) = piece.into_data() {
                        self.parser.push(&data);
                    }
                }
                Err(error) => return Some(Err(words(error))),
            }
        }
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}
