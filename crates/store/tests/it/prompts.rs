//! Prompts: at most once.

use nacre_store::prompts::{Destination, End, Mode, NewPrompt, Queued, Status};
use nacre_store::{Committed, Error, Fence, NewEvent, Result, Write, limits};
use serde_json::json;

use crate::world::World;

stories! {
    the_same_id_again_answers_the_same_prompt,
    a_prompt_goes_through_its_states_and_no_other_way,
    only_the_runner_it_was_sent_to_gives_it_back,
    a_channel_has_one_prompt_under_way,
    prompts_keep_the_order_in_which_they_were_asked,
    a_waiting_prompt_can_be_changed_and_withdrawn,
    the_queue_has_an_end,
}

fn prompt(id: &str, channel: &str) -> NewPrompt {
    NewPrompt {
        id: id.to_owned(),
        channel: channel.to_owned(),
        mode: Mode::Followup,
        body: format!(r#"{{"content":"{id}"}}"#),
    }
}

fn to(generation: u64, boot: &str) -> Destination {
    Destination {
        generation,
        boot: boot.to_owned(),
    }
}

async fn queue(world: &World, fence: Fence, id: &str, channel: &str) -> Result<Committed> {
    let event = NewEvent::new(&json!({"type": "prompt", "id": id, "status": "queued"}))?;
    let write = world
        .write(fence)
        .queue_prompt(prompt(id, channel))
        .event(event);
    world.store.append(write).await
}

async fn status(world: &World, fence: Fence, id: &str) -> Status {
    let prompt = world.store.find_prompt(fence.session, id).await.unwrap();
    prompt.unwrap().status
}

async fn the_same_id_again_answers_the_same_prompt(world: World) {
    let fence = world.session().await;
    let first = queue(&world, fence, "p", "web:default").await.unwrap();
    let Some(Queued::New(new)) = first.prompt else {
        panic!("it is new");
    };
    let write = world.write(fence).dispatch_prompt("p", to(1, "b"));
    world.store.append(write).await.unwrap();
    let again = queue(&world, fence, "p", "slack:elsewhere").await.unwrap();
    let Some(Queued::Known(known)) = again.prompt else {
        panic!("it is known");
    };
    assert!(again.events.is_empty());
    assert_eq!(known.status, Status::Dispatched);
    assert_eq!((known.position, known.body), (new.position, new.body));
    assert_eq!(known.channel, "web:default");
}

/// Every move from every state: what is not listed is refused, and changes nothing.
async fn a_prompt_goes_through_its_states_and_no_other_way(world: World) {
    use Status::{Accepted, Dispatched, Failed, Finished, Interrupted, Queued};
    type Move<'a> = (&'a str, Box<dyn Fn(Write, &str) -> Write>);
    let fence = world.session().await;
    let write = || world.write(fence);
    let moves: Vec<Move> = vec![
        (
            "dispatch",
            Box::new(|w, p| w.dispatch_prompt(p, to(1, "b"))),
        ),
        ("accept", Box::new(|w, p| w.accept_prompt(p, to(1, "b")))),
        (
            "give back",
            Box::new(|w, p| w.give_back_prompt(p, to(1, "b"))),
        ),
        (
            "finish",
            Box::new(|w, p| w.end_prompt(p, End::Finished, None)),
        ),
        (
            "fail",
            Box::new(|w, p| w.end_prompt(p, End::Failed, Some("why".into()))),
        ),
        (
            "interrupt",
            Box::new(|w, p| w.end_prompt(p, End::Interrupted, None)),
        ),
    ];
    let ways: [(Status, &[&str]); 6] = [
        (Queued, &[]),
        (Dispatched, &["dispatch"]),
        (Accepted, &["dispatch", "accept"]),
        (Finished, &["dispatch", "accept", "finish"]),
        (Failed, &["dispatch", "fail"]),
        (Interrupted, &["dispatch", "accept", "interrupt"]),
    ];
    let allowed = |from: Status, name: &str| match (from, name) {
        (Queued, "dispatch") => Some(Dispatched),
        (Dispatched, "accept") => Some(Accepted),
        (Dispatched | Accepted, "give back") => Some(Queued),
        (Queued | Dispatched | Accepted, "finish") => Some(Finished),
        (Queued | Dispatched | Accepted, "fail") => Some(Failed),
        (Dispatched | Accepted, "interrupt") => Some(Interrupted),
        _ => None,
    };
    for (from, way) in ways {
        for (name, act) in &moves {
            let id = format!("{from} {name}");
            queue(&world, fence, &id, &id).await.unwrap();
            for step in way {
                let (_, act) = moves.iter().find(|(name, _)| name == step).unwrap();
                world.store.append(act(write(), &id)).await.unwrap();
            }
            assert_eq!(status(&world, fence, &id).await, from);
            let answer = world.store.append(act(write(), &id)).await;
            if let Some(next) = allowed(from, name) {
                answer.unwrap();
                assert_eq!(status(&world, fence, &id).await, next, "{id}");
                continue;
            }
            assert!(
                matches!(&answer, Err(Error::PromptMoved(is)) if *is == from),
                "{id}: {answer:?}"
            );
            assert_eq!(status(&world, fence, &id).await, from);
        }
    }
    let unknown = world.write(fence).accept_prompt("nobody's", to(1, "b"));
    let answer = world.store.append(unknown).await;
    assert!(matches!(answer, Err(Error::NotFound("prompt"))));
}

