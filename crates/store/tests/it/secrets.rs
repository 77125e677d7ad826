//! What is sealed, for whom, and under which key.

use model::{Id, Organisation, Sealed, SystemClock};
use nacre_store::Error;
use nacre_store::limits;
use nacre_store::secrets::{NewSecret, Scope, SealedValue};

use crate::world::{World, seconds};

stories! {
    a_secret_put_again_keeps_its_id_and_gets_another_value,
    secrets_are_listed_and_removed_by_their_organisation_alone,
    the_nearest_scope_has_the_say,
    a_secret_goes_with_its_session,
    a_secret_of_a_strangers_session_is_refused,
    a_key_is_replaced_unless_the_value_was_changed_meanwhile,
    what_is_too_large_or_too_many_is_refused,
}

fn value(key: &str, text: &str) -> SealedValue {
    let mut nonce = [0; 12];
    for (place, byte) in nonce.iter_mut().zip(text.bytes()) {
        *place = byte;
    }
    SealedValue {
        key_id: key.to_owned(),
        nonce,
        ciphertext: text.as_bytes().to_vec(),
    }
}

fn new(world: &World, scope: Scope, name: &str, text: &str) -> NewSecret {
    NewSecret {
        id: Id::new(&SystemClock),
        organisation: world.organisation,
        scope,
        name: name.to_owned(),
        value: value("k1", text),
        at: world.now(),
    }
}

async fn put(world: &World, secret: &NewSecret) -> Id<Sealed> {
    let mut tx = world.store.begin().await.unwrap();
    let id = tx.put_secret(secret).await.unwrap();
    tx.commit().await.unwrap();
    id
}

async fn a_secret_put_again_keeps_its_id_and_gets_another_value(world: World) {
    let first = put(&world, &new(&world, Scope::Organisation, "KEY", "one")).await;
    let made = world.now();
    world.clock.advance(seconds(5));
    let second = put(&world, &new(&world, Scope::Organisation, "KEY", "two")).await;
    assert_eq!(first, second);
    let scope = Scope::Organisation;
    let opened = world
        .store
        .open_secret(world.organisation, &scope, "KEY")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(opened.value, value("k1", "two"));
    assert_eq!(opened.about.created_at, made);
    assert_eq!(opened.about.updated_at, world.now());
    let found = world.store.find_secret(world.organisation, first).await;
    assert_eq!(found.unwrap(), Some(opened.about));
    let other = world
        .store
        .open_secret(world.organisation, &scope, "KEYS")
        .await;
    assert_eq!(other.unwrap(), None);
}

async fn secrets_are_listed_and_removed_by_their_organisation_alone(world: World) {
    let scopes = [
        Scope::Organisation,
        Scope::Repository("https://host/a/b".to_owned()),
        Scope::Model("anthropic".to_owned()),
        Scope::Git("host".to_owned()),
        Scope::UserGit {
            user: Id::new(&SystemClock),
            host: "host:8443".to_owned(),
        },
    ];
    for scope in &scopes {
        put(&world, &new(&world, scope.clone(), "KEY", "one")).await;
    }
    let list = async |after| {
        let found = world.store.list_secrets(world.organisation, after, 3).await;
        found.unwrap()
    };
    let page = list(None).await;
    assert_eq!(page.len(), 3);
    let rest = list(Some(page[2].id)).await;
    assert_eq!(rest.len(), 2);
    for scope in &scopes {
        let found = page.iter().chain(&rest).any(|about| &about.scope == scope);
        assert!(found, "{scope:?}");
    }
    let stranger = Id::<Organisation>::new(&SystemClock);
    let none = world.store.list_secrets(stranger, None, 10).await.unwrap();
    assert!(none.is_empty());
    assert_eq!(
        world.store.find_secret(stranger, page[0].id).await.unwrap(),
        None
    );
    let mut tx = world.store.begin().await.unwrap();
    let refused = tx.remove_secret(stranger, page[0].id).await;
    assert!(matches!(refused, Err(Error::NotFound("secret"))));
    tx.remove_secret(world.organisation, page[0].id)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(list(None).await.len(), 3);
}

