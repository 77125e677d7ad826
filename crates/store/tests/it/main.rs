//! The store as its users see it. Each story runs on SQLite, and on PostgreSQL where that is
//! installed.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

/// A test for each story on SQLite, and a list of all of them for PostgreSQL: a server takes longer
/// to start than they take together.
macro_rules! stories {
    ($($story:ident,)*) => {
        mod on_sqlite {
            $(#[test]
            fn $story() {
                crate::world::on_sqlite(super::$story);
            })*
        }

        pub(crate) async fn on_server(server: &crate::server::Server) {
            $(server.tell(concat!(module_path!(), "::", stringify!($story)), $story).await;)*
        }
    };
}

mod crash;
mod doors;
mod fencing;
mod frames;
mod job_rows;
mod log;
mod opening;
mod oracle;
mod prompts;
mod records;
mod schema;
mod secrets;
mod server;
mod signing_in;
mod states;
mod tools;
mod transcript;
mod world;

#[test]
fn every_story_holds_on_postgresql() {
    world::runtime().block_on(async {
        let Some(server) = server::Server::start().await else {
            return;
        };
        doors::on_server(&server).await;
        fencing::on_server(&server).await;
        frames::on_server(&server).await;
        job_rows::on_server(&server).await;
        log::on_server(&server).await;
        prompts::on_server(&server).await;
        records::on_server(&server).await;
        secrets::on_server(&server).await;
        signing_in::on_server(&server).await;
        states::on_server(&server).await;
        tools::on_server(&server).await;
        transcript::on_server(&server).await;
        schema::holds_on(&server).await;
        server.stop();
    });
}
