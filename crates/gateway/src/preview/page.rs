use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use crate::answer::{Body, full, no_store};

/// A small page of ours.
pub(super) fn page(status: StatusCode, message: &str) -> Response<Body> {
    written(status, &format!("<p>{}</p>", escaped(message)), "")
}

/// One that looks again by itself.
pub(super) fn waiting(message: &str) -> Response<Body> {
    let again = "<meta http-equiv=\"refresh\" content=\"2\">";
    let body = format!("<p>{}</p>", escaped(message));
    let mut response = written(StatusCode::SERVICE_UNAVAILABLE, &body, again);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
    response
}

pub(super) fn nothing_there(port: u16, open: &[u16]) -> Response<Body> {
    let mut body = format!("<p>Nothing listens on port {port} of the sandbox.</p>");
    if open.is_empty() {
        body.push_str("<p>No port is open. Start a server there, and reload.</p>");
    } else {
        let open: Vec<String> = open.iter().map(u16::to_string).collect();
        let open = open.join(", ");
        body = format!("{body}<p>Open ports: {open}.</p>");
    }
    written(StatusCode::BAD_GATEWAY, &body, "")
}

fn written(status: StatusCode, body: &str, head: &str) -> Response<Body> {
    let text = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">{head}<title>Nacre</title></head>\
         <body>{body}</body></html>\n"
    );
    let mut response = Response::new(full(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, kind);
    let policy =
        HeaderValue::from_static("default-src 'none'; base-uri 'none'; form-action 'none'");
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    no_store(&mut response);
    response
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
