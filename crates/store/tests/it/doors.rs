//! What the doors keep: uploads, usage, requests that are done once; and what is listed at them.

use model::{Id, Session, SystemClock};
use nacre_store::audit::Line;
use nacre_store::channels::Channel;
use nacre_store::idempotency::Begun;
use nacre_store::prompts::{Destination, End, Mode, NewPrompt};
use nacre_store::pulls::{PullRecord, State};
use nacre_store::repositories::RepositoryRecord;
use nacre_store::sessions::{Archived, Listing};
use nacre_store::uploads::UploadRecord;
use nacre_store::usage::{SessionSum, Sum, Tokens, UsageRecord};
use serde_json::json;

use crate::world::{World, seconds};

stories! {
    an_upload_is_found_until_it_expires,
    usage_is_summed_by_session_prompt_and_organisation,
    what_several_sessions_took_is_asked_for_at_once,
    an_organisation_has_its_own_repositories_each_once,
    what_belongs_to_no_prompt_and_what_subagents_took_is_told_apart,
    a_request_is_of_the_prompt_that_ran_when_it_was_made,
    a_pull_request_is_known_once_and_changes,
    a_request_is_done_once_and_answered_again,
    a_request_whose_doer_died_is_begun_again,
    sessions_are_found_by_what_their_title_says,
    an_archived_session_is_hidden_until_it_is_shown_again,
    the_phases_of_the_last_start_are_told,
    the_audit_lines_of_a_session_are_its_own,
}

async fn an_upload_is_found_until_it_expires(world: World) {
    let upload = UploadRecord {
        id: Id::new(&SystemClock),
        organisation: world.organisation,
        created_by: None,
        name: "plan.pdf".to_owned(),
        media_type: "application/pdf".to_owned(),
        size: 7,
        digest: "sha256:00".to_owned(),
        created_at: world.now(),
        expires_at: world.now() + seconds(60),
    };
    let mut tx = world.store.begin().await.unwrap();
    tx.create_upload(&upload).await.unwrap();
    tx.commit().await.unwrap();
    let store = &world.store;
    let find = async |of, at| store.find_upload(of, upload.id, at).await.unwrap();
    let (here, now) = (world.organisation, world.now());
    assert_eq!(find(here, now).await.as_ref(), Some(&upload));
    assert_eq!(find(Id::new(&SystemClock), now).await, None);
    assert_eq!(find(here, upload.expires_at).await, None);
    assert_eq!(store.uploaded_bytes(here).await.unwrap(), 7);
    assert_eq!(store.expired_uploads(now, 10).await.unwrap(), []);
    let expired = store.expired_uploads(upload.expires_at, 10).await.unwrap();
    assert_eq!(expired, std::slice::from_ref(&upload));
    for there in [true, false] {
        let mut tx = store.begin().await.unwrap();
        assert_eq!(tx.remove_upload(upload.id).await.unwrap(), there);
        tx.commit().await.unwrap();
    }
}

fn usage(world: &World, session: Id<Session>, prompt: Option<&str>) -> UsageRecord {
    UsageRecord {
        id: Id::new(&SystemClock),
        organisation: world.organisation,
        session,
        prompt: prompt.map(str::to_owned),
        by_subagent: false,
        provider: "anthropic".to_owned(),
        model: "a-model".to_owned(),
        tokens: Tokens {
            input: 100,
            output: 10,
            cache_read: 50,
            cache_write: 5,
            reasoning: 1,
        },
        cost_micros: prompt.map(|_| 250),
        status: 200,
        took_ms: 900,
        is_complete: true,
        at: world.now(),
    }
}

