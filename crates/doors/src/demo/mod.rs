//! A small scripted model, so that the whole way can be tried with no account and no internet.
//!
//! It is not a language model and says so. It speaks the form of chat completions, and makes the agent do
//! real things with its real tools. It remembers nothing: what comes next follows from the
//! conversation in the request, so that it survives any restart.
//!
//! | asked for | it |
//! |---|---|
//! | `write FILE with TEXT` | writes that file and shows it |
//! | `run COMMAND` | runs it |
//! | `clone ADDRESS` | clones it and looks at it |
//! | `serve` | writes a page and serves it, for the preview |
//! | `slow`, `slow 100` | talks slowly, for trying to cancel |
//! | anything else | looks around, writes a small program, runs it |

mod conversation;
mod play;
mod speech;
mod wording;

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::models::{Endpoint, Reply};
use conversation::Conversation;
use play::Step;
use speech::Speech;

pub const PROVIDER: &str = "demo";
pub const MODEL: &str = "demo";
pub const NAME: &str = "Demo (scripted, not a language model)";

/// How fast it talks, in milliseconds for a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pace {
    pub word_ms: u64,
    /// When it was asked to be slow.
    pub slow_word_ms: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            word_ms: 12,
            slow_word_ms: 500,
        }
    }
}

impl Pace {
    /// Without any waiting.
    pub const AT_ONCE: Self = Self {
        word_ms: 0,
        slow_word_ms: 0,
    };
}

#[derive(Debug, Clone, Copy)]
pub struct Demo {
    pace: Pace,
}

impl Demo {
    pub fn new(pace: Pace) -> Self {
        Self { pace }
    }

    pub(crate) fn answer(self, endpoint: Endpoint, body: &[u8]) -> Reply {
        match endpoint {
            Endpoint::Models => whole(
                StatusCode::OK,
                &json!({ "object": "list", "data": [
                    { "id": MODEL, "object": "model", "created": 0, "owned_by": "nacre" },
                ] }),
            ),
            Endpoint::ChatCompletions => self.chat(body),
            _ => refused("the demo model only knows chat/completions and models"),
        }
    }

    fn chat(self, body: &[u8]) -> Reply {
        let Ok(request) = serde_json::from_slice::<Value>(body) else {
            return refused("the request is not JSON");
        };
        let conversation = Conversation::read(&request);
        let step = play::next(&conversation);
        let speech = Speech::new(&conversation, &step);
        if request["stream"] != true {
            return whole(StatusCode::OK, &speech.whole());
        }
        let with_usage = request["stream_options"]["include_usage"] == true;
        let wait = Duration::from_millis(match step {
            Step { is_slow: true, .. } => self.pace.slow_word_ms,
            _ => self.pace.word_ms,
        });
        let events =
            futures::stream::iter(speech.events(with_usage)).then(move |event| async move {
                if event.is_word && !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
                Ok(event.bytes)
            });
        Reply {
            status: StatusCode::OK,
            headers: kind("text/event-stream"),
            chunks: events.boxed(),
        }
    }
}

fn refused(message: &str) -> Reply {
    let error = json!({ "message": message, "type": "invalid_request_error", "code": null });
    whole(StatusCode::BAD_REQUEST, &json!({ "error": error }))
}

fn whole(status: StatusCode, value: &Value) -> Reply {
    let bytes = Bytes::from(value.to_string());
    Reply {
        status,
        headers: kind("application/json"),
        chunks: futures::stream::iter([Ok(bytes)]).boxed(),
    }
}

fn kind(kind: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers
}