async fn the_nearest_scope_has_the_say(world: World) {
    let session = world.unowned().await;
    let repository = |name: &str| Scope::Repository(name.to_owned());
    for (scope, name, text) in [
        (Scope::Organisation, "A", "organisation"),
        (Scope::Organisation, "B", "organisation"),
        (Scope::Organisation, "C", "organisation"),
        (repository("first"), "B", "first"),
        (repository("first"), "C", "first"),
        (repository("second"), "C", "second"),
        (repository("second"), "D", "second"),
        (repository("elsewhere"), "E", "elsewhere"),
        (Scope::Session(session), "C", "session"),
        (Scope::Model("anthropic".to_owned()), "F", "model"),
        (Scope::Git("host".to_owned()), "G", "git"),
    ] {
        put(&world, &new(&world, scope, name, text)).await;
    }
    let repositories = ["first".to_owned(), "second".to_owned()];
    let merged = world
        .store
        .secrets_for(world.organisation, &repositories, session)
        .await
        .unwrap();
    let told: Vec<(String, String)> = merged
        .into_iter()
        .map(|secret| {
            let text = String::from_utf8(secret.value.ciphertext).unwrap();
            (secret.about.name, text)
        })
        .collect();
    let expected = [
        ("A", "organisation"),
        ("B", "first"),
        ("C", "session"),
        ("D", "second"),
    ];
    assert_eq!(
        told,
        expected.map(|(name, text)| (name.to_owned(), text.to_owned()))
    );
}

async fn a_secret_goes_with_its_session(world: World) {
    let fence = world.session().await;
    let scope = Scope::Session(fence.session);
    let secret = put(&world, &new(&world, scope, "KEY", "one")).await;
    let mut tx = world.store.begin().await.unwrap();
    tx.fenced(fence)
        .await
        .unwrap()
        .delete(world.now())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let found = world.store.find_secret(world.organisation, secret).await;
    assert_eq!(found.unwrap(), None);
}

async fn a_secret_of_a_strangers_session_is_refused(world: World) {
    let session = world.unowned().await;
    let stranger = Id::<Organisation>::new(&SystemClock);
    let mut tx = world.store.begin().await.unwrap();
    tx.create_organisation(stranger, "Shell", world.now())
        .await
        .unwrap();
    let secret = NewSecret {
        organisation: stranger,
        ..new(&world, Scope::Session(session), "KEY", "one")
    };
    let refused = tx.put_secret(&secret).await;
    assert!(matches!(refused, Err(Error::NotFound("session"))));
}

async fn a_key_is_replaced_unless_the_value_was_changed_meanwhile(world: World) {
    let mut ids = Vec::new();
    for name in ["A", "B", "C"] {
        ids.push(put(&world, &new(&world, Scope::Organisation, name, name)).await);
    }
    ids.sort();
    let page = world
        .store
        .secrets_sealed_with("k1", None, 2)
        .await
        .unwrap();
    assert_eq!(page.len(), 2);
    let changed = &page[1];
    put(
        &world,
        &new(&world, Scope::Organisation, &changed.about.name, "changed"),
    )
    .await;
    let mut tx = world.store.begin().await.unwrap();
    let mut replaced = Vec::new();
    for secret in &page {
        let new = value("k2", "resealed");
        let done = tx.reseal_secret(secret.about.id, &secret.value, &new).await;
        replaced.push(done.unwrap());
    }
    tx.commit().await.unwrap();
    assert_eq!(replaced, [true, false]);
    let rest = world
        .store
        .secrets_sealed_with("k1", Some(page[0].about.id), 10)
        .await
        .unwrap();
    assert_eq!(rest.len(), 2);
    let of_new = world.store.secrets_sealed_with("k2", None, 10).await;
    assert_eq!(of_new.unwrap()[0].about.id, ids[0]);
}

async fn what_is_too_large_or_too_many_is_refused(world: World) {
    let mut tx = world.store.begin().await.unwrap();
    let mut large = new(&world, Scope::Organisation, "KEY", "one");
    large.value.ciphertext = vec![0; limits::SECRET + 1];
    let refused = tx.put_secret(&large).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })));
    for nameless in [
        new(&world, Scope::Organisation, "", "one"),
        new(&world, Scope::Repository(String::new()), "KEY", "one"),
    ] {
        let refused = tx.put_secret(&nameless).await;
        assert!(matches!(refused, Err(Error::Misfit(_))));
    }
    for number in 0..limits::SECRETS {
        let secret = new(&world, Scope::Organisation, &format!("K{number}"), "one");
        tx.put_secret(&secret).await.unwrap();
    }
    // Another value for one that is there takes no room.
    let again = new(&world, Scope::Organisation, "K0", "two");
    tx.put_secret(&again).await.unwrap();
    let refused = tx
        .put_secret(&new(&world, Scope::Organisation, "K", "one"))
        .await;
    assert!(matches!(refused, Err(Error::Full(_))));
}
