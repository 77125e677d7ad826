//! The front door: `/v1`, sign-in, secrets, OpenAPI.
//!
//! Each file below `routes` is a page: what is asked, what is answered, who may. A route learns of
//! an organisation from its `auth::Caller` alone, so none can forget to ask who calls.

#![forbid(unsafe_code)]

mod actions;
mod address;
mod admission;
mod app;
mod arriving;
mod auth;
mod body;
mod cookie;
mod devtools;
mod draft;
mod extract;
mod housekeeping;
mod metrics;
mod offer;
mod once;
mod outside;
mod page;
mod paging;
mod problem;
mod public_doors;
mod rate;
mod request;
mod roles;
mod routes;
mod serve;
mod shown;
mod standing;
pub mod vault;

pub use address::{Address, is_apart};
pub use app::Parts;
pub use offer::Offer;
pub use outside::{Outside, OutsideParts};
pub use roles::{Role, Roles};
pub use serve::{Front, openapi};
