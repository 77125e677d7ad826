//! From the queue to a collector: in batches, beside everything else, and never twice.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use model::Secret;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::otlp;
use crate::span::{Record, Sink, install, lost};

/// Spans that wait to be sent; what comes then is lost, and counted.
const QUEUE: usize = 4096;
const BATCH: usize = 512;
/// From the first of a batch until it is sent.
const GATHER: Duration = Duration::from_secs(2);
/// For a collector to take a batch.
const PATIENCE: Duration = Duration::from_secs(10);
/// For the last ones, when the process ends.
const FAREWELL: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub struct Settings {
    /// Of a collector that speaks OTLP over HTTP, without `/v1/traces`.
    pub endpoint: String,
    /// `name=value`, with commas between: what the collector wants to see.
    pub headers: Option<Secret>,
    pub service: String,
    pub version: String,
    /// Which process of several.
    pub instance: String,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("`{0}` is no http or https address of a collector")]
    Endpoint(String),
    // Never the headers themselves: a key may be among them.
    #[error("the headers for the collector are as in `name=value,name=value`")]
    Headers,
    #[error("the collector's HTTP client cannot be set up")]
    Client(#[source] reqwest::Error),
    #[error("spans of this process are sent already")]
    Twice,
}

/// Sends what is over, until it is told to stop.
#[derive(Debug)]
pub struct Exporter {
    stop: CancellationToken,
    sending: JoinSet<()>,
}

/// From now on spans are kept, and sent there.
pub fn start(settings: Settings) -> Result<Exporter, StartError> {
    let sender = Sender::new(settings)?;
    let (queue, records) = mpsc::channel(QUEUE);
    let lost = AtomicU64::new(0);
    if !install(Sink { queue, lost }) {
        return Err(StartError::Twice);
    }
    let stop = CancellationToken::new();
    let mut sending = JoinSet::new();
    sending.spawn(sender.run(records, stop.clone()));
    Ok(Exporter { stop, sending })
}

impl Exporter {
    /// What is over by now is sent, if the collector takes it soon.
    pub async fn finish(mut self) {
        self.stop.cancel();
        let _ = timeout(FAREWELL, self.sending.join_next()).await;
    }
}

struct Sender {
    client: reqwest::Client,
    url: Url,
    settings: Settings,
    /// It is said once, and when it is over.
    is_failing: bool,
}

impl Sender {
    fn new(settings: Settings) -> Result<Self, StartError> {
        let wrong = || StartError::Endpoint(settings.endpoint.clone());
        let url = format!("{}/v1/traces", settings.endpoint.trim_end_matches('/'));
        let url: Url = url.parse().map_err(|_| wrong())?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        if !matches!(url.scheme(), "http" | "https") || !is_plain {
            return Err(wrong());
        }
        let mut headers = read_headers(settings.headers.as_ref())?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // Fails when the process has chosen one before, which is as good.
        let _chosen = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .default_headers(headers)
            .build()
            .map_err(StartError::Client)?;
        Ok(Self {
            client,
            url,
            settings,
            is_failing: false,
        })
    }

    async fn run(mut self, mut records: mpsc::Receiver<Record>, stop: CancellationToken) {
        let mut batch = Vec::new();
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(first) = records.recv() => batch.push(first),
            }
            let until = Instant::now() + GATHER;
            while batch.len() < BATCH {
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = sleep_until(until) => break,
                    Some(next) = records.recv() => batch.push(next),
                }
            }
            self.send(&mut batch).await;
        }
        while let Ok(record) = records.try_recv() {
            batch.push(record);
            if batch.len() == BATCH {
                self.send(&mut batch).await;
            }
        }
        self.send(&mut batch).await;
    }

    /// What is not taken is given up: whoever looks will see the next.
    async fn send(&mut self, batch: &mut Vec<Record>) {
        if batch.is_empty() {
            return;
        }
        let document = otlp::document(batch, &self.settings).to_string();
        let spans = batch.len();
        batch.clear();
        let lost = lost();
        if lost > 0 {
            tracing::warn!(lost, "spans were lost: more came than the collector takes");
        }
        let sent = self.client.post(self.url.clone()).body(document).send();
        let taken = sent.await.and_then(reqwest::Response::error_for_status);
        match taken {
            Ok(_) => self.is_failing = false,
            Err(error) => {
                if !self.is_failing {
                    let error = error.without_url();
                    tracing::warn!(%error, spans, "the collector does not take spans");
                }
                self.is_failing = true;
            }
        }
    }
}

fn read_headers(text: Option<&Secret>) -> Result<HeaderMap, StartError> {
    let mut headers = HeaderMap::new();
    let text = text.map_or("", |text| text.expose());
    let pairs = text.split(',').map(str::trim);
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(StartError::Headers)?;
        let name: HeaderName = name.trim().parse().map_err(|_| StartError::Headers)?;
        let value = HeaderValue::from_str(value.trim());
        let mut value = value.map_err(|_| StartError::Headers)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(endpoint: &str, headers: Option<&str>) -> Settings {
        Settings {
            endpoint: endpoint.to_owned(),
            headers: headers.map(Secret::new),
            service: "nacre".to_owned(),
            version: "0".to_owned(),
            instance: "one".to_owned(),
        }
    }

    #[test]
    fn spans_go_below_the_address_that_was_given() {
        for given in ["http://127.0.0.1:4318", "http://127.0.0.1:4318/"] {
            let sender = Sender::new(settings(given, None)).ok().unwrap();
            assert_eq!(sender.url.as_str(), "http://127.0.0.1:4318/v1/traces");
        }
        for wrong in ["", "127.0.0.1:4318", "ftp://a", "http://user:word@a"] {
            assert!(Sender::new(settings(wrong, None)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_collectors_key_is_in_no_error() {
        let good = Secret::new("authorization=Basic YTpi, x-team=pearl");
        let read = read_headers(Some(&good)).unwrap();
        assert_eq!(read["authorization"], "Basic YTpi");
        let error = read_headers(Some(&Secret::new("hush")));
        assert!(!format!("{error:?} {}", error.as_ref().unwrap_err()).contains("hush"));
    }
}
