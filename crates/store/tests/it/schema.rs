//! What the migrations make, written down: a change of the schema is seen as such.

use nacre_store::{Config, Location, Store};
use sqlx::Connection as _;

use crate::server::Server;
use crate::world::runtime;

#[test]
fn the_schema_of_sqlite_is_this() {
    runtime().block_on(async {
        let directory = camino_tempfile::tempdir().unwrap();
        let path = directory.path().join("nacre.db");
        let store = Store::open(&Config::new(Location::File(path.clone())))
            .await
            .unwrap();
        store.close().await.unwrap();
        let address = format!("sqlite:{path}");
        let mut connection = sqlx::SqliteConnection::connect(&address).await.unwrap();
        let sql = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name";
        let made: Vec<String> = sqlx::query_scalar(sql)
            .fetch_all(&mut connection)
            .await
            .unwrap();
        insta::assert_snapshot!("sqlite", made.join(";\n"));
    });
}

pub(crate) async fn holds_on(server: &Server) {
    let Location::Server(address) = server.database("schema").await else {
        panic!("a server's database is at a server");
    };
    let store = Store::open(&Config::new(address.parse().unwrap()))
        .await
        .unwrap();
    store.close().await.unwrap();
    let mut connection = sqlx::PgConnection::connect(&address).await.unwrap();
    let sql = "
        SELECT c.table_name || '.' || c.column_name || ' ' || c.data_type
            || CASE c.is_nullable WHEN 'NO' THEN ' not null' ELSE '' END
        FROM information_schema.columns c WHERE c.table_schema = 'public'
        UNION ALL
        SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
        UNION ALL
        SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
        ORDER BY 1";
    let made: Vec<String> = sqlx::query_scalar(sql)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    insta::assert_snapshot!("postgres", made.join("\n"));
}
