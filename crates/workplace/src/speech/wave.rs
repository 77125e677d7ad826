//! Sound as models of speech want it: 16,000 samples a second, one channel.

use std::time::Duration;

use crate::command::{exec_as, run_fed};
use crate::hands::Hands;

const PATIENCE: Duration = Duration::from_mins(1);
/// Thirteen minutes, as much as the API takes in one file.
const MOST: usize = 25 << 20;

/// Decoded by ffmpeg, as the user: whoever recorded it may have meant harm. `None` where there is no
/// ffmpeg, or it makes nothing of it, and for what is too long; as it came it may still be understood.
pub(super) async fn from(hands: &Hands, user: &str, sound: &[u8]) -> Option<Vec<u8>> {
    let mut ffmpeg = exec_as(
        user,
        [
            "ffmpeg",
            "-loglevel",
            "error",
            // A playlist could name anything else.
            "-protocol_whitelist",
            "pipe",
            "-i",
            "pipe:0",
            "-vn",
            "-ac",
            "1",
            "-ar",
            "16000",
            "-f",
            "wav",
            "pipe:1",
        ],
    );
    ffmpeg.timeout_ms = u64::try_from(PATIENCE.as_millis()).ok();
    match run_fed(hands, ffmpeg, sound, MOST).await {
        Ok(done) if done.code == 0 && !done.cut && !done.stdout.is_empty() => Some(done.stdout),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr);
            tracing::info!(code = done.code, cut = done.cut, %said, "sound goes as it came");
            None
        }
        Err(error) => {
            tracing::info!(%error, "sound goes as it came");
            None
        }
    }
}
