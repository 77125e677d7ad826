//! The fake as a process of its own, whose sandboxes outlive the server that uses it.
//!
//! `nacre-fake-provider` serves it on a unix socket; [`Remote`] is the provider on the other end.
//! Every call is a connection; commands, streams of files, dialled ports and doors keep theirs.

mod protocol;
mod remote;
mod server;
mod store;
mod streams;

pub use remote::Remote;
pub use server::serve;
