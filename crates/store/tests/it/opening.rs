//! Opening what is there, and what should not be.

use camino::Utf8PathBuf;
use camino_tempfile::Utf8TempDir;
use nacre_store::sessions::Listing;
use nacre_store::{Config, Location, OpenError, Store};
use serde_json::json;
use sqlx::Connection as _;

use crate::world::{World, on_sqlite, runtime};

fn place() -> (Utf8TempDir, Utf8PathBuf) {
    let directory = camino_tempfile::tempdir().unwrap();
    let path = directory.path().join("nacre.db");
    (directory, path)
}

async fn open(path: &Utf8PathBuf) -> Result<Store, OpenError> {
    Store::open(&Config::new(Location::File(path.clone()))).await
}

#[test]
fn addresses_are_a_file_or_a_server() {
    assert!(matches!("sqlite:a/b.db".parse(), Ok(Location::File(p)) if p == "a/b.db"));
    assert!(matches!("sqlite:///a/b.db".parse(), Ok(Location::File(p)) if p == "/a/b.db"));
    assert!(matches!(
        "postgres://u:secret@h/d".parse(),
        Ok(Location::Server(_))
    ));
    for text in ["", "a.db", "sqlite:", "sqlite::memory:", "mysql://h/d"] {
        assert!(text.parse::<Location>().is_err(), "{text}");
    }
    let server: Location = "postgres://u:secret@h/d".parse().unwrap();
    assert!(!format!("{server:?}").contains("secret"));
}

#[test]
fn opened_again_everything_is_there() {
    runtime().block_on(async {
        let (_directory, path) = place();
        let world = World::open(Location::File(path.clone())).await;
        let fence = world.session().await;
        world.append(fence, json!({"type": "title"})).await.unwrap();
        world.store.close().await.unwrap();
        // One file, to be copied.
        let files: Vec<_> = path.parent().unwrap().read_dir_utf8().unwrap().collect();
        assert_eq!(files.len(), 1, "{files:?}");
        let copy = path.with_file_name("copy.db");
        fs_err::copy(&path, &copy).unwrap();
        for path in [&path, &copy] {
            let store = open(path).await.unwrap();
            let record = store.load_session(fence.session).await.unwrap();
            assert_eq!((record.last_seq, record.term), (1, fence.term));
            store.ping().await.unwrap();
            store.close().await.unwrap();
        }
    });
}

#[test]
fn two_who_have_it_open_see_each_others_work() {
    on_sqlite(async |world: World| {
        let fence = world.session().await;
        let Location::File(path) = world.location.clone() else {
            panic!("a file");
        };
        let other = open(&path).await.unwrap();
        world.append(fence, json!({"type": "title"})).await.unwrap();
        let seen = other.load_session(fence.session).await.unwrap();
        assert_eq!(seen.last_seq, 1);
        let mut pending = Vec::new();
        for store in [&world.store, &other].into_iter().cycle().take(200) {
            let event = nacre_store::NewEvent::new(&json!({"type": "title"})).unwrap();
            let write = world.write(fence).event(event);
            pending.push(store.submit(write).await.unwrap());
        }
        let mut seqs: Vec<u64> = futures::future::join_all(pending)
            .await
            .into_iter()
            .map(|committed| committed.unwrap().events[0].seq)
            .collect();
        seqs.sort_unstable();
        assert_eq!(seqs, (2..=201).collect::<Vec<u64>>());
        other.close().await.unwrap();
    });
}

#[test]
fn many_who_open_it_first_make_it_once() {
    runtime().block_on(async {
        let (_directory, path) = place();
        let opened = futures::future::join_all((0..6).map(|_| open(&path))).await;
        for store in opened {
            store.unwrap().close().await.unwrap();
        }
    });
}

#[test]
fn a_newer_schema_is_left_alone() {
    runtime().block_on(async {
        let (_directory, path) = place();
        open(&path).await.unwrap().close().await.unwrap();
        let address = format!("sqlite:{path}");
        let mut connection = sqlx::SqliteConnection::connect(&address).await.unwrap();
        sqlx::query("INSERT INTO migrations (number, name) VALUES (9999, 'of_tomorrow')")
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
        let error = open(&path).await.unwrap_err();
        assert!(
            matches!(error, OpenError::Newer { found: 9999, .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains("use a newer nacre"), "{error}");
    });
}

#[test]
fn what_is_damaged_or_no_database_is_called_so() {
    runtime().block_on(async {
        let (_directory, path) = place();
        fs_err::write(
            &path,
            "This is a letter, and no database at all.\n".repeat(200),
        )
        .unwrap();
        let error = open(&path).await.unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");

        let (_directory, path) = place();
        let world = World::open(Location::File(path.clone())).await;
        world.session().await;
        world.store.close().await.unwrap();
        let mut bytes = fs_err::read(&path).unwrap();
        for byte in bytes.iter_mut().skip(4096).step_by(3) {
            *byte ^= 0x5a;
        }
        fs_err::write(&path, bytes).unwrap();
        match open(&path).await {
            Err(error) => assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}"),
            Ok(store) => {
                let read = store
                    .list_sessions(world.organisation, Listing::default())
                    .await;
                assert!(read.is_err(), "{read:?}");
            }
        }
    });
}

#[test]
fn a_place_that_cannot_be_written_is_called_so() {
    runtime().block_on(async {
        let (_directory, path) = place();
        let missing = path.with_file_name("no/such/directory/nacre.db");
        let error = open(&missing).await.unwrap_err();
        assert!(matches!(error, OpenError::Open { .. }), "{error:?}");
        assert!(error.to_string().contains("no/such/directory"), "{error}");
    });
}

#[test]
fn a_server_that_does_not_answer_is_called_so() {
    runtime().block_on(async {
        let mut config = Config::new("postgres://u:secret@127.0.0.1:1/d".parse().unwrap());
        config.busy_timeout = std::time::Duration::from_secs(1);
        let error = Store::open(&config).await.unwrap_err();
        assert!(matches!(error, OpenError::Open { .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("secret"));
    });
}
