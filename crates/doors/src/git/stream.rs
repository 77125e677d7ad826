//! Bodies on their way, never in memory as a whole, and never longer than they may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Body, Frame};

use crate::content::{BoxError, Content};
use crate::gate::Slot;

/// How long a sandbox may pause in the middle of a push.
const PAUSE: Duration = Duration::from_mins(5);

/// Set when a body turned out longer than it may be.
pub(super) type IsTooLong = Arc<AtomicBool>;

/// Out of the sandbox.
pub(super) fn outwards<B>(
    body: B,
    most: u64,
    is_too_long: IsTooLong,
) -> impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let left = Some((body, most));
    futures::stream::try_unfold(left, move |state| {
        let is_too_long = Arc::clone(&is_too_long);
        async move {
            let Some((mut body, left)) = state else {
                return Ok(None);
            };
            loop {
                let frame = tokio::time::timeout(PAUSE, body.frame())
                    .await
                    .map_err(|_| BoxError::from("the sandbox stopped sending"))?;
                let Some(frame) = frame else {
                    return Ok(None);
                };
                let Ok(data) = frame.map_err(Into::into)?.into_data() else {
                    continue;
                };
                let Some(left) = left.checked_sub(data.len() as u64) else {
                    is_too_long.store(true, Ordering::Relaxed);
                    return Err("longer than it may be".into());
                };
                return Ok(Some((data, Some((body, left)))));
            }
        }
    })
}

/// Into the sandbox. The session's slot is taken until the last byte.
pub(super) fn inwards(answer: reqwest::Response, most: u64, slot: Slot) -> Content {
    let mut left = most;
    let chunks = answer.bytes_stream().map(move |chunk| {
        let _kept = &slot;
        let chunk = chunk.map_err(|error| BoxError::from(error.without_url()))?;
        left = left
            .checked_sub(chunk.len() as u64)
            .ok_or("the answer is longer than it may be")?;
        Ok(chunk)
    });
    StreamBody::new(chunks.map_ok(Frame::data)).boxed_unsync()
}
