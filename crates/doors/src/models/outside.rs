//! A request to an upstream elsewhere.

use bytes::Bytes;
use futures::StreamExt as _;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use model::{Redactor, Secret};

use super::config::Api;
use super::passing::Reply;
use crate::content::BoxError;
use crate::network::why;
use crate::{headers, models::endpoint::Endpoint};

/// What of a sandbox's headers an upstream gets to see.
const OUTWARDS: &[&str] = &[
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "idempotency-key",
    "openai-beta",
    "user-agent",
];

/// What goes out.
pub(super) struct Sending<'a> {
    pub(super) base: &'a str,
    pub(super) api: Api,
    pub(super) endpoint: Endpoint,
    pub(super) query: Option<&'a str>,
    pub(super) headers: &'a HeaderMap,
    pub(super) key: Option<&'a Secret>,
    pub(super) body: Bytes,
}

impl Sending<'_> {
    /// Or why not, in words that may enter a sandbox.
    pub(super) async fn send(self, client: &reqwest::Client) -> Result<Reply, String> {
        let headers = self.headers()?;
        let mut address = format!("{}/{}", self.base, self.endpoint.path());
        if let Some(query) = self.query {
            address = format!("{address}?{query}");
        }
        let mut request = client
            .request(self.endpoint.method(), address)
            .headers(headers);
        if self.endpoint.method() == Method::POST {
            request = request.body(self.body);
        }
        let secrets = Redactor::new(self.key.map(Secret::expose));
        let answer = request.send().await;
        let answer = answer.map_err(|error| why(error, &secrets))?;
        let status = answer.status();
        if status.is_redirection() || status.is_informational() {
            return Err(format!(
                "it answered {status}, and redirects are not followed; check its base URL"
            ));
        }
        if answer
            .headers()
            .get(CONTENT_ENCODING)
            .is_some_and(|encoding| encoding != "identity")
        {
            // We could neither count in it nor take the key out of it.
            return Err("its answer is compressed, though that was not asked for".to_owned());
        }
        Ok(Reply {
            status,
            headers: headers::inwards(answer.headers(), self.key),
            chunks: answer
                .bytes_stream()
                .map(move |chunk| chunk.map_err(|error| BoxError::from(why(error, &secrets))))
                .boxed(),
        })
    }

    fn headers(&self) -> Result<HeaderMap, String> {
        let mut kept = headers::only(self.headers, OUTWARDS);
        kept.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let Some(key) = self.key else {
            return Ok(kept);
        };
        let (name, value) = match self.api {
            Api::Anthropic => ("x-api-key", key.expose().to_owned()),
            Api::OpenAi => (AUTHORIZATION.as_str(), format!("Bearer {}", key.expose())),
        };
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| "its key has characters that no header can carry; set it again")?;
        value.set_sensitive(true);
        kept.insert(
            hyper::header::HeaderName::from_bytes(name.as_bytes()).map_err(|e| e.to_string())?,
            value,
        );
        Ok(kept)
    }
}

/// Upstreams' errors are read up to here.
const LONGEST_ERROR: usize = 1 << 20;

/// All of a short answer, or of a long one its beginning, without the key.
pub(super) async fn read_error(mut reply: Reply, key: Option<&Secret>) -> (StatusCode, Vec<u8>) {
    let mut read = Vec::new();
    let mut scrubber = crate::scrub::Scrubber::new(key);
    while let Some(Ok(chunk)) = reply.chunks.next().await {
        read.extend_from_slice(&scrubber.push(chunk));
        if read.len() > LONGEST_ERROR {
            read.truncate(LONGEST_ERROR);
            return (reply.status, read);
        }
    }
    read.extend_from_slice(&scrubber.rest());
    (reply.status, read)
}
