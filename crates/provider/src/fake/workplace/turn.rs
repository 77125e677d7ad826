//! One prompt, done as it says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use model::{Id, SystemClock};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::sleep;
use wire::link::{
    AgentStatus, Choose, ErrorFrame, FromRunner, Part, PartContent, Prompt, PromptState, Question,
    QuestionItem, Reason, Tool, ToolState,
};
use wire::workplace::WORKSPACE;

use super::Runner;
use crate::fake::node::{Content, Who};
use crate::fake::{Run, tree};

/// So many bytes of a text are said at a time.
const PIECE: usize = 8;

/// Ends a turn before its time.
#[derive(Default)]
pub(super) struct Ending {
    how: AtomicU8,
    told: Notify,
}

const CANCELED: u8 = 1;
const CRASHED: u8 = 2;

impl Ending {
    pub(super) fn cancel(&self) {
        self.end(CANCELED);
    }

    pub(super) fn crash(&self) {
        self.end(CRASHED);
    }

    fn end(&self, how: u8) {
        let _ = self
            .how
            .compare_exchange(0, how, Ordering::AcqRel, Ordering::Acquire);
        self.told.notify_one();
    }

    async fn told(&self) -> Stop {
        loop {
            match self.how.load(Ordering::Acquire) {
                CANCELED => return Stop::Canceled,
                CRASHED => return Stop::Failed("the agent's process ended".to_owned()),
                _ => self.told.notified().await,
            }
        }
    }
}

enum Stop {
    Canceled,
    Failed(String),
}

pub(super) async fn run(runner: Arc<Runner>, prompt: Box<Prompt>, ending: Arc<Ending>) {
    let turn = Turn {
        message: format!("msg-{}", Id::<model::Boot>::new(&SystemClock)),
        runner: &runner,
        prompt: &prompt,
    };
    turn.accept().await;
    let stopped = tokio::select! {
        biased;
        stop = ending.told() => Err(stop),
        done = turn.perform() => done,
    };
    turn.end(stopped).await;
}

struct Turn<'r> {
    runner: &'r Runner,
    prompt: &'r Prompt,
    message: String,
}