async fn usage_is_summed_by_session_prompt_and_organisation(world: World) {
    let fence = world.session().await;
    let session = fence.session;
    let first = usage(&world, session, Some("p1"));
    let mut tx = world.store.begin().await.unwrap();
    // Told twice, counted once.
    tx.record_usage(&first).await.unwrap();
    tx.record_usage(&first).await.unwrap();
    tx.record_usage(&usage(&world, session, None))
        .await
        .unwrap();
    let mut boast = usage(&world, session, Some("p2"));
    boast.tokens.input = u64::MAX;
    boast.at = world.now() + seconds(60);
    tx.record_usage(&boast).await.unwrap();
    tx.commit().await.unwrap();
    let store = &world.store;
    let one = store.prompt_usage(session, "p1").await.unwrap();
    let expected = Sum {
        requests: 1,
        tokens: first.tokens,
        cost_micros: 250,
        unpriced: 0,
        incomplete: 0,
    };
    assert_eq!(one, expected);
    let all = store.session_usage(session).await.unwrap();
    assert_eq!((all.requests, all.unpriced), (3, 1));
    assert_eq!((all.cost_micros, all.tokens.output), (500, 30));
    let since = async |at| {
        let sum = store.organisation_usage(world.organisation, at).await;
        sum.unwrap().requests
    };
    assert_eq!(since(world.now()).await, 3);
    assert_eq!(since(world.now() + seconds(1)).await, 1);
    let none = store.prompt_usage(session, "p3").await.unwrap();
    assert_eq!(none, Sum::default());
    let mut tx = store.begin().await.unwrap();
    tx.fenced(fence)
        .await
        .unwrap()
        .delete(world.now())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(since(world.now()).await, 3);
}

async fn what_belongs_to_no_prompt_and_what_subagents_took_is_told_apart(world: World) {
    let session = world.session().await.session;
    let mut tx = world.store.begin().await.unwrap();
    let mut cut = usage(&world, session, None);
    cut.is_complete = false;
    let mut below = usage(&world, session, Some("p1"));
    below.by_subagent = true;
    for record in [&cut, &below, &usage(&world, session, Some("p1"))] {
        tx.record_usage(record).await.unwrap();
    }
    tx.commit().await.unwrap();
    let store = &world.store;
    let sums = store.usage_of(&[session]).await.unwrap();
    let SessionSum {
        total,
        unattributed: nobodys,
    } = sums[&session];
    assert_eq!((nobodys.requests, nobodys.incomplete), (1, 1));
    assert_eq!(total, store.session_usage(session).await.unwrap());
    let prompt = store.prompt_usage(session, "p1").await.unwrap();
    assert_eq!((prompt.requests, prompt.incomplete), (2, 0));
    let below = store.subagent_usage(session, "p1").await.unwrap();
    assert_eq!(below.requests, 1);
}

async fn what_several_sessions_took_is_asked_for_at_once(world: World) {
    let sessions = [
        world.session().await.session,
        world.session().await.session,
        world.session().await.session,
    ];
    let mut tx = world.store.begin().await.unwrap();
    for record in [
        usage(&world, sessions[0], Some("p1")),
        usage(&world, sessions[0], None),
        usage(&world, sessions[1], None),
    ] {
        tx.record_usage(&record).await.unwrap();
    }
    tx.commit().await.unwrap();
    let sums = world.store.usage_of(&sessions[..1]).await.unwrap();
    assert_eq!(sums.keys().collect::<Vec<_>>(), [&sessions[0]]);
    let sums = world.store.usage_of(&sessions).await.unwrap();
    let of = |session| {
        let sum: SessionSum = sums.get(&session).copied().unwrap_or_default();
        (sum.total.requests, sum.unattributed.requests)
    };
    assert_eq!(sessions.map(of), [(2, 1), (1, 1), (0, 0)]);
    assert!(world.store.usage_of(&[]).await.unwrap().is_empty());
}

