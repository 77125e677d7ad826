//! What must be there: every file that was acknowledged, in every sandbox and snapshot that was.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::process::within;
use super::stage::Stage;
use crate::world::text;

/// Names below `/srv`, each with what is in it.
pub(super) type Files = BTreeMap<String, String>;

#[derive(Default)]
pub(super) struct Model {
    pub(super) sandboxes: BTreeMap<String, Files>,
    pub(super) snapshots: BTreeMap<String, Files>,
}

/// What was being done, as far as it matters to what must be there afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    /// A new sandbox with these files.
    Create(Files),
    Fork {
        of: String,
        count: usize,
    },
    Remove(String),
    RemoveSnapshot(String),
    Write {
        to: String,
        file: String,
        content: String,
    },
}

impl Model {
    /// After a round: takes in what happened and checks that nothing else did.
    pub(super) fn compare(&mut self, stage: &Stage, effect: &Effect, acknowledged: bool) {
        let found = stage.restart();
        let snapshots = stage.snapshots();
        self.take_in_sandboxes(&found, effect, acknowledged);
        let found_snapshots: BTreeSet<String> = snapshots.iter().map(|s| text(&s["id"])).collect();
        if let Effect::RemoveSnapshot(id) = effect
            && !found_snapshots.contains(id)
        {
            self.snapshots.remove(id);
        }
        for snapshot in &snapshots {
            // Made in this round, of everything that was acknowledged before it.
            let id = text(&snapshot["id"]);
            if !self.snapshots.contains_key(&id)
                && let Some(files) = snapshot["sandbox"]
                    .as_str()
                    .and_then(|of| self.sandboxes.get(of))
            {
                self.snapshots.insert(id, files.clone());
            }
        }
        if let (Effect::Write { to, file, content }, true) = (effect, acknowledged)
            && let Some(files) = self.sandboxes.get_mut(to)
        {
            files.insert(file.clone(), content.clone());
        }
        for (id, files) in &self.snapshots {
            assert!(found_snapshots.contains(id), "snapshot {id} is lost");
            has_files(stage, None, &stage.snapshot_record(id)["layers"], files, id);
        }
        for sandbox in &found {
            self.look_at(stage, sandbox);
        }
    }

    fn take_in_sandboxes(&mut self, found: &[Value], effect: &Effect, acknowledged: bool) {
        let found: BTreeSet<String> = found.iter().map(|sandbox| text(&sandbox["id"])).collect();
        let lost: Vec<String> = self
            .sandboxes
            .keys()
            .filter(|id| !found.contains(*id))
            .cloned()
            .collect();
        for id in lost {
            let meant = match effect {
                Effect::Remove(removed) => *removed == id,
                // A stopped sandbox goes with the snapshot that it leads to.
                Effect::RemoveSnapshot(_) => true,
                _ => false,
            };
            assert!(meant, "sandbox {id} is lost in {effect:?}");
            self.sandboxes.remove(&id);
        }
        if let Effect::Remove(id) = effect {
            assert!(
                !acknowledged || !found.contains(id),
                "{id} was removed and is there"
            );
        }
        let new: Vec<&String> = found
            .iter()
            .filter(|id| !self.sandboxes.contains_key(*id))
            .collect();
        let (files, expected) = match effect {
            Effect::Create(files) => (files.clone(), 1),
            Effect::Fork { of, count } => (self.sandboxes[of].clone(), *count),
            _ => (Files::new(), 0),
        };
        let all_or_none = new.len() == expected || (new.is_empty() && !acknowledged);
        assert!(all_or_none, "{effect:?} made {new:?}");
        for id in new {
            self.sandboxes.insert(id.clone(), files.clone());
        }
    }

    /// A living sandbox has its files on its own disk, a stopped one in its snapshot, and what is
    /// said to run does run.
    fn look_at(&self, stage: &Stage, sandbox: &Value) {
        let id = text(&sandbox["id"]);
        let files = &self.sandboxes[&id];
        let status = text(&sandbox["state"]["status"]);
        if status == "stopped" {
            let record = stage.snapshot_record(&text(&sandbox["state"]["snapshot"]));
            return has_files(stage, None, &record["layers"], files, &id);
        }
        let record = stage.json(&format!("sandboxes/{id}/record.json"));
        has_files(stage, Some(&id), &record["layers"], files, &id);
        if status == "running" {
            within(
                &format!("{id}, which runs, is not frozen"),
                Duration::from_secs(5),
                || !stage.is_frozen(&id),
            );
        }
    }
}

/// Reads the disk as it lies there: no nacre process and no sandbox is asked.
fn has_files(stage: &Stage, upper: Option<&str>, layers: &Value, files: &Files, whose: &str) {
    let upper = upper.map(|id| stage.home(&format!("sandboxes/{id}/disk/upper")));
    let layers = layers.as_array().into_iter().flatten();
    // A layer lies in one of two forms, by the file system under the home.
    let lower = layers.flat_map(|layer| {
        ["fs", "disk/upper"].map(|form| stage.home(&format!("layers/{}/{form}", text(layer))))
    });
    let stack: Vec<_> = upper.into_iter().chain(lower).collect();
    for (name, content) in files {
        let place = stack
            .iter()
            .map(|layer| layer.join("srv").join(name))
            .find(|path| path.exists());
        let found = place.and_then(|path| fs_err::read_to_string(path).ok());
        assert_eq!(
            found.as_deref(),
            Some(content.as_str()),
            "{name} of {whose}"
        );
    }
}
