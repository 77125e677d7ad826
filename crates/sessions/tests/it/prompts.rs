//! What is asked of the agent: run once, told whole, whatever ends in between.

use model::session::{ClientStatus, PauseReason, StopReason};
use nacre_sessions::{Ask, Handle, HubError, Told};
use provider::Provider as _;
use provider::fake::Victim;
use store::prompts::{Mode, NewPrompt, Status};
use wire::link::{Attachment, Source};

use crate::world::{World, within};

pub(crate) fn prompt(id: &str, content: &str) -> NewPrompt {
    on("web:default", id, content)
}

fn on(channel: &str, id: &str, content: &str) -> NewPrompt {
    NewPrompt {
        id: id.to_owned(),
        channel: channel.to_owned(),
        mode: Mode::Followup,
        body: serde_json::to_string(&Ask::new(content)).unwrap(),
    }
}

fn with(mode: Mode, id: &str, content: &str) -> NewPrompt {
    NewPrompt {
        mode,
        ..prompt(id, content)
    }
}

async fn status(world: &World, session: &Handle, id: &str) -> Status {
    let found = world.store.find_prompt(session.session(), id).await;
    found.unwrap().unwrap().status
}

pub(crate) async fn is(world: &World, session: &Handle, id: &str, wanted: Status) {
    within(&format!("{id} is {wanted}"), || async {
        status(world, session, id).await == wanted
    })
    .await;
}

/// How often each was run.
fn runs(world: &World, id: &str) -> usize {
    let all = world.fake.runs();
    all.iter().filter(|run| run.prompt == id).count()
}

/// What a person said with a prompt, as the transcript shows it: words, or names of files.
async fn said(world: &World, session: &Handle, prompt: &str) -> Vec<String> {
    let messages = world.store.last_messages(session.session(), 100).await;
    let id = format!("usr-{prompt}");
    let messages = messages.unwrap();
    let message = messages.iter().find(|message| message.id == id).unwrap();
    let shown = message.parts.iter().map(|part| {
        let content = &part.content;
        match content["text"].as_str() {
            Some(text) => text.to_owned(),
            None => format!("{} {}", content["name"], content["size"]),
        }
    });
    shown.collect()
}

#[tokio::test]
async fn files_that_came_with_a_prompt_are_in_the_transcript() {
    let world = World::new().await;
    let session = world.session().await;
    let file = |name: &str, source| Attachment {
        name: name.to_owned(),
        media_type: "text/plain".to_owned(),
        source,
    };
    let ask = Ask {
        attachments: vec![
            file("here.txt", Source::Data("cGVhcmw=".to_owned())),
            file("there.txt", Source::File("there.txt".to_owned())),
        ],
        ..Ask::new("say seen")
    };
    let new = NewPrompt {
        body: serde_json::to_string(&ask).unwrap(),
        ..prompt("p", "")
    };
    session.prompt(new).await.unwrap();
    assert_eq!(
        said(&world, &session, "p").await,
        ["say seen", "\"here.txt\" 5", "\"there.txt\" null"]
    );
}

/// The text of the answers, in order.
async fn answers(world: &World, session: &Handle) -> Vec<String> {
    let messages = world.store.last_messages(session.session(), 100).await;
    let messages = messages.unwrap().into_iter();
    let answers = messages.filter(|message| message.role == store::Role::Assistant);
    let text = answers.map(|message| {
        let parts = message.parts.iter();
        let texts = parts.filter_map(|part| part.content["text"].as_str());
        texts.collect::<Vec<_>>().join("|")
    });
    text.collect()
}

#[tokio::test]
async fn a_prompt_wakes_its_session_is_answered_and_kept() {
    let world = World::new().await;
    let session = world.session().await;
    let asked = session.prompt(prompt("p", "say Hello, world")).await;
    assert_eq!(asked.unwrap().status, Status::Queued);
    is(&world, &session, "p", Status::Finished).await;
    assert_eq!(answers(&world, &session).await, ["Hello, world"]);
    assert_eq!(runs(&world, "p"), 1);
    assert_eq!(session.seen().borrow().status, ClientStatus::Running);
}

#[tokio::test]
async fn the_same_id_again_is_the_same_prompt() {
    let world = World::new().await;
    let session = world.session().await;
    session.prompt(prompt("p", "say one")).await.unwrap();
    is(&world, &session, "p", Status::Finished).await;
    let again = session.prompt(prompt("p", "say two")).await.unwrap();
    assert_eq!(again.status, Status::Finished);
    assert_eq!(answers(&world, &session).await, ["one"]);
}

