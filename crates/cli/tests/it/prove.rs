//! `nacre prove`: storms over the fake provider's process, and over real sandboxes with a real
//! agent.

use serde_json::Value;
use testkit::model::ScriptedModel;

use crate::based::Based;
use crate::{Nacre, Ran};

/// Five of these are the five hundred rounds that every run of the tests makes.
const ROUNDS: &str = "100";
const REAL_ROUNDS: &str = "20";

fn is_kept(ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    let report = ran.json();
    assert_eq!(report["broken"], Value::Array(Vec::new()));
    report
}

fn storm(seed: &str) {
    let nacre = Nacre::new();
    let ran = nacre.run([
        "--json", "prove", "crash", "--rounds", ROUNDS, "--seed", seed,
    ]);
    let report = is_kept(&ran);
    // A storm in which nothing happens proves nothing.
    for what in [
        "prompts",
        "finished",
        "interrupted",
        "frames",
        "deltas",
        "files",
    ] {
        assert!(report[what].as_u64() > Some(0), "{what}: {report}");
    }
    assert!(report["blows"].as_array().unwrap().len() > 8, "{report}");
}

#[test]
fn nothing_is_lost_in_a_hundred_rounds_first() {
    storm("1");
}

#[test]
fn nothing_is_lost_in_a_hundred_rounds_second() {
    storm("2");
}

#[test]
fn nothing_is_lost_in_a_hundred_rounds_third() {
    storm("3");
}

#[test]
fn nothing_is_lost_in_a_hundred_rounds_fourth() {
    storm("4");
}

#[test]
fn nothing_is_lost_in_a_hundred_rounds_fifth() {
    storm("5");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_of_a_real_agent_in_twenty_rounds() {
    let Some(based) = Based::slim() else { return };
    let model = ScriptedModel::listen(0).await.unwrap();
    let address = model.address().unwrap().to_string();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        let _ = model.run().await;
    });
    let base = based.base.to_string();
    let ran = tokio::task::block_in_place(|| {
        based.nacre.run([
            "--json",
            "prove",
            "crash",
            "--rounds",
            REAL_ROUNDS,
            "--seed",
            "7",
            "--base",
            &base,
            "--model",
            &address,
        ])
    });
    let report = is_kept(&ran);
    for what in ["finished", "frames", "deltas", "files"] {
        assert!(report[what].as_u64() > Some(0), "{what}: {report}");
    }
}

#[test]
fn the_report_says_what_was_done_in_words() {
    let nacre = Nacre::new();
    let ran = nacre.run(["prove", "crash", "--rounds", "3", "--seed", "9"]);
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    assert!(ran.stdout.contains("3 rounds with seed 9"));
    assert!(
        ran.stdout
            .ends_with("Nothing was lost, nothing ran twice, nobody was stuck.\n")
    );
    let ran = nacre.run(["prove", "crash", "--base", "base"]);
    assert_eq!(ran.code, Some(2), "{}", ran.transcript());
}
