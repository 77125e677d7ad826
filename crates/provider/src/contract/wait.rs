//! Waiting for what can be seen.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// How long anything that must happen may take.
const DEADLINE: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(20);
/// A refusal is an answer, not the end of a wait.
const FAST: Duration = Duration::from_secs(2);

/// Looks again and again until it is so.
pub(super) async fn eventually(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !look().await {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(INTERVAL).await;
    }
}

/// For what must not hang.
pub(super) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let Ok(done) = timeout(DEADLINE, work).await else {
        panic!("hangs: {what}")
    };
    done
}

/// For what must be answered at once.
pub(super) async fn fast<T>(what: &str, work: impl Future<Output = T>) -> T {
    let Ok(done) = timeout(FAST, work).await else {
        panic!("takes more than {FAST:?}: {what}")
    };
    done
}