async fn only_the_runner_it_was_sent_to_gives_it_back(world: World) {
    let fence = world.session().await;
    queue(&world, fence, "p", "web:default").await.unwrap();
    let write = world.write(fence).dispatch_prompt("p", to(2, "b"));
    world.store.append(write).await.unwrap();
    for other in [to(1, "b"), to(3, "b"), to(2, "c")] {
        let write = world.write(fence).give_back_prompt("p", other.clone());
        assert!(world.store.append(write).await.is_err());
        let write = world.write(fence).accept_prompt("p", other);
        assert!(world.store.append(write).await.is_err());
    }
    let write = world.write(fence).give_back_prompt("p", to(2, "b"));
    world.store.append(write).await.unwrap();
    let back = world
        .store
        .find_prompt(fence.session, "p")
        .await
        .unwrap()
        .unwrap();
    assert_eq!((back.status, back.destination), (Status::Queued, None));
}

async fn a_channel_has_one_prompt_under_way(world: World) {
    let fence = world.session().await;
    for (id, channel) in [
        ("a", "web:default"),
        ("b", "web:default"),
        ("c", "slack:C1"),
    ] {
        queue(&world, fence, id, channel).await.unwrap();
    }
    let dispatch = |id: &str| {
        let write = world.write(fence).dispatch_prompt(id, to(1, "boot"));
        world.store.append(write)
    };
    dispatch("a").await.unwrap();
    assert!(matches!(dispatch("b").await, Err(Error::Forbidden { .. })));
    dispatch("c").await.unwrap();
    let end = world.write(fence).end_prompt("a", End::Finished, None);
    world.store.append(end).await.unwrap();
    dispatch("b").await.unwrap();
}

async fn prompts_keep_the_order_in_which_they_were_asked(world: World) {
    let fence = world.session().await;
    let ids: Vec<String> = (0..20).map(|n| format!("{:02}", (n * 7) % 20)).collect();
    for id in &ids {
        queue(&world, fence, id, "web:default").await.unwrap();
    }
    let end = world.write(fence).end_prompt(&ids[3], End::Finished, None);
    world.store.append(end).await.unwrap();
    let open = world.store.open_prompts(fence.session).await.unwrap();
    let open: Vec<&String> = open.iter().map(|prompt| &prompt.id).collect();
    let expected: Vec<&String> = ids.iter().filter(|id| **id != ids[3]).collect();
    assert_eq!(open, expected);
}

async fn a_waiting_prompt_can_be_changed_and_withdrawn(world: World) {
    let fence = world.session().await;
    queue(&world, fence, "p", "web:default").await.unwrap();
    let mut tx = world.store.begin().await.unwrap();
    let mut session = tx.fenced(fence).await.unwrap();
    session
        .edit_prompt("p", r#"{"content":"better"}"#)
        .await
        .unwrap();
    session
        .end_prompt("p", End::Finished, Some("withdrawn"), world.now())
        .await
        .unwrap();
    let late = session.edit_prompt("p", "{}").await;
    assert!(matches!(late, Err(Error::PromptMoved(Status::Finished))));
    let prompt = session.find_prompt("p").await.unwrap().unwrap();
    assert_eq!(prompt.body, r#"{"content":"better"}"#);
    assert_eq!(prompt.reason.as_deref(), Some("withdrawn"));
    assert_eq!(prompt.destination, None);
}

async fn the_queue_has_an_end(world: World) {
    let fence = world.session().await;
    let mut tx = world.store.begin().await.unwrap();
    let mut session = tx.fenced(fence).await.unwrap();
    for number in 0..limits::QUEUED_PROMPTS {
        let prompt = prompt(&number.to_string(), "web:default");
        session.queue_prompt(&prompt, world.now()).await.unwrap();
    }
    let full = session
        .queue_prompt(&prompt("x", "web:default"), world.now())
        .await;
    assert!(matches!(full, Err(Error::Full(_))));
    let known = session
        .queue_prompt(&prompt("7", "web:default"), world.now())
        .await;
    assert!(matches!(known, Ok(Queued::Known(_))));
}
