//! Just enough of HTTP/1 for a proxy, and nothing lenient: what two programs could read in two ways
//! is an error. Bounded before it is read.

mod chunked;
mod head;
mod write;

pub use chunked::{Chunked, ChunkedError};
pub use head::{
    Body, Fields, Form, HeadError, MAX_HEAD, Request, Response, Version, head_length,
    parse_request, parse_response,
};
pub use write::{Answer, forwarded_request, forwarded_response};
