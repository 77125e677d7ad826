//! Who gets in: founders, one-time codes, browsers, links.

use model::{Id, Organisation, Secret, Session, SystemClock, User};
use nacre_store::accounts::{Role, TokenHash, UserRecord};
use nacre_store::logins::Login;
use nacre_store::members::OrganisationRecord;
use nacre_store::shares::ShareRecord;
use nacre_store::{Error, limits};

use crate::world::{World, seconds};

stories! {
    only_an_empty_store_is_founded,
    members_and_their_organisations_are_listed_with_roles,
    a_code_lets_one_in_once,
    of_many_with_one_code_one_gets_in,
    a_browser_is_signed_in_until_it_expires_or_signs_out,
    a_link_is_good_until_it_expires_or_is_revoked,
}

fn user(world: &World, email: &str) -> UserRecord {
    UserRecord {
        id: Id::new(&SystemClock),
        email: email.to_owned(),
        name: "Ada".to_owned(),
        created_at: world.now(),
    }
}

async fn login(world: &World) -> Login {
    let ada = user(world, "ada@example.com");
    let mut tx = world.store.begin().await.unwrap();
    tx.create_user(&ada).await.unwrap();
    tx.commit().await.unwrap();
    Login {
        organisation: world.organisation,
        user: ada.id,
    }
}

fn hash(of: &str) -> TokenHash {
    TokenHash::of(&Secret::new(of))
}

async fn only_an_empty_store_is_founded(world: World) {
    // The world has one already.
    assert!(!world.store.is_empty().await.unwrap());
    let organisation = OrganisationRecord {
        id: Id::new(&SystemClock),
        name: "Shell".to_owned(),
        created_at: world.now(),
    };
    let ada = user(&world, "ada@example.com");
    let mut tx = world.store.begin().await.unwrap();
    assert!(!tx.found(&organisation, &ada).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(world.store.find_user(ada.id).await.unwrap(), None);
}

#[test]
fn an_empty_store_is_founded_once() {
    crate::world::runtime().block_on(async {
        let directory = camino_tempfile::tempdir().unwrap();
        let location = nacre_store::Location::File(directory.path().join("nacre.db"));
        let store = nacre_store::Store::open(&nacre_store::Config::new(location))
            .await
            .unwrap();
        assert!(store.is_empty().await.unwrap());
        let now = crate::world::START.parse().unwrap();
        let organisation = OrganisationRecord {
            id: Id::new(&SystemClock),
            name: "Pearl".to_owned(),
            created_at: now,
        };
        let ada = UserRecord {
            id: Id::new(&SystemClock),
            email: "ada@example.com".to_owned(),
            name: "Ada".to_owned(),
            created_at: now,
        };
        for expected in [true, false] {
            let mut tx = store.begin().await.unwrap();
            assert_eq!(tx.found(&organisation, &ada).await.unwrap(), expected);
            tx.commit().await.unwrap();
        }
        let role = store.find_role(organisation.id, ada.id).await.unwrap();
        assert_eq!(role, Some(Role::Owner));
        store.close().await.unwrap();
    });
}

async fn members_and_their_organisations_are_listed_with_roles(world: World) {
    let (ada, eve) = (
        user(&world, "ada@example.com"),
        user(&world, "eve@example.com"),
    );
    let shell = Id::<Organisation>::new(&SystemClock);
    let (here, now) = (world.organisation, world.now());
    let mut tx = world.store.begin().await.unwrap();
    tx.create_organisation(shell, "Shell", now).await.unwrap();
    tx.create_user(&ada).await.unwrap();
    tx.create_user(&eve).await.unwrap();
    tx.set_role(here, ada.id, Role::Owner, now).await.unwrap();
    tx.set_role(shell, ada.id, Role::Viewer, now).await.unwrap();
    tx.set_role(here, eve.id, Role::Member, now).await.unwrap();
    tx.commit().await.unwrap();
    let store = &world.store;
    let mut of_ada = store.organisations_of(ada.id, 10).await.unwrap();
    of_ada.sort_by_key(|(organisation, _)| organisation.name.clone());
    let told: Vec<_> = of_ada
        .iter()
        .map(|(organisation, role)| (organisation.name.as_str(), *role))
        .collect();
    assert_eq!(told, [("Pearl", Role::Owner), ("Shell", Role::Viewer)]);
    let found = store.find_organisation(here).await.unwrap();
    assert_eq!(found.as_ref(), Some(&of_ada[0].0));
    let mut members = vec![(ada.clone(), Role::Owner), (eve.clone(), Role::Member)];
    members.sort_by_key(|(user, _)| user.id);
    let listed = store.members_of(here, None, 10).await.unwrap();
    assert_eq!(listed, members);
    let rest = store.members_of(here, Some(members[0].0.id), 10).await;
    assert_eq!(rest.unwrap(), members[1..]);
    let by_mail = store.find_user_by_email("eve@example.com").await.unwrap();
    assert_eq!(by_mail, Some(eve.clone()));
    assert_eq!(store.find_user_by_email("nobody").await.unwrap(), None);
    let mut tx = store.begin().await.unwrap();
    tx.remove_member(here, eve.id).await.unwrap();
    let again = tx.remove_member(here, eve.id).await;
    assert!(matches!(again, Err(Error::NotFound("member"))));
    tx.commit().await.unwrap();
    assert_eq!(store.members_of(here, None, 10).await.unwrap().len(), 1);
}

async fn a_code_lets_one_in_once(world: World) {
    let login = login(&world).await;
    let (now, later) = (world.now(), world.now() + seconds(60));
    let mut tx = world.store.begin().await.unwrap();
    for code in ["one", "two"] {
        tx.create_login(&hash(code), login, now, later)
            .await
            .unwrap();
    }
    assert_eq!(tx.take_login(&hash("wrong"), now).await.unwrap(), None);
    assert_eq!(tx.take_login(&hash("one"), now).await.unwrap(), Some(login));
    assert_eq!(tx.take_login(&hash("one"), now).await.unwrap(), None);
    assert_eq!(tx.take_login(&hash("two"), later).await.unwrap(), None);
    assert_eq!(tx.remove_expired_logins(later).await.unwrap(), 2);
    tx.commit().await.unwrap();
}

async fn of_many_with_one_code_one_gets_in(world: World) {
    let login = login(&world).await;
    let now = world.now();
    let mut tx = world.store.begin().await.unwrap();
    tx.create_login(&hash("one"), login, now, now + seconds(60))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let mut tries = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = world.store.clone();
        tries.spawn(async move {
            let mut tx = store.begin().await.unwrap();
            let taken = tx.take_login(&hash("one"), now).await.unwrap();
            tx.commit().await.unwrap();
            taken.is_some()
        });
    }
    let got_in = tries.join_all().await.into_iter().filter(|in_| *in_);
    assert_eq!(got_in.count(), 1);
}

