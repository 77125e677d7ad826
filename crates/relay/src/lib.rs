//! Just enough of HTTP/1 to stand between two programs, and nothing lenient: what the two could
//! read in two ways is an error. Heads are bounded before they are read; bodies go from one
//! connection to the other through a pipe and never enter our memory.
//!
//! [`next_head`] reads a head, [`parse_request`] and [`parse_response`] understand it, and
//! [`Way::carry`] moves what follows. Whoever stands between writes the heads anew.

mod chunked;
mod head;
mod stream;
mod way;

pub use chunked::{Chunked, ChunkedError};
pub use head::{
    Body, Fields, Form, HeadError, MAX_HEAD, Request, Response, Version, head_length,
    parse_request, parse_response,
};
pub use stream::{Pipe, Stream, fill, next_head};
pub use way::{Gone, Way};
