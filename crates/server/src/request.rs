//! Every request has a name and a place in a trace, from its head to its answer.

use std::time::Instant;

use axum::extract::MatchedPath;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::response::Response;
use model::Clock;
use telemetry::{Context, Kind, RequestId, Span};
use tracing::Instrument as _;

use crate::metrics;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// Asked every few seconds by programs; nobody wants to see that.
const DULL: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// A request that is to be answered.
pub(crate) struct Asked {
    id: RequestId,
    method: &'static str,
    context: Context,
    span: Span,
    is_traced_by_caller: bool,
}

impl Asked {
    pub(crate) fn new(clock: &dyn Clock, headers: &HeaderMap, method: &Method) -> Self {
        let theirs = headers.get(HEADER).and_then(|value| value.to_str().ok());
        let id = theirs
            .and_then(RequestId::read)
            .unwrap_or_else(|| RequestId::new(clock));
        let caller = gateway::traceparent(headers);
        let method = metrics::known(method);
        let span = telemetry::span(method, caller)
            .of_kind(Kind::Server)
            .with("http.request.method", method)
            .with("nacre.request", id.to_string());
        let context = Context {
            request: Some(id.clone()),
            trace: span.trace(),
        };
        Self {
            id,
            method,
            context,
            span,
            is_traced_by_caller: caller.is_some(),
        }
    }

    /// Under its name, and with it.
    pub(crate) async fn answered(self, answer: impl Future<Output = Response>) -> Response {
        let begun = Instant::now();
        let trace_id = self.context.trace.map(telemetry::Trace::id);
        // An error's level, so that every line that is written has them.
        let fields = tracing::error_span!("request", request_id = %self.id, trace_id);
        let answer = telemetry::within(self.context.clone(), answer);
        let mut response = answer.instrument(fields.clone()).await;
        let route = response.extensions().get::<MatchedPath>();
        // Never the address: what is in one is somebody's.
        let route = route.map_or("none", MatchedPath::as_str).to_owned();
        let status = response.status().as_u16();
        let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(parent: &fields, method = self.method, route, status, took_ms, "answered");
        if let Ok(id) = HeaderValue::from_str(self.id.as_str()) {
            // A preview may have one of its own, which its program knows.
            response.headers_mut().entry(HEADER).or_insert(id);
        }
        self.end(route, status);
        response
    }

    fn end(self, route: String, status: u16) {
        let mut span = self.span;
        if DULL.contains(&route.as_str()) && !self.is_traced_by_caller {
            return span.discard();
        }
        span.rename(format!("{} {route}", self.method));
        span.note("http.route", route);
        span.note("http.response.status_code", status);
        if status >= 500 {
            span.fail(format!("it was answered with {status}"));
        }
    }
}
