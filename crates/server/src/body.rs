//! Bodies of requests. One may take as long as it needs to, and may not fall silent.

use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::StatusCode;
use http_body_util::BodyExt as _;

use crate::problem::{Answer, Problem};

/// What no route of its own reads in pieces.
pub(crate) const USUAL: usize = 1 << 20;
/// For the next piece to come.
const SILENCE: Duration = Duration::from_secs(30);

/// All of it, if that is not too much.
pub(crate) async fn whole<B>(mut body: B, most: usize, too_long: &str) -> Answer<Bytes>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let mut all = Vec::new();
    while let Some(piece) = next(&mut body).await? {
        if all.len() + piece.len() > most {
            return Err(Problem::too_large(too_long));
        }
        all.extend_from_slice(&piece);
    }
    Ok(all.into())
}

/// The next piece, unless that was all.
pub(crate) async fn next<B>(body: &mut B) -> Answer<Option<Bytes>>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    loop {
        let frame = tokio::time::timeout(SILENCE, body.frame()).await;
        let Some(frame) = frame.map_err(|_| silent())? else {
            return Ok(None);
        };
        let frame = frame.map_err(|_| Problem::invalid("the body ended early"))?;
        if let Ok(piece) = frame.into_data() {
            return Ok(Some(piece));
        }
    }
}

fn silent() -> Problem {
    Problem::new(
        StatusCode::REQUEST_TIMEOUT,
        "silent",
        "the rest of the body does not come",
    )
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures::stream;
    use tokio::time::sleep;

    use super::*;

    fn coming(pieces: usize, each: Duration) -> Body {
        let one_by_one = stream::unfold(0, move |sent| async move {
            sleep(each).await;
            (sent < pieces).then_some((Ok::<_, std::io::Error>("x"), sent + 1))
        });
        Body::from_stream(one_by_one)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_be_slow_and_not_silent() {
        let slow = coming(10, Duration::from_secs(29));
        assert_eq!(whole(slow, 10, "").await.unwrap(), "xxxxxxxxxx");
        let silent = coming(2, Duration::from_secs(31));
        assert!(whole(silent, 10, "").await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_too_long_is_not_read_to_its_end() {
        let endless = coming(usize::MAX, Duration::from_millis(1));
        let refused = whole(endless, 10, "too long").await.unwrap_err();
        assert_eq!(refused.words(), "too long");
    }
}