async fn an_organisation_has_its_own_repositories_each_once(world: World) {
    let other = Id::new(&SystemClock);
    let mut tx = world.store.begin().await.unwrap();
    tx.create_organisation(other, "other", world.now())
        .await
        .unwrap();
    let repository = |organisation, url: &str| RepositoryRecord {
        id: Id::new(&SystemClock),
        organisation,
        url: url.to_owned(),
        name: "a/b".to_owned(),
        default_branch: Some("main".to_owned()),
        created_by: None,
        created_at: world.now(),
    };
    let ours = repository(world.organisation, "https://git.example/a/b");
    assert!(tx.add_repository(&ours).await.unwrap());
    let again = repository(world.organisation, &ours.url);
    assert!(!tx.add_repository(&again).await.unwrap());
    let theirs = repository(other, &ours.url);
    assert!(tx.add_repository(&theirs).await.unwrap());
    assert!(!tx.remove_repository(other, ours.id).await.unwrap());
    tx.commit().await.unwrap();
    let store = &world.store;
    let listed = store.list_repositories(world.organisation, None, 10).await;
    assert_eq!(listed.unwrap(), std::slice::from_ref(&ours));
    let after = store.list_repositories(world.organisation, Some(ours.id), 10);
    assert_eq!(after.await.unwrap(), []);
    let mut tx = store.begin().await.unwrap();
    let removed = tx.remove_repository(world.organisation, ours.id).await;
    assert!(removed.unwrap());
    tx.commit().await.unwrap();
    let listed = store.list_repositories(world.organisation, None, 10).await;
    assert_eq!(listed.unwrap(), []);
}

async fn a_request_is_of_the_prompt_that_ran_when_it_was_made(world: World) {
    let fence = world.session().await;
    let began = world.now();
    let to = Destination {
        generation: 3,
        boot: "b".to_owned(),
    };
    let mut tx = world.store.begin().await.unwrap();
    let mut fenced = tx.fenced(fence).await.unwrap();
    for (channel, agent_session) in [("web:default", "ses_web"), ("slack:C1", "ses_slack")] {
        let channel = Channel {
            name: channel.to_owned(),
            agent_session: Some(agent_session.to_owned()),
            body: "{}".to_owned(),
        };
        fenced.set_channel(&channel, began).await.unwrap();
    }
    for (id, channel, from, until) in [
        ("p1", "web:default", 0, Some(10)),
        ("p2", "web:default", 20, None),
        ("p3", "slack:C1", 5, None),
    ] {
        let new = NewPrompt {
            id: id.to_owned(),
            channel: channel.to_owned(),
            mode: Mode::Followup,
            body: "{}".to_owned(),
        };
        fenced.queue_prompt(&new, began).await.unwrap();
        let at = began + seconds(from);
        fenced.dispatch_prompt(id, &to, at).await.unwrap();
        if let Some(until) = until {
            let at = began + seconds(until);
            fenced
                .end_prompt(id, End::Finished, None, at)
                .await
                .unwrap();
        }
    }
    tx.commit().await.unwrap();
    let found = async |generation, conversation: &str, after| {
        let at = began + seconds(after);
        let session = fence.session;
        let found = world.store.prompt_at(session, generation, conversation, at);
        found.await.unwrap()
    };
    for (conversation, after, expected) in [
        ("ses_web", 0, Some("p1")),
        ("ses_web", 10, Some("p1")),
        ("ses_web", 15, None),
        ("ses_web", 20, Some("p2")),
        ("ses_slack", 20, Some("p3")),
        ("ses_slack", 4, None),
        ("ses_review", 20, None),
    ] {
        let prompt = found(3, conversation, after).await;
        assert_eq!(prompt.as_deref(), expected, "{conversation} after {after}");
    }
    assert_eq!(found(2, "ses_web", 20).await, None, "another sandbox");
}

async fn a_pull_request_is_known_once_and_changes(world: World) {
    let session = world.session().await.session;
    let mut pull = PullRecord {
        session,
        host: "github.com".to_owned(),
        repository: "octo/pearl".to_owned(),
        number: 7,
        title: "Shine".to_owned(),
        url: "https://github.com/octo/pearl/pull/7".to_owned(),
        state: State::Open,
        branch: "shine".to_owned(),
        base: "main".to_owned(),
        created_at: world.now(),
        seen_at: world.now(),
    };
    for (state, is_other) in [
        (State::Open, true),
        (State::Open, false),
        (State::Merged, true),
    ] {
        pull.state = state;
        pull.seen_at = world.now() + seconds(5);
        let mut tx = world.store.begin().await.unwrap();
        assert_eq!(tx.put_pull(&pull).await.unwrap(), is_other);
        tx.commit().await.unwrap();
    }
    let kept = world.store.session_pulls(session).await.unwrap();
    assert_eq!(kept, [pull]);
}