#[tokio::test]
async fn what_is_streamed_is_what_is_kept() {
    let world = World::new().await;
    let session = world.session().await;
    let mut watch = session.watch().await.unwrap();
    let words = "many words, in pieces, and an ä that is not split";
    session
        .prompt(prompt("p", &format!("say {words}")))
        .await
        .unwrap();
    let mut streamed = String::new();
    let mut last = watch.seq;
    loop {
        match watch.told.recv().await.unwrap() {
            Told::Passing(text) => {
                let frame: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(frame["type"], "part.delta");
                assert_eq!(frame["offset"], streamed.len());
                streamed.push_str(frame["text"].as_str().unwrap());
            }
            Told::Numbered(event) => {
                assert_eq!(event.seq, last + 1);
                last = event.seq;
                if event.kind == "message.done" {
                    break;
                }
            }
        }
    }
    assert_eq!(streamed, words);
}

#[tokio::test]
async fn who_comes_in_the_middle_gets_what_is_open_whole() {
    let world = World::new().await;
    let session = world.session().await;
    let mut watch = session.watch().await.unwrap();
    // The pieces of one text come one after the other; the next line holds the turn open.
    let slow = "say first\nask may I?";
    session.prompt(prompt("p", slow)).await.unwrap();
    let open = loop {
        let told = watch.told.recv().await.unwrap();
        if let Told::Numbered(event) = &told
            && event.kind == "question"
        {
            break event.body.clone();
        }
    };
    let second = session.watch().await.unwrap();
    assert!(second.seq > watch.seq);
    let question: serde_json::Value = serde_json::from_str(&open).unwrap();
    let id = question["question_id"].as_str().unwrap();
    session.answer(id, 0, None).await.unwrap();
    is(&world, &session, "p", Status::Finished).await;
}

#[tokio::test]
async fn channels_are_answered_beside_each_other_and_each_in_order() {
    let world = World::new().await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    let slow = on("slack:C1", "slow", "ask wait for me");
    session.prompt(slow).await.unwrap();
    for n in 0..5 {
        let id = format!("p{n}");
        let asked = prompt(&id, &format!("say {n}"));
        session.prompt(asked).await.unwrap();
    }
    is(&world, &session, "p4", Status::Finished).await;
    let answers = answers(&world, &session).await;
    let quick: Vec<&str> = answers.iter().map(String::as_str).collect();
    assert_eq!(quick, ["", "0", "1", "2", "3", "4"]);
    is(&world, &session, "slow", Status::Accepted).await;
}

#[tokio::test]
async fn one_that_steers_ends_the_turn_before_it() {
    let world = World::new().await;
    let session = world.session().await;
    session.prompt(prompt("long", "wait 60000")).await.unwrap();
    is(&world, &session, "long", Status::Accepted).await;
    let steer = with(Mode::Steer, "steer", "say now");
    session.prompt(steer).await.unwrap();
    is(&world, &session, "steer", Status::Finished).await;
    // One that was cancelled is over, not lost.
    is(&world, &session, "long", Status::Finished).await;
}

#[tokio::test]
async fn what_is_collected_is_one_turn() {
    let world = World::new().await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    for (id, text) in [("a", "say one"), ("b", "say two"), ("c", "say three")] {
        session.prompt(with(Mode::Collect, id, text)).await.unwrap();
    }
    for id in ["a", "b", "c"] {
        is(&world, &session, id, Status::Finished).await;
    }
    assert_eq!(world.fake.runs().len(), 1);
    // The empty lines between them are answered by what a line that is no order is answered by.
    let answer = answers(&world, &session).await.remove(0);
    for word in ["one", "two", "three"] {
        assert!(answer.contains(word), "{answer}");
    }
}

#[tokio::test]
async fn one_that_waits_can_be_edited_and_withdrawn() {
    let world = World::new().await;
    let session = world.session().await;
    session.prompt(prompt("long", "wait 60000")).await.unwrap();
    is(&world, &session, "long", Status::Accepted).await;
    session.prompt(prompt("a", "say before")).await.unwrap();
    session.prompt(prompt("b", "say never")).await.unwrap();
    session.edit("a", &Ask::new("say after")).await.unwrap();
    session.withdraw("b").await.unwrap();
    // Others are told both, and the transcript has what the agent will get.
    let told = world.told(session.session(), "prompt").await;
    let of = |id: &str| told.iter().rfind(|told| told["id"] == id).unwrap();
    assert_eq!(of("a")["content"], "say after");
    assert_eq!(of("a")["status"], "queued");
    assert_eq!(of("b")["reason"], "it was withdrawn");
    assert_eq!(said(&world, &session, "a").await, ["say after"]);
    assert!(matches!(
        session.withdraw("long").await,
        Err(HubError::Store(store::Error::PromptMoved(Status::Accepted)))
    ));
    session.cancel(None).await.unwrap();
    is(&world, &session, "a", Status::Finished).await;
    is(&world, &session, "b", Status::Finished).await;
    assert_eq!(answers(&world, &session).await, ["", "after"]);
    assert_eq!(runs(&world, "b"), 0);
}

