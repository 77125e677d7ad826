//! A process that is really killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use camino_tempfile::Utf8TempDir;

use super::world::{Road, World, soon, titles};

/// Where the process that is to be killed finds its journal.
const PLACE: &str = "NACRE_TEST_JOURNAL";

/// Not a test by itself: the process that the next one starts and kills.
#[tokio::test]
async fn talks_until_it_is_killed() {
    #[expect(
        clippy::disallowed_methods,
        reason = "how a test tells itself from its child"
    )]
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let mut world = World::in_directory(Path::new(&place));
    world.road(Road::Closed);
    let runner = world.start();
    for n in 0.. {
        runner.say_title(&n.to_string()).await;
        if n % 5 == 0 {
            runner
                .handle
                .accept(&format!("p{n}"), "web:default")
                .await
                .unwrap();
            let mut out = std::io::stdout().lock();
            writeln!(out, "\naccepted {n}").unwrap();
            out.flush().unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_process_had_on_disk_arrives_once() {
    for kill_at in [0, 5, 25, 100, 250] {
        let directory = Utf8TempDir::new().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "link::killed::talks_until_it_is_killed",
                "--nocapture",
            ])
            .env(PLACE, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let accepted = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("accepted ")?.parse::<usize>().ok())
            .find(|accepted| *accepted >= kill_at);
        // While it goes on talking.
        child.kill().unwrap();
        child.wait().unwrap();
        let accepted = accepted.unwrap();

        let mut world = World::in_directory(directory.path().as_std_path());
        let runner = world.start();
        soon(runner.connected(1)).await;
        soon(runner.handle.drain()).await.unwrap();
        let got = titles(&world.hub);
        let expected: Vec<String> = (0..got.len()).map(|n| n.to_string()).collect();
        assert_eq!(got, expected, "in order, each once");
        assert!(got.len() > accepted, "{} of {accepted}", got.len());
        assert_eq!(
            world.hub.look(|ledger| (ledger.gaps, ledger.repeated)),
            (0, 0)
        );
    }
}