async fn begin(world: &World, key: &str, request: &str) -> Begun {
    let mut tx = world.store.begin().await.unwrap();
    let (now, soon) = (world.now(), world.soon());
    let begun = tx
        .begin_request(world.organisation, key, request, now, soon)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    begun
}

async fn a_request_is_done_once_and_answered_again(world: World) {
    let Begun::New(attempt) = begin(&world, "key", "digest").await else {
        panic!("it is new");
    };
    assert_eq!(begin(&world, "key", "digest").await, Begun::Running);
    assert_eq!(begin(&world, "key", "another").await, Begun::Different);
    let mut tx = world.store.begin().await.unwrap();
    assert!(tx.finish_request(&attempt, 201, "{}").await.unwrap());
    assert!(!tx.finish_request(&attempt, 500, "no").await.unwrap());
    tx.forget_request(&attempt).await.unwrap();
    tx.commit().await.unwrap();
    let finished = Begun::Finished {
        status: 201,
        body: "{}".to_owned(),
    };
    assert_eq!(begin(&world, "key", "digest").await, finished);
    assert_eq!(begin(&world, "key", "another").await, Begun::Different);
    let mut tx = world.store.begin().await.unwrap();
    let now = world.now();
    assert_eq!(tx.expire_requests(now, now).await.unwrap(), 0);
    let gone = tx.expire_requests(now + seconds(1), now).await;
    assert_eq!(gone.unwrap(), 1);
    tx.commit().await.unwrap();
    let Begun::New(attempt) = begin(&world, "key", "another").await else {
        panic!("it was forgotten");
    };
    let mut tx = world.store.begin().await.unwrap();
    tx.forget_request(&attempt).await.unwrap();
    tx.commit().await.unwrap();
    assert!(matches!(begin(&world, "key", "third").await, Begun::New(_)));
}

async fn a_request_whose_doer_died_is_begun_again(world: World) {
    let Begun::New(dead) = begin(&world, "key", "digest").await else {
        panic!("it is new");
    };
    world.clock.advance(seconds(29));
    assert_eq!(begin(&world, "key", "digest").await, Begun::Running);
    world.clock.advance(seconds(1));
    let Begun::New(alive) = begin(&world, "key", "digest").await else {
        panic!("the lease is over");
    };
    assert_eq!(begin(&world, "key", "digest").await, Begun::Running);
    let mut tx = world.store.begin().await.unwrap();
    // It was not dead but slow.
    assert!(!tx.finish_request(&dead, 200, "old").await.unwrap());
    assert!(tx.finish_request(&alive, 200, "new").await.unwrap());
    tx.commit().await.unwrap();
    let finished = Begun::Finished {
        status: 200,
        body: "new".to_owned(),
    };
    assert_eq!(begin(&world, "key", "digest").await, finished);
}

async fn list(world: &World, listing: Listing<'_>) -> Vec<Id<Session>> {
    let all = Listing {
        limit: 10,
        ..listing
    };
    let found = world.store.list_sessions(world.organisation, all).await;
    found.unwrap().into_iter().map(|found| found.id).collect()
}

