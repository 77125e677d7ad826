//! However the line is cut, the transcript comes out the same.

use nacre_client::{Frame, Transcript};
use proptest::prelude::*;
use serde_json::Value;

use crate::world::{World, steps};

/// The line breaks: so many frames are told to nobody, and then it is taken up again.
#[derive(Debug, Clone)]
struct Cut {
    after: usize,
    lost: usize,
    /// The client lagged too far.
    resync: bool,
    /// Frames before the last that are told again.
    again: u64,
}

fn cuts() -> impl Strategy<Value = Vec<Cut>> {
    let cut = (0..12usize, 0..12usize, any::<bool>(), 0..4u64).prop_map(
        |(after, lost, resync, again)| Cut {
            after,
            lost,
            resync,
            again,
        },
    );
    proptest::collection::vec(cut, 0..6)
}

fn apply(transcript: &mut Transcript, text: &str) {
    transcript.apply(&Frame::read(text).unwrap());
}

/// All of it on one line.
fn uncut(world: &World) -> Transcript {
    let mut transcript = Transcript::default();
    for told in &world.told {
        apply(&mut transcript, &told.text);
    }
    transcript
}

fn with_cuts(world: &World, cuts: &[Cut]) -> Transcript {
    let mut transcript = Transcript::default();
    let mut at = 0;
    for cut in cuts {
        let end = (at + cut.after).min(world.told.len());
        for told in &world.told[at..end] {
            apply(&mut transcript, &told.text);
        }
        at = (end + cut.lost).min(world.told.len());
        let since = transcript.seq.saturating_sub(cut.again);
        let since = (!cut.resync).then_some(since);
        for text in world.greeting(at, since) {
            apply(&mut transcript, &text);
        }
    }
    for told in &world.told[at..] {
        apply(&mut transcript, &told.text);
    }
    transcript
}

/// Without what an `init` does not tell: prompts that are over.
fn compared(transcript: &Transcript) -> Value {
    let mut value = serde_json::to_value(transcript).unwrap();
    let prompts = value["prompts"].as_array_mut().unwrap();
    prompts.retain(|prompt| prompt["status"] != "finished");
    prompts.sort_by_key(|prompt| prompt["id"].to_string());
    value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_line_that_was_cut_tells_the_same_as_one_that_was_not(steps in steps(), cuts in cuts()) {
        let world = World::of(&steps);
        let cuts: Vec<Cut> = cuts.into_iter().map(|cut| Cut { resync: false, ..cut }).collect();
        prop_assert_eq!(with_cuts(&world, &cuts), uncut(&world));
    }

    #[test]
    fn one_that_began_anew_shows_the_same(steps in steps(), cuts in cuts()) {
        let world = World::of(&steps);
        // An `init` tells a title and a status even where nothing was ever told.
        let mut expected = uncut(&world);
        let mut heard = with_cuts(&world, &cuts);
        if expected.title.is_none() {
            heard.title = None;
        }
        if expected.status.is_none() {
            heard.status = None;
        }
        expected.session.clone_from(&heard.session);
        prop_assert_eq!(compared(&heard), compared(&expected));
    }

    #[test]
    fn frames_in_any_order_break_nothing(steps in steps(), order in proptest::collection::vec(any::<prop::sample::Index>(), 0..80)) {
        let world = World::of(&steps);
        let mut transcript = Transcript::default();
        for index in order {
            if !world.told.is_empty() {
                apply(&mut transcript, &index.get(&world.told).text);
            }
        }
    }
}

#[test]
fn messages_before_an_init_can_be_added() {
    let world = World::of(&[crate::world::Step::Open(0), crate::world::Step::Open(1)]);
    let init: Value = serde_json::from_str(&world.init(2, false)).unwrap();
    let all: Vec<wire::v1::Message> = serde_json::from_value(init["messages"].clone()).unwrap();
    let mut short = init.clone();
    short["messages"].as_array_mut().unwrap().remove(0);
    let mut transcript = Transcript::default();
    apply(&mut transcript, &short.to_string());
    assert_eq!(transcript.messages().len(), 1);
    transcript.add_older(all);
    let ids: Vec<&str> = transcript
        .messages()
        .iter()
        .map(|held| held.id.as_str())
        .collect();
    assert_eq!(ids, ["m0", "m1"]);
}
