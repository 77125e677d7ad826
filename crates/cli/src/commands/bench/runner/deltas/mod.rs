//! An answer on its way from the agent to the hub: what runner and link add to it, and whether all
//! of it comes.

mod answer;
mod model;
mod tap;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use provider::{Forward, Provider as _, SandboxId, SandboxSpec};
use tokio::task::JoinSet;
use wire::link::{AgentConfig, Boot, CustomProvider, FromHub, FromRunner, Model, Prompt};

use self::answer::{Answer, added};
use self::model::Speech;
use self::tap::Tap;
use super::super::stats::{Samples, number};
use super::agent_ready::Recipe;
use super::aside::Aside;
use super::hub::Hub;
use super::{Ground, PATIENCE};
use crate::error::CommandError;

/// On the sandbox's loopback, where the model is found.
const MODEL_PORT: u16 = 8399;
/// A connection that lived a second was a good one, after which the workplace knocks at once.
const BETWEEN_CUTS: Duration = Duration::from_millis(1100);

/// How long after OpenCode's own stream the hub has each delta.
pub(super) async fn run(ground: &mut Ground) -> Result<(), CommandError> {
    let speech = Speech {
        deltas: ground.runs.deltas,
        per_second: ground.runs.per_second,
    };
    let mut desk = Desk::open(ground, speech).await?;
    let length = speech.text().len();
    let tapping = async {
        let recipe = Recipe::of(&ground.local, desk.id).await?;
        let authorization = recipe.authorization()?;
        let first = Tap::open(&ground.local, desk.id, &authorization).await?;
        let second = Tap::open(&ground.local, desk.id, &authorization).await?;
        Ok([first, second])
    };
    let taps = ground.wait("OpenCode's stream", PATIENCE, tapping).await?;
    let mut listening = JoinSet::new();
    for mut tap in taps {
        listening.spawn(async move { tap.until(length).await });
    }

    let begun = Instant::now();
    desk.ask().await;
    let answer = ground
        .wait("the answer", speech.lasts() * 3 + PATIENCE, desk.answer())
        .await?;
    let took = begun.elapsed();
    let tapped = ground
        .wait("the same on OpenCode's stream", PATIENCE, async {
            let mut tapped = Vec::new();
            while let Some(tap) = listening.join_next().await {
                tapped.push(tap.map_err(anyhow::Error::from)??);
            }
            Ok(tapped)
        })
        .await?;
    ground.local.remove(desk.id).await?;
    let [first, second] = &tapped[..] else {
        return Err(CommandError::failed("nobody listened to OpenCode"));
    };

    // What OpenCode and the machine do between two who listen is none of ours.
    let mut apart = Samples::default();
    for ms in added(first, second) {
        apart.add_ms(ms.abs());
    }
    let mut samples = Samples::default();
    for ms in added(first, answer.reached()) {
        samples.add_ms(ms);
    }
    let report = &mut ground.report;
    let name = format!("{} deltas: added by runner and link", speech.deltas);
    if let Some(summary) = report.times(&name, &samples) {
        report.goal(&name, "p99_ms", summary.p99_ms, 2.0, "ms");
    }
    let name = format!(
        "{} deltas: two who listen to OpenCode, apart",
        speech.deltas
    );
    report.times(&name, &apart);
    let name = format!("{} deltas", speech.deltas);
    let faults = answer.faults(&speech.text());
    report.goal(&name, "lost or doubled", number(faults), 0.0, "texts");
    let rate = f64::from(speech.deltas) / took.as_secs_f64();
    report.value(&format!("{name}: reached"), rate, "deltas/s");
    let frames = number(answer.reached().len() as u64);
    report.value(&format!("{name}: said in"), frames, "frames");
    Ok(())
}

