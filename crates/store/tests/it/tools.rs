//! What agents' tools leave: evidence, actions, setups; and lists that are read page by page.

use model::{Id, SystemClock};
use nacre_store::Error;
use nacre_store::accounts::{Role, UserRecord};
use nacre_store::actions::{Decision, NewAction, Risk, Status};
use nacre_store::evidence::{EvidenceRecord, Shown};
use nacre_store::snapshots::{Before, Kept, Kind, Snapshot};

use crate::world::{World, seconds};

stories! {
    evidence_is_kept_once_for_each_call,
    an_action_is_decided_once_and_done_once,
    an_action_that_nobody_decided_in_time_stays_undone,
    only_so_many_actions_wait,
    a_setup_is_saved_part_by_part,
    snapshots_of_an_organisation_are_listed_page_by_page,
    owners_are_counted_in_the_transaction_that_changes_them,
}

fn evidence(world: &World, fence: nacre_store::Fence, request: &str, path: &str) -> EvidenceRecord {
    EvidenceRecord {
        id: Id::new(&SystemClock),
        session: fence.session,
        request: request.to_owned(),
        path: path.to_owned(),
        media_type: "image/png".to_owned(),
        size: 7,
        digest: "sha256:00".to_owned(),
        created_at: world.now(),
    }
}

async fn evidence_is_kept_once_for_each_call(world: World) {
    let (fence, other) = (world.session().await, world.session().await);
    let shown = evidence(&world, fence, "r1", "a.png");
    let again = evidence(&world, fence, "r1", "a.png");
    let mut tx = world.store.begin().await.unwrap();
    assert!(tx.record_evidence(&shown).await.unwrap());
    assert!(!tx.record_evidence(&again).await.unwrap());
    tx.commit().await.unwrap();
    let store = &world.store;
    let found = store.evidence_of(fence.session, "r1").await.unwrap();
    assert_eq!(found, std::slice::from_ref(&shown));
    let listed = store.list_evidence(fence.session, None, 10).await.unwrap();
    assert_eq!(listed, found);
    let find = async |session| store.find_evidence(session, shown.id).await.unwrap();
    assert_eq!(find(fence.session).await.as_ref(), Some(&shown));
    assert_eq!(find(other.session).await, None);
    let sum = store.shown_by(fence.session).await.unwrap();
    assert_eq!(sum, Shown { files: 1, bytes: 7 });
    assert!(store.has_evidence(shown.id).await.unwrap());
    assert!(!store.has_evidence(again.id).await.unwrap());
}

fn action(world: &World, fence: nacre_store::Fence, request: &str) -> NewAction {
    NewAction {
        id: Id::new(&SystemClock),
        session: fence.session,
        request: request.to_owned(),
        integration: "session".to_owned(),
        action: "rename".to_owned(),
        params: "{}".to_owned(),
        risk: Risk::Write,
        status: Status::Pending,
        at: world.now(),
        expires_at: world.now() + seconds(300),
    }
}

async fn an_action_is_decided_once_and_done_once(world: World) {
    let fence = world.session().await;
    let (first, again) = (action(&world, fence, "r1"), action(&world, fence, "r1"));
    let mut tx = world.store.begin().await.unwrap();
    assert_eq!(tx.ask_for_action(&first).await.unwrap().id, first.id);
    assert_eq!(tx.ask_for_action(&again).await.unwrap().id, first.id);
    let decide = |status| Decision {
        status,
        by: "usr_ada",
        message: None,
        at: world.now(),
    };
    assert!(!tx.finish_action(first.id, Ok("{}")).await.unwrap());
    let said = decide(Status::Approved);
    let (found, is_decided) = tx
        .decide_action(fence.session, first.id, said)
        .await
        .unwrap();
    assert_eq!((found.status, is_decided), (Status::Approved, true));
    let said = decide(Status::Denied);
    let (found, is_decided) = tx
        .decide_action(fence.session, first.id, said)
        .await
        .unwrap();
    assert_eq!((found.status, is_decided), (Status::Approved, false));
    assert!(tx.finish_action(first.id, Ok("{}")).await.unwrap());
    assert!(!tx.finish_action(first.id, Err("late")).await.unwrap());
    tx.commit().await.unwrap();
    let found = world.store.find_action(fence.session, first.id).await;
    let found = found.unwrap().unwrap();
    assert_eq!(found.status, Status::Completed);
    assert_eq!(found.decided_by.as_deref(), Some("usr_ada"));
    let other = world.session().await.session;
    assert_eq!(
        world.store.find_action(other, first.id).await.unwrap(),
        None
    );
}

