//! What an agent asks for, answered in `nacre session attach` over a server with the fake provider.

use model::{Clock as _, Id, SignedDuration, SystemClock};
use serde_json::json;
use store::actions::{NewAction, Risk, Status};

use crate::Nacre;
use crate::exec::Terminal;
use crate::transcripts::fake_world::World;
use crate::world::Running;

fn attached(world: &World, token: &str, session: &str) -> (Running, Terminal, Nacre) {
    let nacre = Nacre::new()
        .with("NACRE_URL", &format!("http://{}", world.address))
        .with("NACRE_TOKEN", token)
        .with("TERM", "xterm")
        .with("NO_COLOR", "1");
    let terminal = Terminal::open(30, 100);
    let mut command = nacre.command(["session", "attach", session]);
    let command = command
        .stdin(terminal.end())
        .stdout(terminal.end())
        .stderr(terminal.end());
    (Running(command.spawn().unwrap()), terminal, nacre)
}

async fn ask_for_action(world: &World, session: &str) -> String {
    let now = SystemClock.now();
    let action = NewAction {
        id: Id::new(&SystemClock),
        session: session.parse().unwrap(),
        request: "r1".to_owned(),
        integration: "person".to_owned(),
        action: "allow".to_owned(),
        params: json!({ "what": "deploy" }).to_string(),
        risk: Risk::Danger,
        status: Status::Pending,
        at: now,
        expires_at: now + SignedDuration::from_hours(1),
    };
    let mut tx = world.store.begin().await.unwrap();
    tx.ask_for_action(&action).await.unwrap();
    tx.commit().await.unwrap();
    action.id.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_approved_and_the_server_knows() {
    let world = World::new().await;
    let owner = world.somebody().await;
    let session = world.session(&owner).await;
    let action = ask_for_action(&world, &session).await;
    let (_running, mut terminal, _nacre) = attached(&world, &owner.token, &session);
    tokio::task::block_in_place(|| {
        terminal.shows("person: allow (cannot be undone)");
        terminal.shows("deploy");
        terminal.types(b"y");
        terminal.shows("person: allow is done");
    });
    let path = format!("/v1/sessions/{session}/actions");
    let listed = world.get(&owner, &path).await;
    assert_eq!(listed["items"][0]["id"], action);
    assert_eq!(listed["items"][0]["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_did_not_arrive_is_asked_for_again_and_never_shown() {
    let world = World::new().await;
    let owner = world.somebody().await;
    let session = world.session(&owner).await;
    let hub = world.sessions.open(session.parse().unwrap()).await.unwrap();
    let asked = json!({"type": "env_request", "id": "e", "keys": [{"key": "API_KEY"}]});
    hub.announce(&asked).await.unwrap();
    let (_running, mut terminal, _nacre) = attached(&world, &owner.token, &session);
    let seen = tokio::task::block_in_place(|| {
        terminal.shows("the value of API_KEY");
        terminal.types(b"hush-canary\r");
        terminal.shows("Give API_KEY to the sandbox?");
        terminal.types(b"\r");
        // The fake has nobody inside who could take it.
        terminal.shows("Give API_KEY to the sandbox?");
        terminal.all()
    });
    assert!(!seen.contains("hush"), "{seen}");
    let told = world.store.events_after(session.parse().unwrap(), 0, 500);
    let told = format!("{:?}", told.await.unwrap());
    assert!(!told.contains("hush"), "{told}");
}