impl Turn<'_> {
    async fn accept(&self) {
        self.set(PromptState::Accepted);
        self.runner
            .say(FromRunner::Accepted {
                prompt_id: self.prompt.id.clone(),
                channel: self.prompt.channel.clone(),
            })
            .await;
        self.runner.inside.count_run(Run {
            session: self.runner.session.clone(),
            prompt: self.prompt.id.clone(),
        });
        self.status(AgentStatus::Thinking).await;
        self.runner
            .say(FromRunner::Message {
                message_id: self.message.clone(),
                prompt_id: Some(self.prompt.id.clone()),
                channel: self.prompt.channel.clone(),
                agent_session: Some(format!("agent-{}", self.prompt.channel)),
            })
            .await;
    }

    async fn perform(&self) -> Result<(), Stop> {
        for (place, line) in self.prompt.content.lines().enumerate() {
            let part = format!("part-{place}");
            match line.split_once(' ').unwrap_or((line, "")) {
                ("say", words) => self.speak(&part, words).await,
                ("write", rest) => self.write(&part, rest).await,
                ("wait", time) => sleep(Duration::from_millis(time.parse().unwrap_or(0))).await,
                ("ask", words) => self.ask(words).await,
                ("fail", words) => return Err(Stop::Failed(words.to_owned())),
                _ => self.speak(&part, &format!("You said: {line}")).await,
            }
        }
        Ok(())
    }

    async fn speak(&self, part: &str, words: &str) {
        let mut rest = words;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.ceil_char_boundary(PIECE.min(rest.len())));
            self.runner.grow(&self.message, part, piece).await;
            tokio::task::yield_now().await;
            rest = after;
        }
        let text = words.to_owned();
        self.part(part, PartContent::Text { text }).await;
    }

    async fn write(&self, part: &str, rest: &str) {
        let (path, words) = rest.split_once(' ').unwrap_or((rest, ""));
        let whole = format!("{WORKSPACE}/{path}").into_bytes();
        let content = Content::from(words.as_bytes());
        let written = self.runner.inside.step(|disk| {
            disk.make_directories(WORKSPACE.as_bytes(), Who::SUPERUSER)?;
            tree::write(disk, Who::SUPERUSER, &whole, content)
        });
        let is_written = written.await.is_ok();
        let tool = Tool {
            call_id: part.to_owned(),
            name: "write".to_owned(),
            status: if is_written {
                ToolState::Completed
            } else {
                ToolState::Error
            },
            args: json!({ "path": path, "content": words }),
            result: None,
            error: None,
            exit_code: None,
            under: None,
        };
        self.part(part, PartContent::Tool(tool)).await;
    }

    async fn ask(&self, words: &str) {
        let id = format!("q-{}", self.message);
        let answered = Arc::new(Notify::new());
        let waiting = Arc::clone(&answered);
        self.runner.state().answers.insert(id.clone(), waiting);
        self.runner
            .say(FromRunner::Question(Question {
                question_id: id,
                channel: self.prompt.channel.clone(),
                prompt_id: Some(self.prompt.id.clone()),
                items: vec![QuestionItem {
                    header: String::new(),
                    text: words.to_owned(),
                    options: Vec::new(),
                    choose: Choose::One,
                    free_text: true,
                }],
                expires_at: None,
            }))
            .await;
        answered.notified().await;
    }

    async fn end(&self, done: Result<(), Stop>) {
        let prompt_id = self.prompt.id.clone();
        let channel = self.prompt.channel.clone();
        let (reason, state) = match &done {
            Ok(()) => (Reason::EndTurn, PromptState::Finished),
            Err(Stop::Canceled) => (Reason::Canceled, PromptState::Canceled),
            Err(Stop::Failed(_)) => (Reason::Error, PromptState::Failed),
        };
        self.withdraw_open().await;
        let error = match &done {
            Err(Stop::Failed(why)) => Some(why.clone()),
            _ => None,
        };
        self.runner
            .say(FromRunner::MessageDone {
                message_id: self.message.clone(),
                prompt_id: Some(prompt_id.clone()),
                reason,
                text: String::new(),
                error,
                usage: None,
            })
            .await;
        self.set(state);
        // Before it is told: whoever hears of the end may send the next.
        self.runner.state().turns.remove(&channel);
        self.runner
            .say(match done {
                Ok(()) => FromRunner::Complete { prompt_id, channel },
                Err(Stop::Canceled) => FromRunner::Canceled { prompt_id, channel },
                Err(Stop::Failed(why)) => FromRunner::Error(ErrorFrame {
                    prompt_id: Some(prompt_id),
                    channel: Some(channel),
                    ..ErrorFrame::new("agent_failed", why)
                }),
            })
            .await;
        self.status(AgentStatus::Idle).await;
    }

    /// What was begun and not ended was never said.
    async fn withdraw_open(&self) {
        let mine = |part: &Part| part.message_id == self.message;
        let begun: Vec<Part> = self
            .runner
            .state()
            .open
            .extract_if(.., |p| mine(p))
            .collect();
        for part in begun {
            self.runner
                .say(FromRunner::PartRemoved {
                    message_id: part.message_id,
                    part_id: part.part_id,
                })
                .await;
        }
    }

    async fn part(&self, part: &str, content: PartContent) {
        let is_it = |open: &Part| open.message_id == self.message && open.part_id == part;
        self.runner.state().open.retain(|open| !is_it(open));
        self.runner
            .say(FromRunner::Part(Part {
                message_id: self.message.clone(),
                part_id: part.to_owned(),
                open: false,
                content,
            }))
            .await;
    }

    async fn status(&self, status: AgentStatus) {
        self.runner
            .say(FromRunner::AgentStatus {
                status,
                detail: None,
                prompt_id: Some(self.prompt.id.clone()),
                channel: Some(self.prompt.channel.clone()),
            })
            .await;
    }

    fn set(&self, state: PromptState) {
        let id = self.prompt.id.clone();
        self.runner.state().prompts.insert(id, state);
    }
}
