//! Much of everything at once.

use std::time::Duration;

use testkit::hub::{Cut, Manners, When};
use workplace::link::bench;

use super::world::{World, delta, soon, titles, whole_part};

/// The same numbers for the same seed.
struct Random(u64);

impl Random {
    fn next_u32(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as u32
    }
}

/// Deltas and numbered frames, with the link cut at random places a hundred times.
async fn cut_a_hundred_times(mut world: World, seed: u64) {
    let mut random = Random(seed);
    let runner = world.start();
    let mut text = String::new();
    let mut texts = Vec::new();
    let mut cuts = 0;
    for n in 0..10_000u32 {
        let part = format!("p{}", texts.len());
        let piece = format!("{} é", random.next_u32());
        runner
            .handle
            .say(delta(&part, text.len(), &piece))
            .await
            .unwrap();
        text.push_str(&piece);
        if random.next_u32().is_multiple_of(10) {
            runner.say_title(&n.to_string()).await;
        }
        if random.next_u32().is_multiple_of(50) {
            runner.handle.say(whole_part(&part, &text)).await.unwrap();
            texts.push((part, std::mem::take(&mut text)));
        }
        if n % 100 == 50 {
            cuts += 1;
            let when = if random.next_u32().is_multiple_of(2) {
                When::BeforeCommit
            } else {
                When::AfterCommit
            };
            world.hub.behave(Manners {
                cut_after: Some(Cut {
                    frames: u64::from(random.next_u32() % 20) + 2,
                    when,
                }),
                ..Manners::default()
            });
        } else if n % 100 == 90 {
            world.hub.behave(Manners::default());
            soon(runner.handle.wait_until(|state| state.is_connected)).await;
        } else if n % 7 == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let part = format!("p{}", texts.len());
    runner.handle.say(whole_part(&part, &text)).await.unwrap();
    texts.push((part, text));
    world.hub.behave(Manners::default());
    soon(runner.handle.drain()).await.unwrap();
    let expected = runner.handle.state();
    assert!(cuts == 100 && expected.connections > 20, "{expected:?}");
    world.hub.look(|ledger| {
        assert_eq!((ledger.gaps, ledger.misfits), (0, 0));
        for (part, text) in &texts {
            assert_eq!(ledger.text("m", part), Some(&**text), "{part}");
        }
    });
    let got: Vec<u32> = titles(&world.hub)
        .iter()
        .map(|n| n.parse().unwrap())
        .collect();
    assert!(
        got.is_sorted_by(|a, b| a < b),
        "none twice, none out of order"
    );
    let numbered = world.hub.look(|ledger| ledger.frames.len());
    assert_eq!(numbered, got.len() + texts.len());
}

#[tokio::test(start_paused = true)]
async fn a_link_cut_a_hundred_times_in_a_storm_loses_nothing_and_doubles_nothing() {
    for seed in [1, 2] {
        cut_a_hundred_times(World::new(), seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_storm_on_a_real_disk_is_the_same() {
    cut_a_hundred_times(World::on_disk(), 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_workplace_killed_again_and_again_in_a_storm_says_everything_once() {
    let mut world = World::on_disk();
    let mut said = 0;
    for round in 0..20 {
        let runner = world.start();
        if round % 3 == 0 {
            soon(runner.connected(1)).await;
        }
        for _ in 0..50 {
            runner.say_title(&said.to_string()).await;
            said += 1;
        }
        // What is in our hands still is not said; what was taken up is.
        runner
            .handle
            .accept(&format!("p{round}"), "web:default")
            .await
            .unwrap();
        runner.kill().await;
    }
    let last = world.start();
    soon(last.connected(1)).await;
    soon(last.handle.drain()).await.unwrap();
    let expected: Vec<String> = (0..said).map(|n| n.to_string()).collect();
    assert_eq!(titles(&world.hub), expected);
    assert_eq!(world.hub.look(|ledger| ledger.gaps), 0);
}

#[tokio::test]
async fn ten_thousand_deltas_bench_the_link() {
    let latency = bench::deltas(10_000).await.unwrap();
    assert_eq!(latency.through_link.n, 10_000);
    let added = latency
        .through_link
        .p99
        .saturating_sub(latency.bare_socket.p99);
    assert!(added < Duration::from_millis(5), "{latency:?}");
}
