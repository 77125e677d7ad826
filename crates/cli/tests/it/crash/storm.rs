//! Operations by chance, killed by chance.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::chance::Chance;
use super::process::wait_within;
use super::stage::{PATIENCE, Stage};
use super::storm_model::{Effect, Files, Model};

const SEED: u64 = 20_261_115;
const ROUNDS: u64 = 60;
const MOST_SANDBOXES: usize = 4;
/// About as long as the operations take.
const MOST_DELAY: Duration = Duration::from_millis(30);

#[test]
fn in_a_storm_of_operations_and_kills_nothing_acknowledged_is_lost() {
    let seed = setting("NACRE_STORM_SEED").unwrap_or(SEED);
    let rounds = setting("NACRE_STORM_ROUNDS").unwrap_or(ROUNDS);
    say(&format!(
        "NACRE_STORM_SEED={seed} NACRE_STORM_ROUNDS={rounds}"
    ));
    let stage = Stage::new();
    let mut storm = Storm {
        chance: Chance::new(seed),
        model: Model::default(),
        round: 0,
        stage,
    };
    let bystander = storm.stage.bystander.clone();
    storm.model.sandboxes.insert(bystander, Files::new());
    for round in 0..rounds {
        storm.round = round;
        let pulse = storm.stage.pulse(&storm.stage.bystander).unwrap();
        storm.one_round();
        storm.stage.is_sound(&format!("seed {seed}, round {round}"));
        storm.stage.beats_on(&storm.stage.bystander, pulse);
    }
    storm.every_survivor_is_usable();
    storm.stage.the_bystander_noticed_nothing(0);
}

struct Storm {
    stage: Stage,
    chance: Chance,
    model: Model,
    round: u64,
}

impl Storm {
    /// Does one thing, perhaps kills it, and compares.
    fn one_round(&mut self) {
        let (arguments, effect) = self.choose();
        let keeper = self.chance.one_in(4).then(|| self.any_sandbox()).flatten();
        let keeper_after = self.chance.at_most(MOST_DELAY);
        let killed_after = self
            .chance
            .one_in(2)
            .then(|| self.chance.at_most(MOST_DELAY));

        let mut beside = self
            .chance
            .one_in(3)
            .then(|| self.something_beside(&effect));
        let said = beside.as_ref().map(|(what, _)| what);
        let what = arguments.join(" ");
        say(&format!(
            "{}: {what}, killed after {killed_after:?}; beside {said:?}; a keeper killed: {keeper:?}",
            self.round
        ));
        let begun = Instant::now();
        let mut command = self.stage.world.nacre.command(&arguments);
        let mut nacre = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut keeper_due = keeper.as_ref().map(|_| keeper_after);
        let status = loop {
            if let Some(status) = nacre.try_wait().unwrap() {
                break status;
            }
            let now = begun.elapsed();
            if keeper_due.is_some_and(|due| now >= due) {
                keeper_due = None;
                let id = keeper.as_deref().unwrap_or_default();
                if let Some((Some(process), _)) = self.stage.processes(id) {
                    process.kill();
                }
            }
            if killed_after.is_some_and(|due| now >= due) {
                nacre.kill().unwrap();
                break nacre.wait().unwrap();
            }
            assert!(now < PATIENCE, "{arguments:?} hangs");
            std::thread::yield_now();
        };
        if let Some((_, other)) = &mut beside {
            if self.chance.one_in(2) {
                let _ = other.kill();
            }
            assert!(wait_within(other, PATIENCE).is_some(), "{beside:?} hangs");
        }
        if !status.success() && self.chance.one_in(3) {
            self.a_recovery_is_killed_too();
        }
        say(&format!("   {status}"));
        self.model.compare(&self.stage, &effect, status.success());
    }

    /// Another nacre process on the same home, with something that takes nothing away.
    fn something_beside(&mut self, effect: &Effect) -> (String, Child) {
        let mut others = self.others();
        if let Effect::Write { to, .. } = effect {
            // A command in a sandbox that is paused under it waits for the resume, rightly.
            others.retain(|id| id != to);
        }
        let id = self.chance.pick(&others).cloned();
        let what = match (self.chance.below(4), id) {
            (0, Some(id)) => format!("sandbox pause {id}"),
            (1, Some(id)) => format!("sandbox resume {id}"),
            (2, Some(id)) => format!("sandbox snapshot {id}"),
            _ => "storage gc".to_owned(),
        };
        let arguments: Vec<&str> = what.split(' ').collect();
        let child = self.stage.spawn(None, &arguments);
        (what, child)
    }

    fn a_recovery_is_killed_too(&mut self) {
        let delay = self.chance.at_most(MOST_DELAY / 2);
        let begun = Instant::now();
        let mut nacre = self.stage.spawn(None, &["sandbox", "ls"]);
        while begun.elapsed() < delay && nacre.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let _ = nacre.kill();
        nacre.wait().unwrap();
    }

