//! What the proxy writes: requests and responses as they go on, and answers of its own.

use relay::{Body, Fields, HeadError, Request, Response, Version};

use crate::target::Target;

/// For the next hop alone, whatever `Connection` says. The lengths and the host are written anew
/// from what was understood, so that nobody can have them removed by naming them there.
const NOT_FORWARDED: [&str; 10] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "upgrade",
    "proxy-authorization",
    "proxy-authenticate",
    "content-length",
    "transfer-encoding",
    "host",
];

/// A request as the server shall get it; `to_proxy` holds an upstream's credentials when it goes
/// through one and must stay absolute.
pub fn forwarded_request(
    request: &Request<'_>,
    target: &Target,
    path: &[u8],
    to_proxy: Option<&[u8]>,
    out: &mut Vec<u8>,
) {
    let host = if target.port == 80 {
        target.host.to_string()
    } else {
        target.to_string()
    };
    put(out, &[request.method.as_bytes(), b" "]);
    if to_proxy.is_some() {
        put(out, &[b"http://", host.as_bytes()]);
    }
    if !path.starts_with(b"/") {
        out.push(b'/');
    }
    let version: &[u8] = match request.version {
        Version::Http11 => b" HTTP/1.1\r\nHost: ",
        Version::Http10 => b" HTTP/1.0\r\nHost: ",
    };
    put(out, &[path, version, host.as_bytes(), b"\r\n"]);
    if let Some(credentials) = to_proxy.filter(|credentials| !credentials.is_empty()) {
        put(out, &[b"Proxy-Authorization: ", credentials, b"\r\n"]);
    }
    put_fields(out, &request.fields);
    put_length(out, request.body);
    out.extend_from_slice(b"\r\n");
}

/// A response as the client shall get it.
pub fn forwarded_response(response: &Response<'_>, close: bool, out: &mut Vec<u8>) {
    put(out, &[b"HTTP/1.1 ", response.status_line, b"\r\n"]);
    put_fields(out, &response.fields);
    // An empty body is told too: without a length the client would wait for the end.
    match response.told_length() {
        Body::None if response.status >= 200 && response.status != 204 => {
            out.extend_from_slice(b"Content-Length: 0\r\n");
        }
        length => put_length(out, length),
    }
    if close && response.status >= 200 {
        out.extend_from_slice(b"Connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

fn put_fields(out: &mut Vec<u8>, fields: &Fields<'_>) {
    for (name, value) in fields.iter() {
        let stays = NOT_FORWARDED
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
            || fields.is_named_in_connection(name);
        if !stays {
            put(out, &[name, b": ", value, b"\r\n"]);
        }
    }
}

fn put_length(out: &mut Vec<u8>, body: Body) {
    match body {
        Body::Length(length) => put(
            out,
            &[b"Content-Length: ", length.to_string().as_bytes(), b"\r\n"],
        ),
        Body::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Body::None | Body::UntilClose => {}
    }
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// What the proxy itself answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    status: u16,
    /// `refused` or `failed`.
    verdict: &'static str,
}

impl Answer {
    pub const BAD_REQUEST: Self = Self {
        status: 400,
        verdict: "refused",
    };
    pub const REFUSED: Self = Self {
        status: 403,
        verdict: "refused",
    };
    pub const HEAD_TOO_LARGE: Self = Self {
        status: 431,
        verdict: "refused",
    };
    pub const BAD_GATEWAY: Self = Self {
        status: 502,
        verdict: "failed",
    };
    pub const BUSY: Self = Self {
        status: 503,
        verdict: "refused",
    };
    pub const TIMED_OUT: Self = Self {
        status: 504,
        verdict: "failed",
    };

    /// What a client that sent such a head is told.
    pub(crate) fn to(error: HeadError) -> Self {
        match error {
            HeadError::TooLarge | HeadError::TooManyFields => Self::HEAD_TOO_LARGE,
            _ => Self::BAD_REQUEST,
        }
    }

    /// The whole response. The text is in its first line too, because most tools show only that of
    /// a tunnel that failed.
    pub fn response(self, code: &str, text: &str) -> Vec<u8> {
        let text: String = text
            .chars()
            .map(|c| if c.is_ascii_graphic() { c } else { ' ' })
            .collect();
        let Self { status, verdict } = self;
        let body = format!("nacre: {text}\n");
        format!(
            "HTTP/1.1 {status} {text}\r\nContent-Type: text/plain\r\nX-Nacre-Egress: {verdict}; reason={code}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use relay::{Form, parse_request, parse_response};

    use super::*;

    fn forwarded(lines: &[&str], to_proxy: Option<&[u8]>) -> String {
        let head = format!("{}\r\n\r\n", lines.join("\r\n"));
        let request = parse_request(head.as_bytes()).expect("a request");
        let Form::Absolute { authority, path } = request.form else {
            panic!("absolute");
        };
        let target = Target::parse(authority, Some(80)).expect("a target");
        let mut out = Vec::new();
        forwarded_request(&request, &target, path, to_proxy, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_request_is_forwarded_without_what_is_for_the_proxy_alone() {
        let out = forwarded(
            &[
                "GET http://Example.org?q HTTP/1.1",
                "Host: liar.example",
                "Proxy-Connection: keep-alive",
                "Proxy-Authorization: Basic x",
                "Connection: X-Private, Keep-Alive",
                "X-Private: 1",
                "Accept: */*",
            ],
            None,
        );
        assert_eq!(
            out,
            "GET /?q HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n"
        );
    }

    #[test]
    fn a_length_cannot_be_had_removed() {
        let out = forwarded(
            &[
                "POST http://a:8080/ HTTP/1.1",
                "Content-Length: 5",
                "Connection: content-length, host",
            ],
            None,
        );
        assert_eq!(
            out,
            "POST / HTTP/1.1\r\nHost: a:8080\r\nContent-Length: 5\r\n\r\n"
        );
    }

    #[test]
    fn an_upstream_proxy_gets_the_whole_address_and_its_credentials() {
        let out = forwarded(&["GET http://a/b HTTP/1.1"], Some(b"Basic eA=="));
        assert_eq!(
            out,
            "GET http://a/b HTTP/1.1\r\nHost: a\r\nProxy-Authorization: Basic eA==\r\n\r\n"
        );
    }

    #[test]
    fn a_response_tells_its_length_once() {
        let head =
            b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\nA: b\r\n\r\n";
        let mut out = Vec::new();
        forwarded_response(&parse_response(head).expect("a response"), true, &mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn a_refusal_is_readable_in_its_first_line() {
        let answer = Answer::REFUSED.response("not-listed", "a:1 is not on the list\r\nX: y");
        let text = String::from_utf8(answer).expect("text");
        assert!(
            text.starts_with("HTTP/1.1 403 a:1 is not on the list  X: y\r\n"),
            "{text}"
        );
        assert!(
            text.contains("\r\nX-Nacre-Egress: refused; reason=not-listed\r\n"),
            "{text}"
        );
    }
}