/// The same with the hub gone again and again. Only the whole is judged.
pub(super) async fn run_with_cuts(ground: &mut Ground) -> Result<(), CommandError> {
    let (cuts, deltas) = (ground.runs.cuts, ground.runs.deltas);
    // It lasts a quarter longer than the cuts take.
    let seconds = (BETWEEN_CUTS * cuts).mul_f64(1.25).as_secs().max(1);
    let speech = Speech {
        deltas,
        per_second: deltas.div_ceil(u32::try_from(seconds).unwrap_or(u32::MAX)),
    };
    let mut desk = Desk::open(ground, speech).await?;
    desk.ask().await;
    let (answer, made) = ground
        .wait(
            "the answer",
            speech.lasts() * 3 + PATIENCE,
            desk.answer_with_cuts(cuts),
        )
        .await?;
    ground.local.remove(desk.id).await?;

    let report = &mut ground.report;
    let name = format!("{deltas} deltas with a link that is cut");
    report.goal_at_least(&name, "cuts", f64::from(made), f64::from(cuts), "times");
    let faults = answer.faults(&speech.text());
    report.goal(&name, "lost or doubled", number(faults), 0.0, "texts");
    Ok(())
}

/// A ready workplace whose model says one thing.
struct Desk {
    id: SandboxId,
    hub: Hub,
    speech: Speech,
    _model: Aside,
}

impl Desk {
    async fn open(ground: &Ground, speech: Speech) -> Result<Self, CommandError> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let forward = Forward {
            port: MODEL_PORT,
            to: listener.local_addr()?,
        };
        let model = Aside::start(listener, model::serve)?;
        let spec = SandboxSpec {
            forwards: vec![forward],
            ..ground.workplace()
        };
        let id = ground.local.create(&spec).await?.id;
        let mut hub = Hub::open(&ground.local, id, Some(boot(speech))).await?;
        ground
            .wait("a ready agent", PATIENCE, hub.until_ready())
            .await?;
        Ok(Self {
            id,
            hub,
            speech,
            _model: model,
        })
    }

    async fn ask(&mut self) {
        let prompt = Prompt {
            chain: vec![self.speech.model()],
            ..Prompt::new("bench", "Count.")
        };
        self.hub.say(FromHub::Prompt(Box::new(prompt))).await;
    }

    async fn answer(&mut self) -> Result<Answer, CommandError> {
        Ok(self.answer_with_cuts(0).await?.0)
    }

    /// To its end, and how often the link was cut in the middle of it.
    async fn answer_with_cuts(&mut self, cuts: u32) -> Result<(Answer, u32), CommandError> {
        let mut answer = Answer::default();
        let (mut made, mut since) = (0, Instant::now());
        loop {
            let (frame, at) = self.hub.next().await?;
            match &frame {
                FromRunner::Hello(_) => since = at,
                FromRunner::Complete { .. } => return Ok((answer, made)),
                FromRunner::Canceled { .. } => {
                    return Err(CommandError::failed("the turn was canceled"));
                }
                FromRunner::Error(error) => {
                    return Err(CommandError::failed(format!(
                        "the turn failed: {}",
                        error.message
                    )));
                }
                FromRunner::PartDelta { .. }
                    if made < cuts && at.duration_since(since) > BETWEEN_CUTS =>
                {
                    self.hub.cut();
                    made += 1;
                }
                _ => {}
            }
            answer.take(frame, at);
        }
    }
}

fn boot(speech: Speech) -> Boot {
    Boot {
        agent: AgentConfig {
            model: Some(speech.model()),
            small_model: Some(speech.model()),
            custom_providers: vec![CustomProvider {
                id: model::PROVIDER.to_owned(),
                name: "Bench".to_owned(),
                base_url: format!("http://127.0.0.1:{MODEL_PORT}/v1"),
                models: vec![Model {
                    id: speech.to_string(),
                    name: None,
                    context_limit: None,
                    output_limit: None,
                }],
            }],
            ..AgentConfig::default()
        },
        ..Boot::default()
    }
}