async fn a_browser_is_signed_in_until_it_expires_or_signs_out(world: World) {
    let login = login(&world).await;
    let (now, later) = (world.now(), world.now() + seconds(60));
    let mut tx = world.store.begin().await.unwrap();
    for cookie in ["a", "b", "c"] {
        tx.create_browser_session(&hash(cookie), login, now, later)
            .await
            .unwrap();
    }
    tx.browser_session_was_used(&hash("a"), now + seconds(1))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let find = async |cookie, at| {
        let found = world.store.find_browser_session(&hash(cookie), at).await;
        found.unwrap()
    };
    let found = find("a", now).await.unwrap();
    assert_eq!(
        (found.user, found.organisation),
        (login.user, login.organisation)
    );
    assert_eq!(found.last_used_at, now + seconds(1));
    assert_eq!(find("a", later).await, None);
    let mut tx = world.store.begin().await.unwrap();
    assert!(tx.remove_browser_session(&hash("a")).await.unwrap());
    assert!(!tx.remove_browser_session(&hash("a")).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(find("a", now).await, None);
    assert!(find("b", now).await.is_some());
    let mut tx = world.store.begin().await.unwrap();
    tx.create_login(&hash("unused"), login, now, later)
        .await
        .unwrap();
    assert_eq!(tx.remove_browser_sessions_of(login.user).await.unwrap(), 2);
    assert_eq!(tx.take_login(&hash("unused"), now).await.unwrap(), None);
    tx.commit().await.unwrap();
    assert_eq!(find("b", now).await, None);
}

fn share(world: &World, session: Id<Session>, by: Option<Id<User>>) -> ShareRecord {
    ShareRecord {
        id: Id::new(&SystemClock),
        session,
        port: 5173,
        created_by: by,
        created_at: world.now(),
        expires_at: world.now() + seconds(60),
        revoked_at: None,
    }
}

async fn a_link_is_good_until_it_expires_or_is_revoked(world: World) {
    let login = login(&world).await;
    let (session, other) = (world.unowned().await, world.unowned().await);
    let made = share(&world, session, Some(login.user));
    let mut tx = world.store.begin().await.unwrap();
    tx.create_share(&hash("link"), &made).await.unwrap();
    tx.commit().await.unwrap();
    let find = async |at| world.store.find_share(&hash("link"), at).await.unwrap();
    assert_eq!(find(world.now()).await.as_ref(), Some(&made));
    assert_eq!(find(made.expires_at).await, None);
    let mut tx = world.store.begin().await.unwrap();
    let elsewhere = tx.revoke_share(other, made.id, world.now()).await;
    assert!(matches!(elsewhere, Err(Error::NotFound("share"))));
    tx.revoke_share(session, made.id, world.now())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(find(world.now()).await, None);
    let listed = world.store.session_shares(session, 10).await.unwrap();
    assert_eq!(listed[0].revoked_at, Some(world.now()));
    let mut tx = world.store.begin().await.unwrap();
    for number in 0..limits::SHARES {
        let made = share(&world, session, None);
        tx.create_share(&hash(&format!("link {number}")), &made)
            .await
            .unwrap();
    }
    let full = tx
        .create_share(&hash("more"), &share(&world, session, None))
        .await;
    assert!(matches!(full, Err(Error::Full(_))));
    let over = world.now() + seconds(60);
    assert!(tx.remove_expired_shares(over).await.unwrap() > limits::SHARES);
}