    fn choose(&mut self) -> (Vec<String>, Effect) {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let others = self.others();
        let victim = self.chance.pick(&others).cloned();
        let room = MOST_SANDBOXES - others.len();
        let Some(id) = victim.filter(|_| room == 0 || !self.chance.one_in(4)) else {
            return self.create();
        };
        match self.chance.below(14) {
            0 | 1 => (words(&format!("sandbox pause {id}")), Effect::Nothing),
            2 | 3 => (words(&format!("sandbox resume {id}")), Effect::Nothing),
            4 => (words(&format!("sandbox snapshot {id}")), Effect::Nothing),
            5 => (words(&format!("sandbox stop {id}")), Effect::Nothing),
            6 | 7 if room > 0 => {
                let count = 1 + self.chance.below(room);
                (
                    words(&format!("sandbox fork {id} -n {count}")),
                    Effect::Fork { of: id, count },
                )
            }
            8 if room < 2 => (words(&format!("sandbox rm {id}")), Effect::Remove(id)),
            9 => (words("storage gc"), Effect::Nothing),
            10 if self.model.snapshots.len() > 3 => self.remove_a_snapshot(),
            11 => self.copy(id),
            _ => self.write(id),
        }
    }

    fn create(&mut self) -> (Vec<String>, Effect) {
        let snapshots: Vec<String> = self.model.snapshots.keys().cloned().collect();
        let from = self
            .chance
            .pick(&snapshots)
            .filter(|_| self.round.is_multiple_of(2));
        let files = from
            .map(|id| self.model.snapshots[id].clone())
            .unwrap_or_default();
        let from = from.map_or("host", String::as_str);
        let name = format!("n{}", self.round);
        let arguments = ["sandbox", "create", "--from", from, "--name", &name];
        (arguments.map(str::to_owned).to_vec(), Effect::Create(files))
    }

    fn remove_a_snapshot(&mut self) -> (Vec<String>, Effect) {
        let snapshots: Vec<String> = self.model.snapshots.keys().cloned().collect();
        let id = self.chance.pick(&snapshots).cloned().unwrap();
        (
            ["snapshot", "rm", &id].map(str::to_owned).to_vec(),
            Effect::RemoveSnapshot(id),
        )
    }

    fn write(&mut self, id: String) -> (Vec<String>, Effect) {
        let (file, content) = (
            format!("f{}", self.round),
            format!("written in round {}", self.round),
        );
        let script = format!("printf '%s' '{content}' > /srv/{file}");
        let arguments = ["sandbox", "exec", &id, "--", "sh", "-c", &script]
            .map(str::to_owned)
            .to_vec();
        (
            arguments,
            Effect::Write {
                to: id,
                file,
                content,
            },
        )
    }

    fn copy(&mut self, id: String) -> (Vec<String>, Effect) {
        let (file, content) = (
            format!("f{}", self.round),
            format!("copied in round {}", self.round),
        );
        let source = self.stage.home("source");
        fs_err::write(&source, &content).unwrap();
        let place = format!("{id}:/srv/{file}");
        let arguments = ["sandbox", "cp", source.as_str(), &place]
            .map(str::to_owned)
            .to_vec();
        (
            arguments,
            Effect::Write {
                to: id,
                file,
                content,
            },
        )
    }

    fn others(&self) -> Vec<String> {
        self.model
            .sandboxes
            .keys()
            .filter(|id| **id != self.stage.bystander)
            .cloned()
            .collect()
    }

    fn any_sandbox(&mut self) -> Option<String> {
        let all: Vec<String> = self.model.sandboxes.keys().cloned().collect();
        self.chance.pick(&all).cloned()
    }

    /// Each, from the state it was left in, takes a command, is stopped, and its snapshot starts.
    fn every_survivor_is_usable(&self) {
        for id in self.others() {
            if self.stage.status(&id).as_deref() == Some("paused") {
                self.stage.ok(&["sandbox", "resume", &id]);
            }
            if self.stage.status(&id).as_deref() == Some("running") {
                self.stage.says(&id, "true");
            }
            let snapshot = self.stage.ok(&["sandbox", "stop", &id])["snapshot"].clone();
            let heir = self
                .stage
                .ok(&["sandbox", "create", "--from", snapshot.as_str().unwrap()]);
            let heir = heir["id"].as_str().unwrap();
            for (name, content) in &self.model.sandboxes[&id] {
                assert_eq!(
                    self.stage.says(heir, &format!("cat /srv/{name}")),
                    *content,
                    "{name} of {id}"
                );
            }
        }
        self.stage.is_sound("after the storm");
    }
}

#[expect(clippy::disallowed_methods, reason = "a tester's switch")]
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[expect(
    clippy::print_stderr,
    reason = "shown with a failure, so that it can be had again"
)]
fn say(line: &str) {
    eprintln!("{line}");
}
