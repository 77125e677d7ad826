//! Client sockets, replay, previews and terminals of sessions.

#![forbid(unsafe_code)]
