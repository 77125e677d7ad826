//! What belongs to whom.

use model::{Id, Organisation, Secret, SystemClock, User};
use nacre_store::accounts::{NewToken, Role, TokenHash, UserRecord};
use nacre_store::audit::Line;
use nacre_store::channels::Channel;
use nacre_store::sandboxes::Status as SandboxStatus;
use nacre_store::sessions::{Archived, Listing, Status};
use nacre_store::snapshots::{Kept, Kind, Sizes, Snapshot};
use nacre_store::{Error, Write};
use serde_json::json;

use crate::world::{World, seconds};

stories! {
    a_token_is_found_by_its_hash_while_it_is_good,
    a_user_has_one_role_in_an_organisation,
    sessions_are_listed_by_organisation_the_newest_first,
    an_unknown_organisation_or_a_second_use_of_an_id_is_forbidden,
    a_generation_has_one_sandbox_ever,
    a_snapshot_gets_its_sizes_later,
    a_channel_remembers_its_conversation,
    the_audit_log_goes_with_what_was_done,
    deleting_a_session_leaves_its_snapshots,
}

async fn user(world: &World, email: &str) -> Id<User> {
    let id = Id::new(&SystemClock);
    let mut tx = world.store.begin().await.unwrap();
    let user = UserRecord {
        id,
        email: email.to_owned(),
        name: "Ada".to_owned(),
        created_at: world.now(),
    };
    tx.create_user(&user).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(world.store.find_user(id).await.unwrap(), Some(user));
    id
}

async fn a_token_is_found_by_its_hash_while_it_is_good(world: World) {
    let user = user(&world, "ada@example.com").await;
    let hash = TokenHash::of(&Secret::new("nac_secret"));
    let token = NewToken {
        id: Id::new(&SystemClock),
        organisation: world.organisation,
        user: Some(user),
        name: "laptop".to_owned(),
        hash: hash.clone(),
        expires_at: Some(world.now() + seconds(60)),
        at: world.now(),
    };
    let mut tx = world.store.begin().await.unwrap();
    tx.create_token(&token).await.unwrap();
    tx.token_was_used(token.id, world.now()).await.unwrap();
    tx.commit().await.unwrap();
    let find = |at| world.store.find_token(&hash, at);
    let found = find(world.now()).await.unwrap().unwrap();
    assert_eq!((found.id, found.user), (token.id, Some(user)));
    assert_eq!(found.last_used_at, Some(world.now()));
    assert_eq!(find(world.now() + seconds(60)).await.unwrap(), None);
    let wrong = TokenHash::of(&Secret::new("nac_secrex"));
    assert_eq!(
        world.store.find_token(&wrong, world.now()).await.unwrap(),
        None
    );
    let mut tx = world.store.begin().await.unwrap();
    tx.revoke_token(token.id, world.now()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(find(world.now()).await.unwrap(), None);
    let listed = world.store.list_tokens(world.organisation, None, 10).await;
    assert_eq!(listed.unwrap(), []);
    let kept = world.store.load_token(token.id).await.unwrap();
    assert_eq!(kept.revoked_at, Some(world.now()));
    let mut tx = world.store.begin().await.unwrap();
    let unknown = tx.revoke_token(Id::new(&SystemClock), world.now()).await;
    assert!(matches!(unknown, Err(Error::NotFound("token"))));
}

async fn a_user_has_one_role_in_an_organisation(world: World) {
    let user = user(&world, "ada@example.com").await;
    assert_eq!(
        world
            .store
            .find_role(world.organisation, user)
            .await
            .unwrap(),
        None
    );
    for role in [Role::Owner, Role::Viewer] {
        let mut tx = world.store.begin().await.unwrap();
        tx.set_role(world.organisation, user, role, world.now())
            .await
            .unwrap();
        tx.commit().await.unwrap();
        let found = world
            .store
            .find_role(world.organisation, user)
            .await
            .unwrap();
        assert_eq!(found, Some(role));
    }
}

async fn sessions_are_listed_by_organisation_the_newest_first(world: World) {
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.session().await);
    }
    let mut tx = world.store.begin().await.unwrap();
    let archived = Some(world.now());
    tx.fenced(ids[1])
        .await
        .unwrap()
        .set_archived(archived)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let list = async |listing| {
        let found = world.store.list_sessions(world.organisation, listing).await;
        let found = found.unwrap().into_iter();
        found.map(|session| session.id).collect::<Vec<_>>()
    };
    let all = Listing {
        limit: 10,
        ..Listing::default()
    };
    let sessions = |numbers: &[usize]| numbers.iter().map(|n| ids[*n].session).collect::<Vec<_>>();
    assert_eq!(list(all).await, sessions(&[4, 3, 2, 0]));
    let page = Listing {
        limit: 2,
        before: Some(ids[4].session),
        ..all
    };
    assert_eq!(list(page).await, sessions(&[3, 2]));
    let archived = Listing {
        archived: Archived::Only,
        ..all
    };
    assert_eq!(list(archived).await, sessions(&[1]));
    let running = Listing {
        status: Some(Status::Running),
        ..all
    };
    assert_eq!(list(running).await, []);
    let elsewhere = Id::<Organisation>::new(&SystemClock);
    let others = world.store.list_sessions(elsewhere, all).await.unwrap();
    assert!(others.is_empty());
    let unused = |since| world.store.unused_sessions(Status::Starting, since, 10);
    assert_eq!(unused(world.now() - seconds(1)).await.unwrap(), []);
    assert_eq!(unused(world.now() + seconds(1)).await.unwrap().len(), 5);
}