async fn sessions_are_found_by_what_their_title_says(world: World) {
    let mut ids = Vec::new();
    for title in ["Fix the Login page", "100% done", "a_b", "axb", "so! what"] {
        let fence = world.session().await;
        let write = world.write(fence).title(title);
        world.store.append(write).await.unwrap();
        ids.push(fence.session);
    }
    for (search, expected) in [
        ("login", vec![0]),
        ("THE LOG", vec![0]),
        ("0%", vec![1]),
        ("%", vec![1]),
        ("a_b", vec![2]),
        ("_", vec![2]),
        ("! w", vec![4]),
        ("nowhere", vec![]),
        ("", vec![4, 3, 2, 1, 0]),
    ] {
        let search = Some(search);
        let found = list(
            &world,
            Listing {
                search,
                ..Listing::default()
            },
        )
        .await;
        let expected: Vec<_> = expected.into_iter().map(|n: usize| ids[n]).collect();
        assert_eq!(found, expected, "{search:?}");
    }
    let mut child = world.new_session();
    child.parent = Some(ids[0]);
    let mut tx = world.store.begin().await.unwrap();
    tx.create_session(&child).await.unwrap();
    tx.commit().await.unwrap();
    let children = Listing {
        parent: Some(ids[0]),
        ..Listing::default()
    };
    assert_eq!(list(&world, children).await, [child.id]);
}

async fn an_archived_session_is_hidden_until_it_is_shown_again(world: World) {
    let fence = world.session().await;
    let only = [fence.session];
    let listed = async |archived| {
        let listing = Listing {
            archived,
            ..Listing::default()
        };
        list(&world, listing).await
    };
    world
        .store
        .append(world.write(fence).archive())
        .await
        .unwrap();
    assert_eq!(listed(Archived::Hidden).await, []);
    assert_eq!(listed(Archived::Shown).await, only);
    assert_eq!(listed(Archived::Only).await, only);
    world
        .store
        .append(world.write(fence).unarchive())
        .await
        .unwrap();
    assert_eq!(listed(Archived::Hidden).await, only);
    assert_eq!(listed(Archived::Shown).await, only);
    assert_eq!(listed(Archived::Only).await, []);
}

async fn the_phases_of_the_last_start_are_told(world: World) {
    let fence = world.session().await;
    let say = async |body| {
        world.append(fence, body).await.unwrap();
    };
    let phase = |status: &str, name: &str, state: &str, took: Option<u64>| {
        let phase = json!({"name": name, "state": state, "took_ms": took});
        json!({"type": "status", "status": status, "phase": phase})
    };
    let names = async || {
        let told = world.store.last_phases(fence.session).await.unwrap();
        told.into_iter()
            .map(|phase| format!("{} {} {:?}", phase.name, phase.state, phase.took_ms))
            .collect::<Vec<_>>()
    };
    assert!(names().await.is_empty());
    say(phase("creating", "context", "done", Some(5))).await;
    say(phase("creating", "clone", "failed", None)).await;
    say(json!({"type": "status", "status": "resuming"})).await;
    assert!(names().await.is_empty());
    say(phase("resuming", "context", "done", Some(3))).await;
    say(phase("resuming", "link", "done", Some(2))).await;
    say(phase("resuming", "agent", "started", None)).await;
    say(json!({"type": "status", "status": "running", "message": null})).await;
    say(json!({"type": "title", "title": "x"})).await;
    say(phase("running", "agent", "done", Some(9))).await;
    assert_eq!(
        names().await,
        [
            "context done Some(3)",
            "link done Some(2)",
            "agent done Some(9)"
        ]
    );
}

async fn the_audit_lines_of_a_session_are_its_own(world: World) {
    let (session, other) = (world.unowned().await, world.unowned().await);
    let line = |session: Option<Id<Session>>, action: &str| Line {
        id: Id::new(&SystemClock),
        organisation: world.organisation,
        session,
        actor: "usr_1".to_owned(),
        action: action.to_owned(),
        target: None,
        body: "{}".to_owned(),
        at: world.now(),
    };
    let kept = line(Some(session), "session.pause");
    let mut tx = world.store.begin().await.unwrap();
    for line in [
        &kept,
        &line(Some(other), "session.stop"),
        &line(None, "token.create"),
    ] {
        tx.record(line).await.unwrap();
    }
    tx.commit().await.unwrap();
    let lines = world.store.session_audit_lines(session, None, 10).await;
    assert_eq!(lines.unwrap(), std::slice::from_ref(&kept));
    let before = Some(kept.id);
    let older = world.store.session_audit_lines(session, before, 10).await;
    assert!(older.unwrap().is_empty());
}
