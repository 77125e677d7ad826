//! Bodies of requests that are read whole before anything is done with them.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Body;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::content::BoxError;

/// How long a sandbox may pause in the middle of a body.
const PAUSE: Duration = Duration::from_mins(1);

const UNIT: usize = 1 << 10;

/// Memory for bodies: each has a limit, and all of them together have one.
#[derive(Debug)]
pub(crate) struct Intake {
    most: usize,
    /// In units.
    room: Semaphore,
}

/// A body, and the room that it takes as long as this is kept.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    pub(crate) bytes: Bytes,
    _room: Option<SemaphorePermit<'a>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IntakeError {
    #[error(
        "the request's body is larger than {0} bytes, which is all that goes through this door"
    )]
    TooLarge(usize),
    #[error("too many large requests are on their way; try again in a moment")]
    NoRoom,
    #[error("the request's body did not arrive: nothing came for a minute")]
    Stalled,
    #[error("the request's body broke off")]
    BrokeOff,
}

impl IntakeError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
            Self::Stalled => StatusCode::REQUEST_TIMEOUT,
            Self::BrokeOff => StatusCode::BAD_REQUEST,
        }
    }
}

impl Intake {
    pub(crate) fn new(most: usize, together: usize) -> Self {
        let units = (together / UNIT).min(Semaphore::MAX_PERMITS);
        Self {
            most,
            room: Semaphore::new(units),
        }
    }

    pub(crate) async fn read<B>(&self, mut body: B) -> Result<Taken<'_>, IntakeError>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        if body.size_hint().lower() > self.most as u64 {
            return Err(IntakeError::TooLarge(self.most));
        }
        let mut room: Option<SemaphorePermit<'_>> = None;
        let mut read = BytesMut::new();
        loop {
            let frame = tokio::time::timeout(PAUSE, body.frame())
                .await
                .map_err(|_| IntakeError::Stalled)?;
            let Some(frame) = frame else { break };
            let Ok(data) = frame.map_err(|_| IntakeError::BrokeOff)?.into_data() else {
                continue;
            };
            if read.len() + data.len() > self.most {
                return Err(IntakeError::TooLarge(self.most));
            }
            let has = room.as_ref().map_or(0, SemaphorePermit::num_permits);
            let needs = (read.len() + data.len()).div_ceil(UNIT).saturating_sub(has);
            let more = u32::try_from(needs).map_err(|_| IntakeError::NoRoom)?;
            let more = self
                .room
                .try_acquire_many(more)
                .map_err(|_| IntakeError::NoRoom)?;
            match &mut room {
                Some(room) => room.merge(more),
                None => room = Some(more),
            }
            read.extend_from_slice(&data);
        }
        Ok(Taken {
            bytes: read.freeze(),
            _room: room,
        })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn a_body_has_a_limit_and_all_together_have_one() {
        let intake = Intake::new(3 * UNIT, 4 * UNIT);
        let body = |size: usize| Full::new(Bytes::from(vec![0; size]));
        assert_eq!(
            intake.read(body(3 * UNIT + 1)).await.unwrap_err(),
            IntakeError::TooLarge(3 * UNIT)
        );
        let first = intake.read(body(3 * UNIT)).await.unwrap();
        assert_eq!(
            intake.read(body(UNIT + 1)).await.unwrap_err(),
            IntakeError::NoRoom
        );
        assert!(intake.read(body(UNIT)).await.is_ok());
        drop(first);
        assert!(intake.read(body(3 * UNIT)).await.is_ok());
    }
}