async fn an_action_that_nobody_decided_in_time_stays_undone(world: World) {
    let fence = world.session().await;
    let asked = action(&world, fence, "r1");
    let mut tx = world.store.begin().await.unwrap();
    tx.ask_for_action(&asked).await.unwrap();
    let late = Decision {
        status: Status::Approved,
        by: "usr_ada",
        message: None,
        at: asked.expires_at,
    };
    let (found, is_decided) = tx
        .decide_action(fence.session, asked.id, late)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!((found.status, is_decided), (Status::Pending, false));
    assert!(found.is_over_time(asked.expires_at));
}

async fn only_so_many_actions_wait(world: World) {
    let fence = world.session().await;
    let mut tx = world.store.begin().await.unwrap();
    for place in 0..nacre_store::limits::PENDING_ACTIONS {
        let new = action(&world, fence, &format!("r{place}"));
        tx.ask_for_action(&new).await.unwrap();
    }
    let one_more = tx.ask_for_action(&action(&world, fence, "more")).await;
    assert!(matches!(one_more, Err(Error::Full(_))), "{one_more:?}");
    tx.rollback().await.unwrap();
}

async fn a_setup_is_saved_part_by_part(world: World) {
    let session = world.session().await.session;
    assert_eq!(world.store.find_setup(session).await.unwrap(), None);
    let mut tx = world.store.begin().await.unwrap();
    tx.save_services(session, "[1]", world.now()).await.unwrap();
    tx.save_env_files(session, "[2]", world.now())
        .await
        .unwrap();
    tx.save_services(session, "[3]", world.now()).await.unwrap();
    tx.commit().await.unwrap();
    let found = world.store.find_setup(session).await.unwrap().unwrap();
    assert_eq!(found.services.as_deref(), Some("[3]"));
    assert_eq!(found.env_files.as_deref(), Some("[2]"));
}

async fn snapshots_of_an_organisation_are_listed_page_by_page(world: World) {
    let fence = world.session().await;
    let snapshot = |place: i64| Snapshot {
        id: format!("local:disk:{place}"),
        organisation: None,
        session: Some(fence.session),
        generation: Some(1),
        provider: "local".to_owned(),
        kind: Kind::Disk,
        kept: Kept::Disk,
        recovered: false,
        wanted: false,
        message: Some(format!("number {place}")),
        sizes: None,
        took_ms: None,
        frozen_ms: None,
        // Two of one millisecond.
        created_at: world.now() + seconds(place / 2),
        removed_at: None,
    };
    for place in 0..5 {
        let write = world.write(fence).snapshot(snapshot(place));
        world.store.append(write).await.unwrap();
    }
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = world
            .store
            .organisation_snapshots(world.organisation, before.as_ref(), 2)
            .await
            .unwrap();
        let Some(last) = page.last() else { break };
        before = Some(Before {
            at: last.created_at,
            id: last.id.clone(),
        });
        seen.extend(page.into_iter().map(|one| one.message.unwrap()));
    }
    assert_eq!(
        seen,
        ["number 4", "number 3", "number 2", "number 1", "number 0"]
    );
    let stranger = world
        .store
        .organisation_snapshots(Id::new(&SystemClock), None, 10)
        .await;
    assert_eq!(stranger.unwrap(), []);
}

async fn owners_are_counted_in_the_transaction_that_changes_them(world: World) {
    let user = UserRecord {
        id: Id::new(&SystemClock),
        email: "ada@example.org".to_owned(),
        name: "Ada".to_owned(),
        created_at: world.now(),
    };
    let here = world.organisation;
    let mut tx = world.store.begin().await.unwrap();
    tx.hold_organisation(here).await.unwrap();
    tx.create_user(&user).await.unwrap();
    tx.set_role(here, user.id, Role::Owner, world.now())
        .await
        .unwrap();
    let owners = tx.count_members(here, Some(Role::Owner)).await.unwrap();
    assert_eq!(owners, 1);
    tx.remove_member(here, user.id).await.unwrap();
    assert_eq!(tx.count_members(here, None).await.unwrap(), 0);
    tx.rollback().await.unwrap();
    let mut tx = world.store.begin().await.unwrap();
    let nowhere = tx.hold_organisation(Id::new(&SystemClock)).await;
    assert!(matches!(nowhere, Err(Error::NotFound(_))));
    tx.rollback().await.unwrap();
}
