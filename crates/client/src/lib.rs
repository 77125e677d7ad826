//! A client of `/v1` that reconnects and goes on where it was. The command line and the tests use
//! it; so can any program.
//!
//! ```no_run
//! # async fn example() -> Result<(), nacre_client::ClientError> {
//! use nacre_client::{Bearer, Client, Transcript, Update};
//! use wire::v1::{NewPrompt, NewSession};
//!
//! let client = Client::new("http://127.0.0.1:7070", Bearer::new("nac_…"))?;
//! let session = client.create_session(&NewSession::default()).await?;
//! let mut follow = client.follow(&session.id, None)?;
//! let prompt = NewPrompt { content: "What is here?".to_owned(), ..NewPrompt::default() };
//! follow.commands().prompt(prompt).await?;
//! let mut transcript = Transcript::default();
//! while let Some(update) = follow.next().await {
//!     if let Update::Frame(frame) = update {
//!         transcript.apply(&frame);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Calls are tried again only where that cannot do a thing twice: what only looks, what has a key
//! that makes it one call ([`Client::create_session`], …), and what certainly did not arrive.
//!
//! A [`Follow`] gives every numbered frame once and in order, whatever happens to the line:
//!
//! ```text
//!            frames             cut · silence · gap
//! dial ──► connected ─────────────────────────────► wait (0, 1, 2, 5, 10, 30 s) ──► dial, `since` the last
//!   │
//!   └──► refused for good (401, 403, 404, …): the end
//! ```
//!
//! The program installs rustls's cryptography (`ring`) before it makes a client.

#![forbid(unsafe_code)]

mod bearer;
mod call;
mod calls;
mod client;
mod error;
mod follow;
mod frame;
mod pipe;
mod transcript;

pub use bearer::Bearer;
pub use calls::{Download, Paging, ServiceAction, SessionFilter};
pub use client::Client;
pub use error::ClientError;
pub use follow::{Commands, Follow, FollowOptions, Pace, Socket, Update};
pub use frame::{Body, Frame};
pub use pipe::{Piece, PipeInput, PipeOutput};
pub use transcript::{AgentState, HeldMessage, HeldPart, HeldPrompt, Standing, Transcript, Usage};

pub use reqwest::Body as RequestBody;
