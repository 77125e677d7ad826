use std::os::unix::fs::PermissionsExt as _;

use camino_tempfile::Utf8TempDir;
use model::{Clock as _, Sealed, SignedDuration, SystemClock};
use proptest::prelude::*;
use store::secrets::{NewSecret, SecretRecord};
use store::{Config, Location, Store};

use super::*;

const CANARY: &str = "canary-7f3a-do-not-sing";

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn vault(home: &Utf8TempDir) -> Vault {
    Vault::open(home.path(), now()).unwrap()
}

fn home() -> Utf8TempDir {
    camino_tempfile::tempdir().unwrap()
}

fn chmod(path: &Utf8Path, mode: u32) {
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn sealed(vault: &Vault, scope: Scope, name: &str, value: &str) -> SealedSecret {
    let organisation = Id::new(&SystemClock);
    let value = Secret::new(value);
    SealedSecret {
        value: vault.seal(organisation, &scope, name, &value).unwrap(),
        about: SecretRecord {
            id: Id::<Sealed>::new(&SystemClock),
            organisation,
            scope,
            name: name.to_owned(),
            created_at: now(),
            updated_at: now(),
        },
    }
}

#[test]
fn keys_are_made_once_and_are_their_owners_alone() {
    let home = home();
    let first = vault(&home);
    let secret = sealed(&first, Scope::Organisation, "KEY", CANARY);
    let again = vault(&home);
    assert_eq!(again.open_secret(&secret), Ok(Secret::new(CANARY)));
    let mode = |path: &str| {
        let about = fs_err::metadata(home.path().join(path)).unwrap();
        about.permissions().mode() & 0o7777
    };
    assert_eq!(mode("keys"), 0o700);
    assert_eq!(mode("keys/secrets.json"), 0o600);
    assert_eq!(mode("keys/secrets.lock"), 0o600);
    assert!(!home.path().join("keys/secrets.new").exists());
}

#[test]
fn keys_that_others_can_read_are_refused() {
    let home = home();
    drop(vault(&home));
    let (directory, file) = (
        home.path().join("keys"),
        home.path().join("keys/secrets.json"),
    );
    for (path, wide, right) in [(&file, 0o640, 0o600), (&directory, 0o755, 0o700)] {
        chmod(path, wide);
        let refused = Vault::open(home.path(), now()).unwrap_err();
        assert!(
            matches!(refused, FileError::Exposed { mode, .. } if mode == wide),
            "{refused}"
        );
        chmod(path, right);
        vault(&home);
    }
}

#[test]
fn keys_behind_a_link_are_refused() {
    let home = home();
    drop(vault(&home));
    let file = home.path().join("keys/secrets.json");
    let elsewhere = home.path().join("elsewhere.json");
    fs_err::rename(&file, &elsewhere).unwrap();
    fs_err::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    assert!(Vault::open(home.path(), now()).is_err());
}

#[test]
fn damaged_keys_are_neither_used_nor_replaced_nor_shown() {
    let home = home();
    drop(vault(&home));
    let file = home.path().join("keys/secrets.json");
    let whole = fs_err::read_to_string(&file).unwrap();
    for damaged in [
        "",
        "{}",
        &whole[..whole.len() / 2],
        &whole.replace('"', "'"),
    ] {
        fs_err::write(&file, damaged).unwrap();
        let refused = Vault::open(home.path(), now()).unwrap_err();
        assert!(matches!(refused, FileError::Damaged { .. }), "{refused}");
        let key = whole.split('"').find(|part| part.len() == 44).unwrap();
        assert!(!format!("{refused} {refused:?}").contains(key));
        assert_eq!(fs_err::read_to_string(&file).unwrap(), damaged);
    }
}

#[test]
fn all_who_open_a_new_home_at_once_get_the_same_keys() {
    let home = home();
    let keys = std::thread::scope(|scope| {
        let open = || vault(&home).server_key("test");
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        let keys = threads.into_iter().map(|thread| thread.join().unwrap());
        keys.collect::<Vec<_>>()
    });
    assert!(keys.iter().all(|key| *key == keys[0]));
}

#[test]
fn what_another_home_sealed_does_not_open() {
    let (one, two) = (home(), home());
    let mut secret = sealed(&vault(&one), Scope::Organisation, "KEY", CANARY);
    let other = vault(&two);
    let unknown = other.open_secret(&secret).unwrap_err();
    assert_eq!(unknown, OpenError::UnknownKey(secret.value.key_id.clone()));
    // Even if it says that it was sealed with a key that is here.
    other
        .ring()
        .newest()
        .id
        .clone_into(&mut secret.value.key_id);
    assert_eq!(other.open_secret(&secret), Err(OpenError::Damaged));
}

#[test]
fn a_value_moved_to_another_row_does_not_open() {
    let home = home();
    let vault = vault(&home);
    let scope = Scope::Repository("https://host/a/b".to_owned());
    let secret = sealed(&vault, scope, "KEY", CANARY);
    assert_eq!(vault.open_secret(&secret), Ok(Secret::new(CANARY)));
    let changes: [fn(&mut SealedSecret); 6] = [
        |secret| secret.about.organisation = Id::new(&SystemClock),
        |secret| secret.about.scope = Scope::Organisation,
        |secret| secret.about.scope = Scope::Git("https://host/a/b".to_owned()),
        |secret| secret.about.scope = Scope::Repository("https://host/a/c".to_owned()),
        |secret| secret.about.name = "KEYS".to_owned(),
        // What is cut from one part and put to the next reads the same without lengths.
        |secret| {
            secret.about.scope = Scope::Repository("https://host/a/bK".to_owned());
            secret.about.name = "EY".to_owned();
        },
    ];
    for change in changes {
        let mut moved = secret.clone();
        change(&mut moved);
        let refused = vault.open_secret(&moved).unwrap_err();
        assert_eq!(refused, OpenError::Damaged, "{:?}", moved.about);
        assert!(!refused.to_string().contains(CANARY));
    }
}

#[test]
fn a_value_that_was_sealed_with_another_of_our_keys_does_not_open_under_this_one() {
    let home = home();
    let vault = vault(&home);
    let mut secret = sealed(&vault, Scope::Organisation, "KEY", CANARY);
    vault.add_key(now()).unwrap();
    assert_eq!(vault.open_secret(&secret), Ok(Secret::new(CANARY)));
    vault
        .ring()
        .newest()
        .id
        .clone_into(&mut secret.value.key_id);
    assert_eq!(vault.open_secret(&secret), Err(OpenError::Damaged));
}

#[test]
fn what_is_too_large_is_not_sealed() {
    let home = home();
    let vault = vault(&home);
    let seal = |length| {
        let value = Secret::new("a".repeat(length));
        vault.seal(Id::new(&SystemClock), &Scope::Organisation, "KEY", &value)
    };
    assert_eq!(
        seal(seal::LARGEST).unwrap().ciphertext.len(),
        store::limits::SECRET
    );
    assert!(matches!(seal(seal::LARGEST + 1), Err(SealError::TooLarge)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_flipped_bit_is_seen(bit in 0usize..1000, value in "\\PC{0,40}") {
        let home = home();
        let vault = vault(&home);
        let mut secret = sealed(&vault, Scope::Organisation, "KEY", &value);
        prop_assert_eq!(vault.open_secret(&secret), Ok(Secret::new(value)));
        let length = secret.value.ciphertext.len() + 12;
        let (byte, bit) = ((bit / 8) % length, bit % 8);
        match byte.checked_sub(12) {
            Some(place) => secret.value.ciphertext[place] ^= 1 << bit,
            None => secret.value.nonce[byte] ^= 1 << bit,
        }
        prop_assert_eq!(vault.open_secret(&secret), Err(OpenError::Damaged));
    }
}

#[test]
fn derived_keys_are_told_apart_and_outlive_a_rotation() {
    let home = home();
    let vault_ = vault(&home);
    let (one, two) = (Id::new(&SystemClock), Id::new(&SystemClock));
    let keys = |vault: &Vault| {
        [
            vault.session_key(one, 1),
            vault.session_key(one, 11),
            vault.session_key(two, 1),
            vault.server_key("a"),
            vault.server_key("session"),
        ]
    };
    let made = keys(&vault_);
    let different: std::collections::BTreeSet<&str> = made.iter().map(Secret::expose).collect();
    assert_eq!(different.len(), made.len());
    let token = wire::keys::user::Claims::new("usr_1", "org_1", 7).sign(&vault_.user_key());
    vault_.add_key(now()).unwrap();
    let again = vault(&home);
    assert_eq!(keys(&again), made);
    assert!(wire::keys::user::verify(&token, &again.user_key(), 7).is_ok());
    let elsewhere = Vault::open(camino_tempfile::tempdir().unwrap().path(), now()).unwrap();
    assert!(wire::keys::user::verify(&token, &elsewhere.user_key(), 7).is_err());
}

/// A store with secrets in it, sealed.
struct World {
    home: Utf8TempDir,
    store: Store,
    organisation: Id<Organisation>,
}

impl World {
    async fn new() -> Self {
        let home = home();
        let location = Location::File(home.path().join("nacre.db"));
        let store = Store::open(&Config::new(location)).await.unwrap();
        let organisation = Id::new(&SystemClock);
        let mut tx = store.begin().await.unwrap();
        tx.create_organisation(organisation, "Pearl", now())
            .await
            .unwrap();
        tx.commit().await.unwrap();
        Self {
            home,
            store,
            organisation,
        }
    }

    async fn put(&self, vault: &Vault, name: &str, value: &str) {
        let scope = Scope::Organisation;
        let value = Secret::new(value);
        let new = NewSecret {
            id: Id::new(&SystemClock),
            organisation: self.organisation,
            value: vault.seal(self.organisation, &scope, name, &value).unwrap(),
            scope,
            name: name.to_owned(),
            at: SystemClock.now(),
        };
        let mut tx = self.store.begin().await.unwrap();
        tx.put_secret(&new).await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn all(&self) -> Vec<SealedSecret> {
        let scope = Scope::Organisation;
        let found = self.store.open_scope(self.organisation, &scope).await;
        found.unwrap()
    }

    async fn opened(&self, vault: &Vault) -> Vec<String> {
        let opened = self.all().await;
        let open = |secret: &SealedSecret| vault.open_secret(secret).unwrap().expose().to_owned();
        opened.iter().map(open).collect()
    }
}

#[tokio::test]
async fn a_rotation_killed_anywhere_is_finished_by_the_next() {
    let names = ["A", "B", "C"];
    let world = World::new().await;
    for name in names {
        world.put(&vault(&world.home), name, name).await;
    }
    for moved in 0..=names.len() {
        // This process gets as far as `moved` rows, and dies while it writes the keys again.
        let killed = vault(&world.home);
        killed.add_key(now()).unwrap();
        let some = &world.all().await[..moved];
        let mut done = Resealed::default();
        killed
            .reseal_page(&world.store, some, &mut done)
            .await
            .unwrap();
        drop(killed);
        let torn = world.home.path().join("keys/secrets.new");
        fs_err::write(&torn, "{\"version\":").unwrap();
        chmod(&torn, 0o644);

        let next = vault(&world.home);
        assert_eq!(world.opened(&next).await, names);
        let finished = next.reseal(&world.store).await.unwrap();
        let left = u64::try_from(names.len() - moved).unwrap();
        assert_eq!((finished.resealed, finished.damaged), (left, 0));
        assert_eq!(world.opened(&next).await, names);
        let newest = next.ring().newest().id.clone();
        let all = world.all().await;
        assert!(all.iter().all(|secret| secret.value.key_id == newest));
    }
    let done = vault(&world.home)
        .rotate(&world.store, now())
        .await
        .unwrap();
    assert_eq!(done.resealed, 3);
    world.store.close().await.unwrap();
}

#[tokio::test]
async fn a_secret_that_is_damaged_does_not_stop_a_rotation() {
    let world = World::new().await;
    let vault = vault(&world.home);
    world.put(&vault, "A", "a").await;
    world.put(&vault, "B", "b").await;
    let old = &world.all().await[0];
    let mut broken = old.value.clone();
    broken.ciphertext[0] ^= 1;
    let mut tx = world.store.begin().await.unwrap();
    tx.reseal_secret(old.about.id, &old.value, &broken)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let done = vault.rotate(&world.store, now()).await.unwrap();
    assert_eq!((done.resealed, done.damaged), (1, 1));
    // Its key stays for as long as it is there.
    let later = now() + SignedDuration::from_hours(48);
    assert_eq!(vault.drop_unused(&world.store, later).await.unwrap(), 0);
    world.store.close().await.unwrap();
}

#[tokio::test]
async fn a_key_is_dropped_a_day_after_nothing_uses_it() {
    let world = World::new().await;
    let vault_ = vault(&world.home);
    let other = vault(&world.home);
    world.put(&vault_, "A", "a").await;
    vault_.rotate(&world.store, now()).await.unwrap();
    let hours = |count| now() + SignedDuration::from_hours(count);
    assert_eq!(
        vault_.drop_unused(&world.store, hours(23)).await.unwrap(),
        0
    );
    assert_eq!(
        vault_.drop_unused(&world.store, hours(24)).await.unwrap(),
        1
    );
    assert_eq!(
        vault_.drop_unused(&world.store, hours(24)).await.unwrap(),
        0
    );
    assert_eq!(world.opened(&vault(&world.home)).await, ["a"]);
    // A process that read the keys before the rotation learns of the new one.
    assert_eq!(world.opened(&other).await, ["a"]);
    world.store.close().await.unwrap();
}

#[test]
fn keys_do_not_grow_without_end() {
    let home = home();
    let vault = vault(&home);
    let added = (0..100)
        .take_while(|_| vault.add_key(now()).is_ok())
        .count();
    assert_eq!(added, ring::KEYS - 1);
    assert!(matches!(vault.add_key(now()), Err(RotateError::Full)));
    // All of them still fit what is read.
    assert!(Vault::open(home.path(), now()).is_ok());
}

#[tokio::test]
async fn a_planted_value_is_found_nowhere() {
    let world = World::new().await;
    let vault = vault(&world.home);
    world.put(&vault, "KEY", CANARY).await;
    vault.rotate(&world.store, now()).await.unwrap();
    let all = world.all().await;
    let opened = vault.open_secret(&all[0]).unwrap();
    assert_eq!(opened.expose(), CANARY);
    let mut broken = all[0].clone();
    broken.value.ciphertext[0] ^= 1;
    let error = vault.open_secret(&broken).unwrap_err();
    let printed = format!("{vault:?} {all:?} {opened:?} {error} {error:?}");
    assert!(!printed.contains(CANARY), "{printed}");
    let keys = fs_err::read_to_string(world.home.path().join("keys/secrets.json")).unwrap();
    for key in keys.split('"').filter(|part| part.len() == 44) {
        assert!(!printed.contains(key), "{printed}");
    }
    // With the log that is not yet in the database, and after.
    let has = |needle: &[u8]| {
        fs_err::read_dir(world.home.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .any(|path| {
                let bytes = fs_err::read(path).unwrap();
                bytes.windows(needle.len()).any(|window| window == needle)
            })
    };
    assert!(has(b"Pearl"), "the search finds what is there");
    assert!(!has(CANARY.as_bytes()));
    world.store.close().await.unwrap();
    assert!(!has(CANARY.as_bytes()));
}
