//! Sandboxes on this machine: namespaces, idmapped overlay layers, cgroups, one keeper each.

mod api;

pub use api::*;
