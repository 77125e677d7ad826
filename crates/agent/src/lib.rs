//! Coding agents: prompts go in, events come out.
//!
//! [`Agent`] is what a caller sees, whichever agent is behind it; [`opencode`] is the first one.
//! The agent's process is started by somebody else, who asks for a [`Launch`] and says when the
//! process began and ended. Whoever connects gets three things: a handle (the trait), a driver to
//! poll, and the receiving end of a bounded channel of [`Event`]s.
//!
//! ```text
//!  caller ── accept(prompt) ─► Accepted     the channel is taken; the agent knows nothing yet
//!         ── (writes it down)
//!         ── accepted.start() ─► driver ──► the agent
//!         ◄── Event … ────────── driver ◄── its stream
//! ```
//!
//! ```no_run
//! # async fn example(settings: agent::opencode::Settings) -> Result<(), Box<dyn std::error::Error>> {
//! use agent::{Agent as _, ChannelKey, Happening, Prompt, opencode};
//!
//! let opencode::Connected { agent, driver, mut events } = opencode::connect(settings).await?;
//! let talk = async {
//!     let prompt = Prompt::text("prompt-1", ChannelKey::web(), "fix the build");
//!     let accepted = agent.accept(prompt).await?;
//!     // Here it is written down that the prompt was accepted.
//!     accepted.start();
//!     while let Some(event) = events.recv().await {
//!         if let Happening::TurnDone { reason, text, .. } = event.happening {
//!             println!("{reason:?}: {text}");
//!             break;
//!         }
//!     }
//!     Ok::<_, agent::Refused>(())
//! };
//! tokio::select! {
//!     () = driver.run() => {}
//!     answered = talk => answered?,
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`mod@channel`] | where a person talks from |
//! | [`prompt`] | what is asked, and what is refused |
//! | [`event`] | what comes out |
//! | [`turn`] | one answer: ids, offsets, parts, its end. Pure |
//! | [`failure`] | why a model failed, and whether another may do better. Pure |
//! | [`review`] | findings of a review. Pure |
//! | [`configuration`] | what an agent is set up with, and what to start |
//! | [`dial`] | how its server is reached |
//! | `link` | the same in the words of the link, with the feature of that name. Pure |
//! | [`opencode`] | everything that is OpenCode's |

#![forbid(unsafe_code)]

mod agent;
pub mod channel;
pub mod configuration;
pub mod dial;
pub mod event;
pub mod failure;
#[cfg(feature = "link")]
pub mod link;
pub mod opencode;
pub mod prompt;
pub mod review;
pub mod turn;

pub use agent::{
    Accepted, Agent, CommandDone, Failed, FileDiff, Held, ModelInfo, Refused, Reverted, Scope,
    SlashCommand,
};
pub use channel::ChannelKey;
pub use configuration::{Configuration, Launch};
pub use event::{Event, Happening, Mark, SessionRef};
pub use prompt::Prompt;
