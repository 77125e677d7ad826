//! Counters of what is asked and how long it takes, for Prometheus.

use std::sync::OnceLock;
use std::time::Instant;

use ::metrics::{counter, histogram};
use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// One for the whole process: what counts does not know for whom.
static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// In seconds; from what a look takes to what a start takes.
const BUCKETS: [f64; 10] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0];

pub(crate) fn start() -> Option<&'static PrometheusHandle> {
    let recorder = RECORDER.get_or_init(|| {
        let builder = PrometheusBuilder::new().set_buckets(&BUCKETS).ok()?;
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        ::metrics::set_global_recorder(recorder).ok()?;
        Some(handle)
    });
    recorder.as_ref()
}

/// By route, never by address: what is in one is somebody's.
pub(crate) async fn count(request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
    let method = known(request.method()).to_owned();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    // For whoever names the request in a line or a trace.
    if let Some(matched) = matched {
        response.extensions_mut().insert(matched);
    }
    let status = response.status().as_u16().to_string();
    let labels = [("method", method), ("route", route), ("status", status)];
    counter!("nacre_http_requests_total", &labels).increment(1);
    let [method, route, _] = labels;
    histogram!("nacre_http_seconds", &[method, route]).record(begun.elapsed().as_secs_f64());
    response
}

/// Whoever asks may call a method anything; each word of theirs would be kept for ever.
pub(crate) fn known(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_that_nobody_knows_are_counted_as_one() {
        for method in ["AAAA1", "AAAA2", "get"] {
            assert_eq!(known(&method.parse().unwrap()), "other");
        }
        assert_eq!(known(&Method::GET), "GET");
    }
}
