//! Sound as models of speech want it: 16,000 samples a second, one channel.

use std::time::Duration;

use crate::command::{exec_as, run_fed};
use crate::hands::Hands;

const RATE: u32 = 16_000;
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
            "s16le",
            "pipe:1",
        ],
    );
    ffmpeg.timeout_ms = u64::try_from(PATIENCE.as_millis()).ok();
    match run_fed(hands, ffmpeg, sound, MOST).await {
        Ok(done) if done.code == 0 && !done.cut && !done.stdout.is_empty() => {
            let mut wave = header(u32::try_from(done.stdout.len()).ok()?);
            wave.extend_from_slice(&done.stdout);
            Some(wave)
        }
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

/// Ours, since ffmpeg cannot go back in a pipe to say how much it was.
fn header(length: u32) -> Vec<u8> {
    const SAMPLE: u16 = 2;
    let mut header = Vec::with_capacity(44);
    header.extend_from_slice(b"RIFF");
    header.extend_from_slice(&(36 + length).to_le_bytes());
    header.extend_from_slice(b"WAVEfmt ");
    header.extend_from_slice(&16_u32.to_le_bytes());
    // Plain samples, in one channel.
    header.extend_from_slice(&[1, 0, 1, 0]);
    header.extend_from_slice(&RATE.to_le_bytes());
    header.extend_from_slice(&(RATE * u32::from(SAMPLE)).to_le_bytes());
    header.extend_from_slice(&SAMPLE.to_le_bytes());
    header.extend_from_slice(&(8 * SAMPLE).to_le_bytes());
    header.extend_from_slice(b"data");
    header.extend_from_slice(&length.to_le_bytes());
    header
}
