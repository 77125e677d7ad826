//! A plain agent without a runner, driven from here: what its server does is told to the hub as a
//! runner would tell it.
//!
//! There is no journal inside: what the hub has not committed when this process ends was not said,
//! and what ran then is interrupted. A boot is one attendance of ours.

mod failure;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent::configuration::PermissionPolicy;
use agent::event::{PermissionId, QuestionId};
use agent::opencode::{self, Connected, Contexts, OpenCode};
use agent::{Accepted, Agent as _, Event, Refused, Scope};
use async_trait::async_trait;
use model::{Clock, Id, Secret};
use provider::{ExecSpec, Provider, SandboxId};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use wire::link::{
    AgentStatus, Answer, ErrorFrame, FromHub, FromRunner, Hello, HubFrame, PROTOCOL, Prompt,
    PromptState, RunnerFrame,
};

use self::failure::{Failure, classify};
use crate::link::{OUTBOX, Out, Word};

/// An agent that runs already answers within that.
const RUNS_ALREADY: Duration = Duration::from_secs(3);
/// One that was started is healthy within that.
const STARTS: Duration = Duration::from_mins(2);

/// So often in a row it was not there: its process is gone.
const GONE: u32 = 5;
/// For the ends of turns to be told.
const ENDING: Duration = Duration::from_millis(200);

/// What is needed to drive one.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) sandbox: SandboxId,
    pub(crate) session: String,
    pub(crate) generation: u64,
    pub(crate) port: u16,
    /// Started with this where it does not run.
    pub(crate) start: Vec<String>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Through the provider; counts how often in a row that did not lead there.
#[derive(Debug)]
struct ByProvider {
    provider: Arc<dyn Provider>,
    sandbox: SandboxId,
    port: u16,
    failures: watch::Sender<u32>,
}

#[async_trait]
impl agent::dial::Dial for ByProvider {
    async fn dial(&self) -> io::Result<Box<dyn agent::dial::Stream>> {
        match self.provider.dial(self.sandbox, self.port).await {
            Ok(stream) => {
                self.failures.send_replace(0);
                Ok(Box::new(stream))
            }
            Err(error) => {
                // What a provider refuses for good is no sign of a death.
                if classify(0, &error.to_string()) == Failure::SandboxMayBeDown {
                    self.failures.send_modify(|failures| *failures += 1);
                }
                Err(io::Error::other(error))
            }
        }
    }
}

/// Until nobody listens: an agent that is gone is looked for again, and is another one then.
pub(crate) async fn attend(plain: Plain, pauses: Arc<[Duration]>, words: mpsc::Sender<Word>) {
    let last = pauses.last().copied().unwrap_or(Duration::from_secs(1));
    let mut waits = pauses.iter().copied();
    let mut connection = 0;
    while !words.is_closed() {
        connection += 1;
        if attend_one(&plain, connection, &words).await {
            waits = pauses.iter().copied();
        }
        let _ = words.send(Word::Down { connection }).await;
        tokio::time::sleep(waits.next().unwrap_or(last)).await;
    }
}

