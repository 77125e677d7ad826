//! `nacre prove`: storms over the fake provider's process, and over real sandboxes with a real
//! agent.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use model::{Clock as _, Id, Organisation, Session, SystemClock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
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

/// A process of a proof, which ends with the test.
struct Server {
    child: std::process::Child,
    socket: camino::Utf8PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(nacre: &Nacre, socket: camino::Utf8PathBuf, arguments: &[&str]) -> Self {
        let mut command = nacre.command(["internal"]);
        command.args(arguments).args(["--socket", socket.as_str()]);
        let child = command.spawn().unwrap();
        let server = Self { child, socket };
        for _ in 0..2000 {
            if UnixStream::connect(&server.socket).is_ok() {
                return server;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not listen");
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Nothing when it does not answer.
    fn ask(&self, request: &Value) -> Option<Value> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .ok()?;
        stream.write_all(format!("{request}\n").as_bytes()).ok()?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).ok()?;
        serde_json::from_str(&answer).ok()
    }

    fn is_done(&self, request: &Value) -> bool {
        self.ask(request) == Some(json!("done"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_stood_still_past_its_lease_can_do_nothing_when_it_wakes() {
    let nacre = Nacre::new();
    let home = nacre.home.path().to_owned();
    let database = home.join("nacre.db");
    let config = store::Config::new(format!("sqlite:{database}").parse().unwrap());
    let store = store::Store::open(&config).await.unwrap();
    let organisation = Id::<Organisation>::new(&SystemClock);
    let mut tx = store.begin().await.unwrap();
    tx.create_organisation(organisation, "ours", SystemClock.now())
        .await
        .unwrap();
    tx.commit().await.unwrap();

    let state = home.join("provider");
    fs_err::create_dir_all(&state).unwrap();
    let provider = Server::start(
        &nacre,
        home.join("p.sock"),
        &["fake-provider", "--state", state.as_str()],
    );
    let organisation = organisation.to_string();
    let start = |owner: &str| {
        let arguments = [
            "prove-server",
            "--database",
            database.as_str(),
            "--owner",
            owner,
            "--organisation",
            &organisation,
            "--fake-provider",
            provider.socket.as_str(),
        ];
        Server::start(&nacre, home.join(format!("{owner}.sock")), &arguments)
    };
    let first = start("first");
    let made = first.ask(&json!({ "create": {} })).unwrap();
    let session = &made["session"];
    let ensure = json!({ "do": [session, "ensure"] });
    assert!(first.is_done(&ensure));
    let id: Id<Session> = session.as_str().unwrap().parse().unwrap();
    let before = store.load_session(id).await.unwrap();

    // Not while it holds the database: nobody could take over before it goes on.
    loop {
        first.signal(Signal::STOP);
        if let Ok(tx) = store.begin().await {
            tx.rollback().await.unwrap();
            break;
        }
        first.signal(Signal::CONT);
    }
    let second = start("second");
    while !second.is_done(&ensure) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let taken = store.load_session(id).await.unwrap();
    assert!(taken.term > before.term);
    let prompt = |id: &str| {
        json!({ "prompt": {
            "session": session, "id": id, "content": "say hello", "mode": "followup",
        } })
    };
    assert!(second.is_done(&prompt("p")));

    first.signal(Signal::CONT);
    for deed in ["pause", "stop", "migrate", "snapshot"] {
        let answer = first.ask(&json!({ "do": [session, deed] }));
        assert!(
            answer.is_some_and(|answer| answer["failed"].is_string()),
            "{deed}"
        );
    }
    assert!(!first.is_done(&prompt("late")));
    assert_eq!(first.ask(&json!("owned")), Some(json!({ "owned": [] })));
    let owned = json!({ "owned": [[session, taken.term]] });
    assert_eq!(second.ask(&json!("owned")), Some(owned));
    assert!(second.is_done(&ensure));
    let after = store.load_session(id).await.unwrap();
    assert_eq!(after.term, taken.term);
    assert_eq!(after.state.sandbox_id, before.state.sandbox_id);
    assert!(store.find_prompt(id, "late").await.unwrap().is_none());
}