#[tokio::test]
async fn a_runner_that_is_killed_interrupts_its_prompt_and_goes_on_with_the_next() {
    let world = World::new().await;
    let session = world.session().await;
    let place = session.ensure_ready().await.unwrap();
    session
        .prompt(prompt("lost", "say half\nwait 60000"))
        .await
        .unwrap();
    is(&world, &session, "lost", Status::Accepted).await;
    session.prompt(prompt("next", "say whole")).await.unwrap();
    world
        .fake
        .kill(place.sandbox, Victim::Runner)
        .await
        .unwrap();
    is(&world, &session, "lost", Status::Interrupted).await;
    is(&world, &session, "next", Status::Finished).await;
    assert_eq!((runs(&world, "lost"), runs(&world, "next")), (1, 1));
    let messages = world.store.last_messages(session.session(), 10).await;
    assert!(
        messages
            .unwrap()
            .iter()
            .all(|message| message.done.is_some())
    );
}

#[tokio::test]
async fn an_agent_that_dies_fails_its_turn_alone() {
    let world = World::new().await;
    let session = world.session().await;
    let place = session.ensure_ready().await.unwrap();
    session.prompt(prompt("p", "wait 60000")).await.unwrap();
    is(&world, &session, "p", Status::Accepted).await;
    world.fake.kill(place.sandbox, Victim::Agent).await.unwrap();
    is(&world, &session, "p", Status::Failed).await;
    session.prompt(prompt("q", "say again")).await.unwrap();
    is(&world, &session, "q", Status::Finished).await;
}

#[tokio::test]
async fn a_sandbox_that_dies_interrupts_its_prompt_and_the_next_wakes_the_session() {
    let world = World::new().await;
    let session = world.session().await;
    let place = session.ensure_ready().await.unwrap();
    session
        .prompt(prompt("lost", "write note.txt kept\nwait 60000"))
        .await
        .unwrap();
    within("the file is told of", || async {
        let messages = world.store.last_messages(session.session(), 10).await;
        messages
            .unwrap()
            .iter()
            .any(|m| m.parts.iter().any(|p| p.kind == "tool"))
    })
    .await;
    world.fake.terminate(place.sandbox).await.unwrap();
    world.sessions.observe().await;
    is(&world, &session, "lost", Status::Interrupted).await;
    assert_eq!(session.seen().borrow().status, ClientStatus::Paused);
    session.prompt(prompt("next", "say on")).await.unwrap();
    is(&world, &session, "next", Status::Finished).await;
    assert_eq!(runs(&world, "lost"), 1);
    let after = session.seen().borrow().place.unwrap();
    assert_eq!(after.generation, place.generation.next());
}

#[tokio::test]
async fn an_owner_that_takes_over_in_the_middle_of_a_turn_loses_nothing_of_it() {
    let world = World::new().await;
    let provider = std::sync::Arc::new(world.fake.clone());
    let id = world.record().await;
    let first = world.process("first", provider.clone());
    let session = first.open(id).await.unwrap();
    session
        .prompt(prompt("p", "say before\nwait 300\nsay after"))
        .await
        .unwrap();
    is(&world, &session, "p", Status::Accepted).await;
    drop(first);
    let second = world.process("second", provider);
    let session = crate::faults::opened(&second, id).await;
    is(&world, &session, "p", Status::Finished).await;
    assert_eq!(answers(&world, &session).await, ["before|after"]);
    assert_eq!(runs(&world, "p"), 1);
}

#[tokio::test]
async fn a_pause_ends_the_turn_and_keeps_what_waits_for_later() {
    let world = World::new().await;
    let session = world.session().await;
    session.prompt(prompt("p", "wait 60000")).await.unwrap();
    is(&world, &session, "p", Status::Accepted).await;
    session.prompt(prompt("q", "say later")).await.unwrap();
    session.pause(PauseReason::Manual).await.unwrap();
    is(&world, &session, "p", Status::Interrupted).await;
    assert_eq!(session.seen().borrow().status, ClientStatus::Paused);
    assert_eq!(status(&world, &session, "q").await, Status::Queued);
    session.ensure_ready().await.unwrap();
    is(&world, &session, "q", Status::Finished).await;
}

