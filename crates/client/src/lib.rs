//! A client of `/v1` that reconnects and goes on where it was.

#![forbid(unsafe_code)]
