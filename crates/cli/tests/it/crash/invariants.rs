//! What holds of a home whenever no operation is under way.

use serde_json::Value;

use super::process::{Process, comes_true, running_from};
use super::stage::{PATIENCE, Stage};
use crate::world::text;

impl Stage {
    /// The home is consistent, and the bystander has noticed nothing.
    pub(super) fn is_sound(&self, when: &str) {
        self.is_consistent(when);
        self.beats_on(&self.bystander, 0);
    }

    /// Soon: a background digest may be at work, and a keeper that ended a sandbox takes a moment
    /// to go.
    pub(super) fn is_consistent(&self, when: &str) {
        let mut wrong = Vec::new();
        let settled = comes_true(PATIENCE, || {
            wrong = self.faults();
            wrong.is_empty()
        });
        assert!(settled, "{when}:\n{}", wrong.join("\n"));
    }

    pub(super) fn the_bystander_noticed_nothing(&self, since: u64) {
        self.beats_on(&self.bystander, since);
        self.has_its_files(&self.bystander);
    }

    fn faults(&self) -> Vec<String> {
        let records = self.records();
        let mut wrong = self.leftovers();
        wrong.extend(self.loose_claims(&records));
        wrong.extend(self.loose_processes(&records));
        let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap();
        let home = self.home("");
        wrong.extend(
            mounts
                .lines()
                .filter(|line| line.contains(home.as_str()))
                .map(|line| format!("a mount of the host: {line}")),
        );
        wrong
    }

    /// Each sandbox's directory with its record.
    fn records(&self) -> Vec<(String, Value)> {
        let directories = self.names("sandboxes");
        directories
            .into_iter()
            .map(|id| {
                (
                    id.clone(),
                    self.json(&format!("sandboxes/{id}/record.json")),
                )
            })
            .collect()
    }

    /// What an operation that died leaves and nobody tidies up.
    fn leftovers(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for directory in ["intents", "trash", "aside"] {
            wrong.extend(
                self.names(directory)
                    .iter()
                    .map(|name| format!("left over: {directory}/{name}")),
            );
        }
        for directory in [
            "sandboxes",
            "layers",
            "snapshots",
            "ranges",
            "names",
            "keys",
            "run",
        ] {
            let unfinished = self
                .names(directory)
                .into_iter()
                .filter(|name| name.contains(".new"));
            wrong.extend(unfinished.map(|name| format!("half-written: {directory}/{name}")));
        }
        for layer in self.names("layers") {
            if self.json(&format!("layers/{layer}/layer.json")).is_null() {
                wrong.push(format!("not a layer: layers/{layer}"));
            }
        }
        for snapshot in self.names("snapshots") {
            let record = self.json(&format!("snapshots/{snapshot}"));
            for layer in record["layers"].as_array().into_iter().flatten() {
                if !self
                    .home(&format!("layers/{}/layer.json", text(layer)))
                    .exists()
                {
                    wrong.push(format!(
                        "{snapshot} names a layer that is not there: {layer}"
                    ));
                }
            }
        }
        for (id, record) in self.records() {
            if let Some(snapshot) = record["state"]["stopped"]["snapshot"].as_str()
                && !self.snapshot_record(snapshot).is_object()
            {
                wrong.push(format!(
                    "{id} leads to a snapshot that is not there: {snapshot}"
                ));
            }
            match &record["state"] {
                Value::Null => wrong.push(format!("no record: sandboxes/{id}")),
                Value::String(state) if state == "creating" => {
                    wrong.push(format!("half-made: sandboxes/{id}"));
                }
                _ => {}
            }
            let unfinished = self
                .names(&format!("sandboxes/{id}"))
                .into_iter()
                .filter(|name| name.contains(".new"));
            wrong.extend(unfinished.map(|name| format!("half-written: sandboxes/{id}/{name}")));
        }
        wrong
    }

    /// A claim belongs to a sandbox that is neither gone nor stopped.
    fn loose_claims(&self, records: &[(String, Value)]) -> Vec<String> {
        let mut wrong = Vec::new();
        for kind in ["ranges", "names", "keys"] {
            for name in self.names(kind) {
                let holder = fs_err::read_to_string(self.home(&format!("{kind}/{name}")))
                    .unwrap_or_default();
                let holds = records.iter().any(|(id, record)| {
                    *id == holder.trim()
                        && !record.is_null()
                        && record["state"].get("stopped").is_none()
                });
                if !holds {
                    wrong.push(format!(
                        "a claim without its sandbox: {kind}/{name} of {holder}"
                    ));
                }
            }
        }
        for (id, record) in records {
            let range = record["first_id"].to_string();
            let holder =
                fs_err::read_to_string(self.home(&format!("ranges/{range}"))).unwrap_or_default();
            if record["state"].is_string() && holder.trim() != id {
                wrong.push(format!("{id} has no claim on its range"));
            }
        }
        wrong
    }

    /// Cgroups, keepers, runners and namespaces are those of living sandboxes, and no sandbox lives
    /// whose record says that it does not.
    fn loose_processes(&self, records: &[(String, Value)]) -> Vec<String> {
        let living: Vec<&String> = records
            .iter()
            .filter(|(id, record)| {
                matches!(record["state"].as_str(), Some("running" | "paused"))
                    && self.processes(id).is_some()
            })
            .map(|(id, _)| id)
            .collect();
        let (keepers, runners): (Vec<Option<Process>>, Vec<Process>) =
            living.iter().filter_map(|id| self.processes(id)).unzip();
        let mut wrong = Vec::new();
        for cgroup in self.cgroups() {
            if !living.iter().any(|id| cgroup.ends_with(id.as_str())) {
                wrong.push(format!("a cgroup without its sandbox: {cgroup}"));
            }
        }
        // A namespace lives as long as somebody is in it or holds it.
        let mut namespaces: Vec<String> = runners.iter().flat_map(|r| r.namespaces()).collect();
        let ourselves = i32::try_from(std::process::id()).unwrap();
        namespaces.extend(Process::find(ourselves).unwrap().namespaces());
        for process in running_from(&self.home("bin").into_string()) {
            if !keepers.contains(&Some(process)) && !runners.contains(&process) {
                wrong.push(format!("a keeper or runner of nobody: {process:?}"));
            }
            let loose = process.namespaces();
            let loose = loose.iter().filter(|one| !namespaces.contains(one));
            wrong.extend(loose.map(|one| format!("{process:?} holds {one} of nobody")));
        }
        wrong
    }

    /// By the id that people see, which begins with provider and kind.
    pub(super) fn snapshot_record(&self, id: &str) -> Value {
        let file = id.rsplit(':').next().unwrap_or(id);
        self.json(&format!("snapshots/{file}.json"))
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs_err::read_dir(self.home(directory))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }

    pub(super) fn json(&self, path: &str) -> Value {
        let text = fs_err::read_to_string(self.home(path)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }
}
