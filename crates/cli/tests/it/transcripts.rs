//! What is typed and what it says, word for word: the session commands over a server with the fake
//! provider. What differs from run to run is written in brackets.

#[expect(dead_code, reason = "the rest is for the server's own tests")]
#[path = "../../../server/tests/it/world.rs"]
pub(crate) mod fake_world;

use std::fmt::Write as _;

use serde_json::Value;

use self::fake_world::World;
use crate::{Nacre, Ran};

/// Somebody with a token, and all they typed so far.
struct Desk {
    nacre: Nacre,
    world: World,
    told: String,
}

impl Desk {
    async fn new() -> Self {
        let world = World::new().await;
        let token = world.somebody().await.token;
        let url = format!("http://{}", world.address);
        let nacre = Nacre::new()
            .with("NACRE_URL", &url)
            .with("NACRE_TOKEN", &token);
        Self {
            nacre,
            world,
            told: String::new(),
        }
    }

    /// Words are told apart by single spaces.
    fn types(&mut self, line: &str) -> Ran {
        let nacre = &self.nacre;
        let ran = tokio::task::block_in_place(|| nacre.run(line.split(' ')));
        let _ = write!(self.told, "$ nacre {line}\n{}", told(&ran));
        ran
    }

    /// With the first line that came of it.
    fn makes(&mut self, line: &str) -> String {
        let made = self.types(line);
        made.stdout.lines().next().unwrap_or_default().to_owned()
    }

    fn check(&self, name: &str) {
        let address = self.world.address.to_string().replace('.', r"\.");
        let port = format!(":{}", self.world.address.port());
        let mut settings = insta::Settings::clone_current();
        for (found, shown) in [
            (&*address, "[server]"),
            (&*port, ":[port]"),
            (r"\b(ses|snp|sbx|org|usr)[_-][0-9a-z-]{20,}", "[$1]"),
            (r"nacre_code=\w+", "nacre_code=[code]"),
            (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]"),
            (r"(_ms)\x22: [\d.]+", "$1\": \"[took]\""),
            // Where everything took no time at all, none is told.
            (r"(?m)^running(, after .*)?$", "running, after [took]"),
            (r"\b\d+(\.\d+)? (ms|s)\b", "[took]"),
            (r"\b\d+s +", "[age]  "),
        ] {
            settings.add_filter(found, shown);
        }
        settings.bind(|| insta::assert_snapshot!(name, self.told));
    }
}

/// What went to stdout as it is, what went to stderr behind `!`, then the exit code.
fn told(ran: &Ran) -> String {
    let mut text = pretty(&ran.stdout);
    for line in pretty(&ran.stderr).lines() {
        let _ = writeln!(text, "! {line}");
    }
    let code = ran.code.map_or("none".to_owned(), |code| code.to_string());
    let _ = writeln!(text, "[exit {code}]\n");
    text
}

/// JSON over several lines, for a reader; the rest as it is.
fn pretty(text: &str) -> String {
    let mut shown = String::new();
    for line in text.lines() {
        let value = serde_json::from_str::<Value>(line);
        let value = value.ok().filter(Value::is_object);
        let line = value.map_or(line.to_owned(), |value| format!("{:#}", shorter(value)));
        let _ = writeln!(shown, "{line}");
    }
    shown
}

/// What models took is told by tests of its own.
fn shorter(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| match &*name {
                "usage" => (name, "[usage]".into()),
                _ => (name, shorter(value)),
            });
            fields.collect()
        }
        Value::Array(items) => items.into_iter().map(shorter).collect(),
        value => value,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_from_new_to_removed() {
    let mut desk = Desk::new().await;
    desk.types("session ls");
    let id = desk.makes("session new --title pearls");
    desk.types("session ls");
    desk.types(&format!("session why {id}"));
    desk.types(&format!("session resume {id}"));
    desk.types(&format!("session show {id}"));
    let snapshot = desk.makes(&format!("session snapshot {id} -m before"));
    desk.types(&format!("session pause {id}"));
    desk.types("session ls --status paused");
    desk.types(&format!(
        "session fork {id} --snapshot {snapshot} --title otherwise"
    ));
    desk.types(&format!("session stop {id}"));
    desk.types(&format!("session resume {id}"));
    desk.types("session ls --all");
    desk.types(&format!("session rm {id}"));
    desk.types(&format!("session show {id}"));
    desk.check("a_session_from_new_to_removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_for_programs() {
    let mut desk = Desk::new().await;
    desk.types("session ls --json");
    let made = desk.types("session new --title pearls --json").json();
    let id = made["id"].as_str().unwrap();
    desk.types(&format!("session resume {id} --json"));
    desk.types("session ls --json");
    desk.types(&format!("session snapshot {id} --json"));
    desk.types(&format!("session open {id} 3000 --json"));
    desk.types(&format!("session pause {id} --json"));
    desk.types(&format!("session why {id} --json"));
    desk.types(&format!("session fork {id} --json"));
    desk.types(&format!("session stop {id} --json"));
    desk.types(&format!("session rm {id} --json"));
    desk.check("the_same_for_programs");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_printed_alone() {
    let mut desk = Desk::new().await;
    let id = desk.makes("session new --start");
    desk.types(&format!("session open {id}"));
    desk.types(&format!("session open {id} 3000"));
    desk.types(&format!("session open {id} terminal --json"));
    desk.types(&format!("session open {id} attic"));
    desk.check("links_are_printed_alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_names_the_next_step() {
    let mut desk = Desk::new().await;
    let missing = "ses_01900000-0000-7000-8000-000000000000";
    for line in ["show", "why", "pause", "stop", "fork", "ssh", "open", "rm"] {
        desk.types(&format!("session {line} {missing}"));
    }
    desk.types(&format!("session show {missing} --json"));
    desk.types("session show nonsense");
    let id = desk.makes("session new");
    desk.types(&format!("session recover {id}"));
    desk.types(&format!("session recover {id} --accept"));
    desk.types(&format!("session attach {id}"));
    desk.types("session new --repo nonsense");
    desk.nacre
        .variables
        .retain(|(name, _)| name != "NACRE_TOKEN");
    desk.types("session ls");
    let wrong = format!("nac_{}", "0".repeat(43));
    desk.nacre.variables.push(("NACRE_TOKEN".to_owned(), wrong));
    desk.types("session ls");
    desk.types("session ls --json");
    // Nobody listens there.
    desk.nacre.variables.retain(|(name, _)| name != "NACRE_URL");
    let nowhere = ("NACRE_URL".to_owned(), "http://127.0.0.1:1".to_owned());
    desk.nacre.variables.push(nowhere);
    desk.types("session ls");
    desk.check("what_goes_wrong_names_the_next_step");
}
