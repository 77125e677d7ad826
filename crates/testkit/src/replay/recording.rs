use serde_json::Value;

/// A recording: JSON lines, each an event of the stream, a request or its answer.
#[derive(Debug, Clone)]
pub struct Recording {
    pub(super) lines: Vec<Line>,
}

#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) ms: u64,
    pub(super) what: What,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    Event(Value),
    Did {
        deed: Deed,
        body: Value,
    },
    Answer {
        deed: Deed,
        status: u16,
        body: Value,
    },
}

/// Something that changes the conversation, done by a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    Begin,
    Prompt {
        session: String,
    },
    Abort {
        session: String,
    },
    Permission {
        id: String,
    },
    Question {
        id: String,
    },
    Revert {
        session: String,
    },
    Unrevert {
        session: String,
    },
    Summarize {
        session: String,
    },
    /// Nothing that the agent crate does.
    Other(String),
}

impl Deed {
    /// From a request line: a method and a path.
    pub(super) fn of(method: &str, path: &str) -> Option<Deed> {
        if method != "POST" {
            return None;
        }
        let words: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        Some(match words.as_slice() {
            ["session"] => Deed::Begin,
            ["session", id, "prompt_async" | "message"] => Deed::Prompt {
                session: (*id).to_owned(),
            },
            ["session", id, "abort"] => Deed::Abort {
                session: (*id).to_owned(),
            },
            ["session", id, "revert"] => Deed::Revert {
                session: (*id).to_owned(),
            },
            ["session", id, "unrevert"] => Deed::Unrevert {
                session: (*id).to_owned(),
            },
            ["session", id, "summarize"] => Deed::Summarize {
                session: (*id).to_owned(),
            },
            ["permission", id, "reply"] | ["session", _, "permissions", id] => Deed::Permission {
                id: (*id).to_owned(),
            },
            ["question", id, "reply" | "reject"] => Deed::Question {
                id: (*id).to_owned(),
            },
            ["sync", "history"] => return None,
            _ => Deed::Other(path.to_owned()),
        })
    }
}

impl Recording {
    /// Panics on what is not a recording: it is a file of the test.
    pub fn read(text: &str) -> Recording {
        let lines = text.lines().filter_map(|line| {
            let line: Value = serde_json::from_str(line).expect("a recording is JSON lines");
            let ms = line["ms"].as_u64().unwrap_or(0);
            let what = if let Some(event) = line.get("event") {
                let event = event.get("payload").unwrap_or(event).clone();
                // Durable copies are made anew for every recording.
                if event["type"] == "sync" {
                    return None;
                }
                What::Event(event)
            } else {
                http(&line["http"])?
            };
            Some(Line { ms, what })
        });
        Recording {
            lines: lines.collect(),
        }
    }

    /// The release that made it.
    pub fn version(&self) -> String {
        let events = self.lines.iter().filter_map(|line| match &line.what {
            What::Event(event) => event["properties"]["info"]["version"].as_str(),
            _ => None,
        });
        events.max().unwrap_or("1.18.33").to_owned()
    }

    pub fn events(&self) -> usize {
        let events = self.lines.iter();
        events
            .filter(|line| matches!(line.what, What::Event(_)))
            .count()
    }

    /// What was done in it, in order, with the body of each request.
    pub fn deeds(&self) -> impl Iterator<Item = (&Deed, &Value)> {
        self.lines.iter().filter_map(|line| match &line.what {
            What::Did { deed, body } => Some((deed, body)),
            _ => None,
        })
    }

    /// The user's messages in it, each with the millisecond in which it was made.
    pub fn prompts(&self) -> Vec<(String, i64)> {
        let mut prompts: Vec<(String, i64)> = Vec::new();
        for line in &self.lines {
            if let What::Event(event) = &line.what
                && event["type"] == "message.updated"
                && event["properties"]["info"]["role"] == "user"
            {
                let info = &event["properties"]["info"];
                let id = info["id"].as_str().unwrap_or_default().to_owned();
                let made = info["time"]["created"].as_i64().unwrap_or(0);
                if !prompts.iter().any(|(known, _)| *known == id) {
                    prompts.push((id, made));
                }
            }
        }
        prompts
    }

    /// The user's message that a prompt at that line became.
    pub(super) fn message_after(&self, line: usize, session: &str) -> Option<String> {
        let known: Vec<&Value> = self.lines[..line]
            .iter()
            .filter_map(user_message)
            .map(|info| &info["id"])
            .collect();
        let mut after = self.lines[line..].iter().filter_map(user_message);
        let info =
            after.find(|info| info["sessionID"] == session && !known.contains(&&info["id"]))?;
        Some(info["id"].as_str()?.to_owned())
    }
}

fn user_message(line: &Line) -> Option<&Value> {
    let What::Event(event) = &line.what else {
        return None;
    };
    let info = &event["properties"]["info"];
    (event["type"] == "message.updated" && info["role"] == "user").then_some(info)
}

fn http(line: &Value) -> Option<What> {
    let split = |text: &str| -> Option<Deed> {
        let (method, path) = text.split_once(' ')?;
        Deed::of(method, path)
    };
    let body = line["body"].clone();
    if let Some(request) = line["request"].as_str() {
        return Some(What::Did {
            deed: split(request)?,
            body,
        });
    }
    let status = line["status"].as_u64().unwrap_or(200);
    Some(What::Answer {
        deed: split(line["response"].as_str()?)?,
        status: u16::try_from(status).unwrap_or(200),
        body,
    })
}
