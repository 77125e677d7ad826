//! What came of acting for a session, written down.

use std::time::Duration;

use model::{Id, Timestamp};
use serde_json::json;
use store::snapshots::{Kept, Kind, Sizes, Snapshot as Receipt};
use store::{NewEvent, Write};

use super::commits::Then;
use super::effects::{Note, Notes};
use super::{End, Hub};

impl Hub {
    /// Receipts for what was kept. Before the move that follows from it.
    pub(super) async fn write_down(&mut self, notes: &Notes) -> Result<(), End> {
        let now = self.shared.clock.now();
        let (notes, failed) = (notes.take(), notes.take_failed());
        if notes.is_empty() && failed.is_empty() {
            return Ok(());
        }
        let mut write = Write::new(self.fence, now);
        for failed in failed {
            let body = json!({ "type": "error", "code": failed.code, "message": failed.message });
            write = write.event(NewEvent::from_json(body.to_string())?);
        }
        for note in notes {
            write = write.snapshot(self.receipt(&note, now));
        }
        self.submit(write, Then::default()).await
    }

    fn receipt(&self, note: &Note, now: Timestamp) -> Receipt {
        let provider = &self.provider_name;
        let millis = |time: f64| Duration::try_from_secs_f64(time / 1000.0).unwrap_or_default();
        let millis = |time| u64::try_from(millis(time).as_millis()).unwrap_or(u64::MAX);
        let (id, kind) = if let Some(snapshot) = &note.receipt.snapshot {
            (snapshot.to_string(), Kind::Disk)
        } else {
            // Nothing was copied: a name of its own, for the receipt alone.
            let name = Id::<model::Snapshot>::new(&model::SystemClock);
            (format!("{provider}:pause:{name}"), Kind::Pause)
        };
        let (digest, bytes, files) = (
            note.receipt.digest.clone(),
            note.receipt.bytes,
            note.receipt.files,
        );
        Receipt {
            id,
            // Whoever deletes the session leaves its snapshots to be found.
            organisation: Some(self.organisation),
            session: Some(self.fence.session),
            generation: Some(note.generation.0),
            provider: provider.to_owned(),
            kind,
            kept: match note.receipt.kept {
                provider::Kept::Disk => Kept::Disk,
                provider::Kept::Memory => Kept::Memory,
            },
            recovered: note.is_recovered,
            wanted: note.wish.is_some(),
            message: note.wish.as_ref().and_then(|wish| wish.message.clone()),
            sizes: digest
                .zip(bytes)
                .zip(files)
                .map(|((digest, bytes), files)| Sizes {
                    digest,
                    bytes,
                    files,
                }),
            took_ms: Some(millis(note.receipt.took_ms)),
            frozen_ms: Some(millis(note.receipt.frozen_ms)),
            created_at: now,
            removed_at: None,
        }
    }
}