#[tokio::test]
async fn a_turn_that_ends_soon_ends_by_itself_before_the_session_moves() {
    let world = World::new().await;
    let session = world.session().await;
    let before = session.ensure_ready().await.unwrap();
    session
        .prompt(prompt("p", "wait 200\nwrite note.txt here\nsay done"))
        .await
        .unwrap();
    is(&world, &session, "p", Status::Accepted).await;
    let (moved, asked) = tokio::join!(session.migrate(), session.prompt(prompt("q", "say there")));
    asked.unwrap();
    assert_eq!(moved.unwrap().generation, before.generation.next());
    is(&world, &session, "p", Status::Finished).await;
    is(&world, &session, "q", Status::Finished).await;
    assert_eq!(answers(&world, &session).await, ["done", "there"]);
    assert_eq!(world.fake.runs().len(), 2);
}

#[tokio::test]
async fn a_stopped_session_ends_what_waits_and_takes_no_more() {
    let world = World::new().await;
    let session = world.session().await;
    session.prompt(prompt("p", "wait 60000")).await.unwrap();
    is(&world, &session, "p", Status::Accepted).await;
    session.prompt(prompt("q", "say never")).await.unwrap();
    session.stop(StopReason::Manual).await.unwrap();
    is(&world, &session, "p", Status::Interrupted).await;
    is(&world, &session, "q", Status::Failed).await;
    let refused = session.prompt(prompt("r", "say no")).await;
    assert!(matches!(refused, Err(HubError::Refused(_))));
    // What was asked before can still be asked after.
    let known = session.prompt(prompt("q", "say never")).await.unwrap();
    assert_eq!(known.status, Status::Failed);
    assert_eq!(runs(&world, "q"), 0);
}

#[tokio::test]
async fn the_transcript_can_be_told_again_from_the_log() {
    let world = World::new().await;
    let session = world.session().await;
    for n in 0..3 {
        let asked = prompt(&format!("p{n}"), &format!("say {n}\nwrite f{n} x\nfail no"));
        session.prompt(asked).await.unwrap();
    }
    is(&world, &session, "p2", Status::Failed).await;
    let before = world.store.last_messages(session.session(), 100).await;
    let mut tx = world.store.begin().await.unwrap();
    let fence = store::Fence {
        session: session.session(),
        term: session.term(),
    };
    tx.fenced(fence)
        .await
        .unwrap()
        .rebuild_transcript()
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let after = world.store.last_messages(session.session(), 100).await;
    assert_eq!(before.unwrap(), after.unwrap());
}

#[tokio::test]
async fn of_many_that_are_collected_so_many_as_fit_are_one() {
    let world = World::new().await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    for n in 0..40 {
        let asked = with(Mode::Collect, &format!("p{n}"), &format!("say {n}"));
        session.prompt(asked).await.unwrap();
    }
    for n in 0..40 {
        is(&world, &session, &format!("p{n}"), Status::Finished).await;
    }
    assert_eq!(world.fake.runs().len(), 3);
}

#[tokio::test]
async fn one_that_is_longer_than_a_frame_is_refused() {
    let world = World::new().await;
    let session = world.session().await;
    let long = prompt("p", &"x".repeat(900_000));
    assert!(matches!(
        session.prompt(long).await,
        Err(HubError::Store(store::Error::TooLarge { .. }))
    ));
}

#[tokio::test]
async fn one_that_nobody_woke_the_session_for_is_found_by_who_takes_over() {
    let world = World::new().await;
    let provider = std::sync::Arc::new(world.fake.clone());
    let id = world.record().await;
    let first = world.process("first", provider.clone());
    let session = first.open(id).await.unwrap();
    session.ensure_ready().await.unwrap();
    session.pause(PauseReason::Manual).await.unwrap();
    // As if it had been killed between the two writes.
    drop(first);
    crate::world::within("the lease runs out", || async {
        let lease = world.store.find_lease(id).await.unwrap();
        lease.is_none_or(|lease| lease.expires_at <= model::Clock::now(&model::SystemClock))
    })
    .await;
    let now = model::Clock::now(&model::SystemClock);
    let fence = world
        .store
        .take_over(id, "a ghost", now, now)
        .await
        .unwrap();
    let write = store::Write::new(fence, now).queue_prompt(prompt("p", "say found"));
    world.store.append(write).await.unwrap();
    let second = world.process("second", provider);
    assert_eq!(second.adopt().await, 1);
    let session = second.open(id).await.unwrap();
    is(&world, &session, "p", Status::Finished).await;
}
