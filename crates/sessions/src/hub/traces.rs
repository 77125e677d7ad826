//! What a session does as spans, and as the fields of its log lines: each start and each prompt,
//! from the request that it comes of to the agent's end. Ids and times, never what anybody said.

use std::collections::HashMap;
use std::time::Duration;

use model::session::{Boot, Effect, Fault, FaultCode, Generation, Lifecycle, Place, State, Way};
use model::{Id, Session};
use store::prompts::{End as PromptEnd, Prompt};
use telemetry::{Context, Span, Trace, Value, span};
use tracing::Instrument as _;
use wire::link::{Part, PartContent, Phase, PhaseState, Tool, ToolState};
use wire::v1;

use super::{Command, End, Hub};
use crate::Ask;

/// Something that is asked of a hub, with who asks.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) command: Command,
    pub(crate) context: Context,
}

impl From<Command> for Letter {
    fn from(command: Command) -> Self {
        Self {
            command,
            context: telemetry::current(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Traces {
    session: Id<Session>,
    /// For whom things are done now.
    pub(super) cause: Context,
    /// What is on every log line, and of which sandbox.
    pub(super) fields: tracing::Span,
    about: Option<(Generation, Option<Place>)>,
    /// A start that is under way.
    boot: Option<Span>,
    start: Start,
    /// Prompts that are not over, by id.
    prompts: HashMap<String, Turn>,
}

/// What is known of the last start, for whoever asks why it failed.
#[derive(Debug, Default)]
struct Start {
    cause: Context,
    /// Which it is at, and which failed.
    phase: Option<String>,
    failed: Option<String>,
}

#[derive(Debug)]
struct Turn {
    whole: Span,
    /// How far it is: queued, dispatched, with the agent.
    step: Span,
    has_said: bool,
}

impl Traces {
    /// With those that the owner before us did not see the end of.
    pub(super) fn new(session: Id<Session>, open: &[Prompt]) -> Self {
        let mut traces = Self {
            session,
            cause: Context::default(),
            fields: tracing::Span::none(),
            about: None,
            boot: None,
            start: Start::default(),
            prompts: HashMap::new(),
        };
        for prompt in open.iter().filter(|_| telemetry::is_on()) {
            let ask = serde_json::from_str::<Ask>(&prompt.body).unwrap_or_default();
            traces.queued(&prompt.id, &prompt.channel, ask.trace);
        }
        traces
    }

    fn span(&self, name: &'static str, parent: Option<Trace>) -> Span {
        span(name, parent).with("nacre.session", self.session.to_string())
    }

    /// What is done to a sandbox; and of a start the whole of it, which lasts until the agent is up.
    pub(super) fn effect(&mut self, effect: &Effect) -> Span {
        let (name, generation) = match effect {
            Effect::Boot { generation, .. } => ("boot sandbox", generation),
            Effect::Rest { generation, .. } => ("rest", generation),
            Effect::Thaw { generation } => ("thaw", generation),
            Effect::Capture { generation, .. } => ("capture", generation),
            Effect::End { generation } => ("end", generation),
            Effect::Discard { generation } => ("discard", generation),
        };
        let mut parent = self.cause.trace;
        if let Effect::Boot { way, .. } = effect {
            let way = match way {
                Way::Wake => "wake",
                Way::New { .. } => "new",
            };
            let boot = self.span("boot", parent);
            let boot = boot.with("nacre.generation", generation.0).with("way", way);
            parent = boot.trace();
            self.start = Start {
                cause: boot.context(&self.cause),
                phase: Some("sandbox".to_owned()),
                failed: None,
            };
            self.boot = Some(boot);
        }
        self.span(name, parent)
            .with("nacre.generation", generation.0)
    }

    /// A step of a start, at its end.
    pub(super) fn phase(&self, name: &str, took: Duration, fault: Option<&str>) {
        let Some(boot) = &self.boot else { return };
        let name = format!("boot {name}");
        let mut phase = span(name, boot.trace()).for_the_last(took);
        if let Some(fault) = fault {
            phase.fail(fault);
        }
    }

    /// What a start is at next.
    pub(super) fn is_at(&mut self, phase: &str) {
        self.start.phase = Some(phase.to_owned());
    }

    pub(super) fn phase_of_runner(&mut self, phase: &Phase) {
        match phase.state {
            PhaseState::Started => self.is_at(&phase.name),
            PhaseState::Failed => self.start.failed = Some(phase.name.clone()),
            PhaseState::Done | PhaseState::Skipped => self.is_at("agent"),
        }
        let took = Duration::from_millis(phase.took_ms.unwrap_or_default());
        match phase.state {
            PhaseState::Done => self.phase(&phase.name, took, None),
            // Why is in the session's log; what a clone says may be anything.
            PhaseState::Failed => self.phase(&phase.name, took, Some("it failed")),
            PhaseState::Started | PhaseState::Skipped => {}
        }
    }

    /// A start that came to something is over.
    pub(super) fn follow_start(&mut self, lifecycle: &Lifecycle) {
        let is_under_way = match &lifecycle.state {
            State::Starting(starting) => matches!(starting.boot, Boot::UnderWay { .. }),
            State::Migrating(_) => true,
            _ => false,
        };
        if is_under_way {
            return;
        }
        if let (Some(mut boot), Some(fault)) = (self.boot.take(), lifecycle.fault()) {
            boot.fail(word(fault.code));
        }
    }

    /// Why a start failed, as the log keeps it.
    pub(super) fn told(&self, fault: &Fault) -> v1::Fault {
        let Start {
            cause,
            phase,
            failed,
        } = &self.start;
        v1::Fault {
            code: word(fault.code).to_owned(),
            phase: failed.clone().or_else(|| phase.clone()),
            request_id: cause.request.as_ref().map(ToString::to_string),
            trace_id: cause.trace.map(Trace::id),
        }
    }

    pub(super) fn queued(&mut self, prompt: &str, channel: &str, parent: Option<Trace>) {
        if !telemetry::is_on() {
            return;
        }
        let whole = self.span("prompt", parent);
        let whole = whole
            .with("nacre.prompt", prompt.to_owned())
            .with("nacre.channel", channel.to_owned());
        let step = self.span("prompt queued", whole.trace());
        let has_said = false;
        let turn = Turn {
            whole,
            step,
            has_said,
        };
        self.prompts.insert(prompt.to_owned(), turn);
    }

    /// Where it waits for an agent, or what the agent makes of it.
    pub(super) fn goes_on(&mut self, prompt: &str, step: &'static str, generation: u64) {
        let session = self.session;
        let Some(turn) = self.prompts.get_mut(prompt) else {
            return;
        };
        turn.step = span(step, turn.whole.trace())
            .with("nacre.session", session.to_string())
            .with("nacre.prompt", prompt.to_owned())
            .with("nacre.generation", generation);
        turn.whole.note("nacre.generation", generation);
    }

    /// The first that anybody sees of an answer.
    pub(super) fn says(&mut self, prompt: Option<&str>) {
        if let Some(turn) = prompt.and_then(|prompt| self.prompts.get_mut(prompt))
            && !turn.has_said
        {
            turn.has_said = true;
            turn.step.moment("first output", Vec::new());
        }
    }

    /// What a tool is called and how it ended, and nothing of what went in or came out.
    pub(super) fn used(&mut self, prompt: Option<&str>, tool: &Tool) {
        let Some(turn) = prompt.and_then(|prompt| self.prompts.get_mut(prompt)) else {
            return;
        };
        let mut about = vec![("tool", Value::from(tool.name.clone()))];
        let exit = tool
            .exit_code
            .map(|code| ("exit_code", Value::Number(code)));
        about.extend(exit);
        about.push(("failed", tool.error.is_some().into()));
        turn.step.moment("tool", about);
    }

    pub(super) fn ended(&mut self, prompt: &str, end: PromptEnd, reason: Option<&str>) {
        let Some(mut turn) = self.prompts.remove(prompt) else {
            return;
        };
        let status = end.status().as_str();
        turn.whole.note("status", status);
        if end != PromptEnd::Finished {
            let why = reason.unwrap_or(status);
            turn.step.fail(why);
            turn.whole.fail(why);
        }
    }

    pub(super) fn has_prompts(&self) -> bool {
        !self.prompts.is_empty()
    }

    /// On log lines about work for a sandbox.
    pub(super) fn work_fields(&self) -> tracing::Span {
        let request_id = self.cause.request.as_ref().map(tracing::field::display);
        tracing::error_span!(parent: &self.fields, "work", request_id)
    }

    /// Log lines name the sandbox that the session has now, and nobody asked for what comes next.
    pub(super) fn follow(&mut self, lifecycle: &Lifecycle) {
        self.cause = Context::default();
        let about = (lifecycle.generation, lifecycle.whereabouts());
        if self.about == Some(about) {
            return;
        }
        self.about = Some(about);
        let (session, (generation, place)) = (self.session, about);
        let sandbox = place.map(|place| tracing::field::display(place.sandbox));
        self.fields = tracing::error_span!("session", %session, generation = generation.0, sandbox);
    }
}

impl Hub {
    /// Asked by somebody: what comes of it is theirs.
    pub(super) async fn read(&mut self, letter: Letter) -> Result<(), End> {
        self.traces.cause = letter.context;
        let fields = match &self.traces.cause.request {
            Some(request_id) => tracing::error_span!("command", %request_id),
            None => tracing::Span::none(),
        };
        self.hear(letter.command).instrument(fields).await
    }

    /// Something of a message is to be seen.
    pub(super) fn is_said(&mut self, message: &str) {
        if self.traces.has_prompts() {
            let message = self.messages.get(message);
            let prompt = message.and_then(|message| message.prompt_id.as_deref());
            self.traces.says(prompt);
        }
    }

    pub(super) fn tool_is_over(&mut self, part: &Part) {
        let PartContent::Tool(tool) = &part.content else {
            return;
        };
        let is_over = matches!(tool.status, ToolState::Completed | ToolState::Error);
        if is_over && self.traces.has_prompts() {
            let message = self.messages.get(&part.message_id);
            let prompt = message.and_then(|message| message.prompt_id.as_deref());
            self.traces.used(prompt, tool);
        }
    }
}

fn word(code: FaultCode) -> &'static str {
    match code {
        FaultCode::Provider => "provider",
        FaultCode::Boot => "boot",
        FaultCode::DeadlinePassed => "deadline_passed",
        FaultCode::OriginGone => "origin_gone",
    }
}

impl Command {
    /// As spans are called.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::EnsureReady(_) => "hub ensure_ready",
            Self::Begin(_) => "hub begin",
            Self::Rest(..) => "hub rest",
            Self::Clear(_) => "hub clear",
            Self::Recover(..) => "hub recover",
            Self::Migrate(_) => "hub migrate",
            Self::Snapshot(..) => "hub snapshot",
            Self::Stop(..) => "hub stop",
            Self::Prompt(..) => "hub prompt",
            Self::Edit { .. } => "hub edit",
            Self::Withdraw(..) => "hub withdraw",
            Self::Announce(..) => "hub announce",
            Self::Rename(..) => "hub rename",
            Self::Archive(..) => "hub archive",
            Self::Say(..) => "hub say",
            Self::Watch(_) => "hub watch",
            Self::Store(_) => "hub store",
            Self::LetOut(..) => "hub let_out",
            Self::Blocked(..) => "hub blocked",
            Self::Died(_) => "hub died",
            Self::LetGo => "hub let_go",
        }
    }
}