async fn an_unknown_organisation_or_a_second_use_of_an_id_is_forbidden(world: World) {
    let new = world.new_session();
    let mut stray = new.clone();
    stray.organisation = Id::new(&SystemClock);
    let mut tx = world.store.begin().await.unwrap();
    let refused = tx.create_session(&stray).await;
    assert!(
        matches!(refused, Err(Error::Forbidden { .. })),
        "{refused:?}"
    );
    drop(tx);
    let mut tx = world.store.begin().await.unwrap();
    let fence = tx.create_session(&new).await.unwrap();
    // Whoever makes it may say more at once.
    let write = Write::new(fence, world.now()).title("Another");
    write.apply(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let made = world.store.load_session(new.id).await.unwrap();
    assert_eq!(made.title, "Another");
    let mut tx = world.store.begin().await.unwrap();
    let again = tx.create_session(&new).await;
    assert!(matches!(again, Err(Error::Forbidden { .. })));
    drop(tx);
    let unknown = world.store.load_session(Id::new(&SystemClock)).await;
    assert!(matches!(unknown, Err(Error::NotFound("session"))));
}

async fn a_generation_has_one_sandbox_ever(world: World) {
    let fence = world.session().await;
    let write = || world.write(fence);
    let store = &world.store;
    store
        .append(write().request_sandbox(1, "sbx_1", "local"))
        .await
        .unwrap();
    let again = store
        .append(write().request_sandbox(1, "sbx_2", "local"))
        .await;
    assert!(matches!(again, Err(Error::Forbidden { .. })));
    let borrowed = store
        .append(write().request_sandbox(2, "sbx_1", "local"))
        .await;
    assert!(matches!(borrowed, Err(Error::Forbidden { .. })));
    store
        .append(write().move_sandbox(1, SandboxStatus::Ready))
        .await
        .unwrap();
    let live = store.live_sandboxes("local", None, 10).await.unwrap();
    assert_eq!(live[0].ready_at, Some(world.now()));
    store
        .append(write().move_sandbox(1, SandboxStatus::Lost))
        .await
        .unwrap();
    let back = store
        .append(write().move_sandbox(1, SandboxStatus::Ready))
        .await;
    assert!(matches!(back, Err(Error::NotFound(_))));
    assert_eq!(store.live_sandboxes("local", None, 10).await.unwrap(), []);
    let found = store.find_sandbox("local", "sbx_1").await.unwrap().unwrap();
    assert_eq!((found.generation, found.status), (1, SandboxStatus::Lost));
    assert_eq!(
        store.session_sandboxes(fence.session).await.unwrap(),
        [found]
    );
}

fn snapshot(world: &World) -> Snapshot {
    Snapshot {
        id: "local:disk:snp_1".to_owned(),
        organisation: Some(world.organisation),
        session: None,
        generation: Some(1),
        provider: "local".to_owned(),
        kind: Kind::Disk,
        kept: Kept::Disk,
        recovered: false,
        wanted: false,
        message: Some("before lunch".to_owned()),
        sizes: None,
        took_ms: Some(12),
        frozen_ms: Some(3),
        created_at: world.now(),
        removed_at: None,
    }
}

async fn a_snapshot_gets_its_sizes_later(world: World) {
    let fence = world.session().await;
    let mut expected = snapshot(&world);
    let write = world.write(fence).snapshot(expected.clone());
    world.store.append(write.clone()).await.unwrap();
    world.store.append(write).await.unwrap();
    let sizes = Sizes {
        digest: "blake3:00".to_owned(),
        bytes: 1 << 40,
        files: 7,
    };
    let mut tx = world.store.begin().await.unwrap();
    tx.complete_snapshot(&expected.id, &sizes).await.unwrap();
    tx.commit().await.unwrap();
    expected.session = Some(fence.session);
    expected.sizes = Some(sizes);
    let found = world
        .store
        .session_snapshots(fence.session, None, 10)
        .await
        .unwrap();
    assert_eq!(found, std::slice::from_ref(&expected));
    let mut tx = world.store.begin().await.unwrap();
    tx.snapshot_is_gone(&expected.id, world.now())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(
        world
            .store
            .session_snapshots(fence.session, None, 10)
            .await
            .unwrap(),
        []
    );
    let kept = world
        .store
        .find_snapshot(&expected.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(kept.removed_at, Some(world.now()));
}

async fn a_channel_remembers_its_conversation(world: World) {
    let fence = world.session().await;
    let mut channel = Channel {
        name: "web:default".to_owned(),
        agent_session: Some("ses_agent".to_owned()),
        body: "{}".to_owned(),
    };
    for agent_session in [Some("one".to_owned()), None, Some("two".to_owned())] {
        channel.agent_session = agent_session;
        let write = world.write(fence).channel(channel.clone());
        world.store.append(write).await.unwrap();
    }
    let found = world.store.channels(fence.session).await.unwrap();
    assert_eq!(found, [channel]);
}

async fn the_audit_log_goes_with_what_was_done(world: World) {
    let fence = world.session().await;
    let line = |action: &str| Line {
        id: Id::new(&SystemClock),
        organisation: world.organisation,
        session: Some(fence.session),
        actor: "usr_1".to_owned(),
        action: action.to_owned(),
        target: None,
        body: "{}".to_owned(),
        at: world.now(),
    };
    let kept = line("session.pause");
    world
        .store
        .append(world.write(fence).audit(kept.clone()))
        .await
        .unwrap();
    let stray = nacre_store::NewEvent::new(&json!({"type": "part.delta"})).unwrap();
    let undone = world.write(fence).audit(line("session.stop")).event(stray);
    assert!(world.store.append(undone).await.is_err());
    let lines = world
        .store
        .audit_lines(world.organisation, None, 10)
        .await
        .unwrap();
    assert_eq!(lines, std::slice::from_ref(&kept));
    let older = world
        .store
        .audit_lines(world.organisation, Some(kept.id), 10)
        .await;
    assert!(older.unwrap().is_empty());
}

async fn deleting_a_session_leaves_its_snapshots(world: World) {
    let fence = world.session().await;
    let said = json!({"type": "message", "message_id": "m", "channel": "web:default"});
    world.append(fence, said).await.unwrap();
    let write = world.write(fence).snapshot(snapshot(&world));
    world.store.append(write).await.unwrap();
    let mut tx = world.store.begin().await.unwrap();
    tx.fenced(fence)
        .await
        .unwrap()
        .delete(world.now())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(world.store.find_session(fence.session).await.unwrap(), None);
    assert_eq!(world.store.find_lease(fence.session).await.unwrap(), None);
    let replay = world.store.events_after(fence.session, 0, 10).await;
    assert!(matches!(replay, Err(Error::NotFound("session"))));
    let messages = world
        .store
        .messages_after(fence.session, 0, 10)
        .await
        .unwrap();
    assert_eq!(messages, []);
    let found = world.store.find_snapshot("local:disk:snp_1").await.unwrap();
    assert_eq!(found.unwrap().session, None);
}