/// Whether it was there.
async fn attend_one(plain: &Plain, connection: u64, words: &mpsc::Sender<Word>) -> bool {
    let boot = Id::<model::Boot>::new(&*plain.clock).to_string();
    let (outbox, mut said) = mpsc::channel(OUTBOX);
    let up = Word::Up {
        connection,
        hello: Hello {
            session: plain.session.clone(),
            generation: plain.generation,
            boot,
            protocol: PROTOCOL,
            term: 0,
            offers: Vec::new(),
        },
        outbox,
    };
    if words.send(up).await.is_err() {
        return false;
    }
    let mut talk = Talk {
        words: words.clone(),
        connection,
        number: 0,
        prompts: HashMap::new(),
        contexts: Contexts::default(),
        waiting: Vec::new(),
    };
    let (failures, mut failing) = watch::channel(0);
    // What the hub sends before the agent is there waits in its outbox.
    let connected = match plain.connect(&failures, &talk.contexts).await {
        Ok(connected) => connected,
        Err(why) => {
            talk.say(status(AgentStatus::Error, Some(why))).await;
            return false;
        }
    };
    let Connected {
        agent,
        driver,
        mut events,
    } = connected;
    let talking = async {
        talk.say(status(AgentStatus::Idle, None)).await;
        loop {
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    Some(event) => talk.tell(event).await,
                    None => return,
                },
                out = said.recv() => match out {
                    Some(Out::Frame(HubFrame { body, .. })) => talk.hear(&agent, body).await,
                    Some(Out::Close(_)) | None => return,
                },
                () = is_gone(&mut failing) => {
                    // Its turns end; then it is looked for again.
                    agent.process_ended("it does not answer any more".to_owned()).await;
                    while let Ok(Some(event)) = timeout(ENDING, events.recv()).await {
                        talk.tell(event).await;
                    }
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = driver.run() => {}
        () = talking => {}
    }
    true
}

async fn is_gone(failing: &mut watch::Receiver<u32>) {
    if failing
        .wait_for(|failures| *failures >= GONE)
        .await
        .is_err()
    {
        std::future::pending::<()>().await;
    }
}

impl Plain {
    async fn connect(
        &self,
        failures: &watch::Sender<u32>,
        contexts: &Contexts,
    ) -> Result<Connected, String> {
        let runs = opencode::connect(self.settings(RUNS_ALREADY, failures, contexts));
        if let Ok(connected) = runs.await {
            return Ok(connected);
        }
        if !self.start.is_empty() {
            let spec = ExecSpec {
                detach: true,
                user: Some(wire::workplace::USER.to_owned()),
                ..ExecSpec::new(self.start.iter().map(String::as_str))
            };
            let started = self.provider.exec(self.sandbox, spec).await;
            started.map_err(|error| format!("the agent cannot be started: {error}"))?;
        }
        let connected = opencode::connect(self.settings(STARTS, failures, contexts)).await;
        connected.map_err(|error| error.to_string())
    }

    fn settings(
        &self,
        health_limit: Duration,
        failures: &watch::Sender<u32>,
        contexts: &Contexts,
    ) -> opencode::Settings {
        opencode::Settings {
            dial: Arc::new(ByProvider {
                provider: Arc::clone(&self.provider),
                sandbox: self.sandbox,
                port: self.port,
                failures: failures.clone(),
            }),
            // Only the provider leads there.
            password: Secret::new(String::new()),
            clock: Arc::clone(&self.clock),
            permissions: PermissionPolicy::Allow,
            model: None,
            transcriber: None,
            memory: Some(Arc::new(contexts.clone())),
            health_limit,
        }
    }
}

fn status(status: AgentStatus, detail: Option<String>) -> FromRunner {
    FromRunner::AgentStatus {
        status,
        detail,
        prompt_id: None,
        channel: None,
    }
}

struct Talk {
    words: mpsc::Sender<Word>,
    connection: u64,
    number: u64,
    prompts: HashMap<String, PromptState>,
    /// For an agent that has forgotten what was said, or never knew.
    contexts: Contexts,
    /// Accepted, and not begun before the hub has written that down.
    waiting: Vec<(u64, Accepted)>,
}

impl Talk {
    async fn tell(&mut self, event: Event) {
        for frame in agent::link::frames(event) {
            self.say(frame).await;
        }
    }

    async fn say(&mut self, body: FromRunner) {
        self.note(&body);
        let seq = body.is_kept().then(|| {
            self.number += 1;
            self.number
        });
        self.send(RunnerFrame {
            seq,
            from_boot: None,
            body,
        })
        .await;
    }

    async fn remark(&mut self, body: FromRunner) {
        self.send(RunnerFrame::passing(body)).await;
    }

    async fn send(&mut self, frame: RunnerFrame) {
        let frame = Box::new(frame);
        let word = Word::Frame {
            connection: self.connection,
            frame,
        };
        // A hub that is gone ends us, too.
        let _ = self.words.send(word).await;
    }

    fn note(&mut self, body: &FromRunner) {
        let (prompt, state) = match body {
            FromRunner::Accepted { prompt_id, .. } => (prompt_id, PromptState::Accepted),
            FromRunner::Complete { prompt_id, .. } => (prompt_id, PromptState::Finished),
            FromRunner::Canceled { prompt_id, .. } => (prompt_id, PromptState::Canceled),
            FromRunner::Error(ErrorFrame {
                prompt_id: Some(prompt_id),
                ..
            }) => (prompt_id, PromptState::Failed),
            _ => return,
        };
        self.prompts.insert(prompt.clone(), state);
    }

    async fn hear(&mut self, agent: &OpenCode, body: FromHub) {
        match body {
            FromHub::Prompt(prompt) => self.prompt(agent, *prompt).await,
            FromHub::Ack { seq, .. } => {
                for (_, accepted) in self.waiting.extract_if(.., |(number, _)| *number <= seq) {
                    accepted.start();
                }
            }
            FromHub::PromptState { prompt_id } => {
                let state = self.prompts.get(&prompt_id).copied();
                let state = state.unwrap_or(PromptState::NeverSeen);
                self.remark(FromRunner::PromptState { prompt_id, state })
                    .await;
            }
            FromHub::Cancel { channel } => {
                let scope = channel.map_or(Ok(Scope::All), |channel| {
                    channel.parse().map(Scope::Channel)
                });
                if let Ok(scope) = scope {
                    // It ends with an event of its own.
                    let _ = agent.cancel(scope).await;
                }
            }
            FromHub::Answer {
                question_id,
                item,
                answer,
            } => {
                let chosen = match answer {
                    Some(Answer::Text(text)) => vec![text],
                    Some(Answer::Several(several)) => several,
                    Some(Answer::YesNo(yes)) => vec![if yes { "yes" } else { "no" }.to_owned()],
                    None => Vec::new(),
                };
                let answered = agent.answer(QuestionId(question_id), item, chosen).await;
                self.object(answered.err()).await;
            }
            FromHub::Permission { id, allow } => {
                let permission = PermissionId(id);
                let decided = if allow {
                    agent.allow(permission).await
                } else {
                    agent.refuse(permission).await
                };
                self.object(decided.err()).await;
            }
            body => {
                if let Some(request_id) = body.request_id() {
                    let message = "a plain agent without a workplace does not do that";
                    let error = ErrorFrame {
                        request_id: Some(request_id.to_owned()),
                        ..ErrorFrame::new(ErrorFrame::UNSUPPORTED, message)
                    };
                    self.say(FromRunner::Error(error)).await;
                }
            }
        }
    }

    async fn object(&mut self, failed: Option<agent::Failed>) {
        if let Some(failed) = failed {
            let error = ErrorFrame::new("not_taken", failed.to_string());
            self.say(FromRunner::Error(error)).await;
        }
    }

    async fn prompt(&mut self, agent: &OpenCode, prompt: Prompt) {
        let (prompt_id, channel) = (prompt.id.clone(), prompt.channel.clone());
        if let Some(state) = self.prompts.get(&prompt_id).copied() {
            let state = FromRunner::PromptState { prompt_id, state };
            return self.remark(state).await;
        }
        let context = prompt.context.clone();
        let taken = match agent::link::prompt(prompt) {
            Ok(taken) => {
                self.contexts.note(&taken.channel, context);
                taken
            }
            Err(why) => return self.fail(prompt_id, channel, why).await,
        };
        match agent.accept(taken).await {
            Ok(accepted) => {
                self.say(FromRunner::Accepted { prompt_id, channel }).await;
                self.waiting.push((self.number, accepted));
            }
            Err(Refused::Unfit(unfit)) => {
                self.fail(prompt_id, channel, unfit.to_string()).await;
            }
            Err(refused) => {
                let reason = Some(refused.to_string());
                self.remark(FromRunner::Busy {
                    prompt_id,
                    channel,
                    reason,
                })
                .await;
            }
        }
    }

    async fn fail(&mut self, prompt_id: String, channel: String, why: String) {
        self.say(FromRunner::Error(ErrorFrame {
            prompt_id: Some(prompt_id),
            channel: Some(channel),
            ..ErrorFrame::new("bad_prompt", why)
        }))
        .await;
    }
}
