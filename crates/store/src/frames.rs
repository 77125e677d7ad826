//! What came from a runner: each numbered frame is committed once, however often it is sent.

use model::{Id, Session, Timestamp};

use crate::columns::{count, millis, number};
use crate::connection::{changed, on};
use crate::limits::{self, within};
use crate::tx::Reader;
use crate::{Error, Fenced, Result, Store};

/// A runner's numbered frame. Numbers belong to a boot, and a boot happens once in a session: a
/// sandbox made from an old snapshot may offer frames of an earlier generation again, and they are
/// known all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub generation: u64,
    pub boot: String,
    pub number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intake {
    New,
    /// It was committed before: acknowledge it again, and write nothing.
    Known,
}

/// How far a boot's frames are committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub boot: String,
    pub generation: u64,
    pub number: u64,
}

impl Fenced<'_> {
    /// Frames of a boot come in order and without gap.
    pub async fn take_frame(&mut self, frame: &Frame, at: Timestamp) -> Result<Intake> {
        const NEXT: &str = "UPDATE boots SET seen = $3
            WHERE session_id = $1 AND boot = $2 AND seen = $3 - 1";
        const SEEN: &str = "SELECT seen FROM boots WHERE session_id = $1 AND boot = $2";
        within("a boot's name", &frame.boot, limits::FOREIGN_ID)?;
        let id = self.id();
        if changed!(
            &mut self.connection(),
            NEXT,
            [&id, &frame.boot, number(frame.number)]
        )? == 1
        {
            return Ok(Intake::New);
        }
        let seen: Option<i64> = on!(&mut self.connection(), c => sqlx::query_scalar(SEEN)
            .bind(&id)
            .bind(&frame.boot)
            .fetch_optional(c)
            .await)?;
        let seen = count(seen.unwrap_or(0))?;
        if frame.number > seen + 1 || frame.number == 0 {
            return Err(Error::FrameGap {
                number: frame.number,
                expected: seen + 1,
            });
        }
        if frame.number <= seen {
            return Ok(Intake::Known);
        }
        self.skip_frames(frame, at).await?;
        Ok(Intake::New)
    }

    /// Takes everything up to this frame for seen: a runner whose journal was damaged has lost it.
    pub async fn skip_frames(&mut self, frame: &Frame, at: Timestamp) -> Result<()> {
        const KNOWN: &str = "UPDATE boots SET seen = $3
            WHERE session_id = $1 AND boot = $2 AND seen < $3";
        const BOOTS: &str = "SELECT count(*) FROM boots WHERE session_id = $1";
        const SQL: &str = "INSERT INTO boots (session_id, boot, generation, seen, first_at)
            VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (session_id, boot) DO NOTHING";
        within("a boot's name", &frame.boot, limits::FOREIGN_ID)?;
        let id = self.id();
        // Nearly always: only another boot has to find room.
        let known = changed!(
            &mut self.connection(),
            KNOWN,
            [&id, &frame.boot, number(frame.number)]
        )?;
        if known > 0 {
            return Ok(());
        }
        let boots: i64 = on!(&mut self.connection(), c => sqlx::query_scalar(BOOTS)
            .bind(&id)
            .fetch_one(c)
            .await)?;
        if count(boots)? >= limits::BOOTS {
            return Err(Error::Full("the list of boots"));
        }
        changed!(
            &mut self.connection(),
            SQL,
            [
                &id,
                &frame.boot,
                number(frame.generation),
                number(frame.number),
                millis(at)
            ]
        )?;
        Ok(())
    }
}

impl Store {
    /// For the greeting of a runner: what need not be sent again. The newest boots first.
    pub async fn frames_seen(&self, session: Id<Session>) -> Result<Vec<Seen>> {
        const SQL: &str = "SELECT boot, generation, seen FROM boots WHERE session_id = $1
            ORDER BY first_at DESC, boot LIMIT $2";
        let mut reader = Reader::acquire(&self.database).await?;
        let rows: Vec<(String, i64, i64)> = on!(&mut reader.connection(), c => sqlx::query_as(SQL)
            .bind(session.to_string())
            .bind(limits::page(limits::PAGE))
            .fetch_all(c)
            .await)?;
        rows.into_iter()
            .map(|(boot, generation, seen)| {
                Ok(Seen {
                    boot,
                    generation: count(generation)?,
                    number: count(seen)?,
                })
            })
            .collect()
    }
}
