//! After a blow: everything is started again, is waited for, and is compared.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use model::session::State;
use model::{Id, Session};
use provider::{SandboxId, SandboxState};
use store::prompts::Status;
use tokio::time::{sleep, timeout};

use super::{OWNER, Storm, Watched};
use crate::book::Book;
use crate::checks;
use crate::processes::{Running, ask};
use crate::protocol::{Answer, Deed, Request};

impl Storm {
    /// Everything is started again and left alone until it is still; then it is looked at.
    pub(super) async fn settle(
        &mut self,
        stalled: Option<Running>,
        had_faults: bool,
    ) -> Result<Vec<String>> {
        self.ground.mend().await?;
        let mut broken = Vec::new();
        if let Some(stalled) = stalled {
            // Another has its sessions as soon as its leases are over.
            let other = format!("another-{}", self.started);
            self.start_beside(&stalled, &other).await?;
            sleep(self.ground.pace().settings().lease).await;
            stalled.go_on()?;
            // Both live now, and each thinks of some sessions that they are its own.
            for _ in 0..5 {
                sleep(Duration::from_millis(20)).await;
                broken.extend(self.compare_owners(&stalled.socket).await);
            }
            stalled.kill().await?;
        } else if had_faults || self.server.is_none() {
            self.replace_server(OWNER, None).await?;
        }
        let patience = self.ground.pace().patience();
        if timeout(patience, self.is_still()).await.is_err() {
            return Ok(vec![format!(
                "it is not still after {patience:?}: {}",
                self.what_moves().await?
            )]);
        }
        let here = self.address.borrow().clone();
        broken.extend(self.compare_owners(&here).await);
        broken.extend(self.look().await?);
        // One under another name would keep its leases from the next.
        if self.server.is_some() && self.random.u8(..8) == 0 {
            self.replace_server(OWNER, None).await?;
        }
        Ok(broken)
    }

    /// One that stands still may hold a lock of SQLite's: then it goes on for a moment.
    async fn start_beside(&mut self, stalled: &Running, owner: &str) -> Result<()> {
        for _ in 0..20 {
            match self.start_server(owner, None).await {
                Err(error) if error.to_string().contains("locked") => {
                    stalled.go_on()?;
                    sleep(Duration::from_millis(5)).await;
                    self.stall(stalled).await?;
                }
                started => return started,
            }
        }
        self.start_server(owner, None).await
    }

    async fn is_still(&mut self) {
        let patience = Duration::from_millis(10);
        for id in self.prompts.keys().cloned().collect::<Vec<_>>() {
            while !self.is_asked(&id).await {
                sleep(patience).await;
            }
        }
        for id in self.sessions.keys().copied().collect::<Vec<_>>() {
            while !self.is_up_or_over(id).await {
                sleep(patience).await;
            }
        }
        for id in self.prompts.keys().cloned().collect::<Vec<_>>() {
            while !self.is_ended(&id).await.unwrap_or(false) {
                sleep(patience).await;
            }
        }
        let socket = self.address.borrow().clone();
        loop {
            ask(&socket, &Request::Sweep).await;
            if self.is_alive().await.unwrap_or(false) {
                return;
            }
            sleep(patience).await;
            for id in self.sessions.keys() {
                self.is_up_or_over(*id).await;
            }
        }
    }

    /// Every sandbox that serves a session runs, and no other does.
    async fn is_alive(&self) -> Result<bool> {
        let sandboxes = self.ground.provider().list(&[]).await?;
        if !checks::orphans(&self.store, &sandboxes).await?.is_empty() {
            return Ok(false);
        }
        let running = |id: SandboxId| {
            let found = sandboxes.iter().find(|sandbox| sandbox.id == id);
            found.is_some_and(|sandbox| sandbox.state == SandboxState::Running)
        };
        for id in self.sessions.keys() {
            let record = self.store.load_session(*id).await?;
            let place = record.state.lifecycle()?.place();
            if place.is_some_and(|place| !running(place.sandbox)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A prompt whose answer was lost is sent again, under its own name.
    async fn is_asked(&mut self, id: &str) -> bool {
        let Some(asked) = self.prompts.get(id) else {
            return true;
        };
        if asked.is_taken || asked.end.is_some() {
            return true;
        }
        let request = Request::Prompt {
            session: asked.session,
            id: id.to_owned(),
            content: asked.content.clone(),
            mode: asked.mode,
        };
        let socket = self.address.borrow().clone();
        match ask(&socket, &request).await {
            Some(Answer::Done) => {
                if let Some(asked) = self.prompts.get_mut(id) {
                    asked.is_taken = true;
                }
                true
            }
            // Its session was stopped before it was taken.
            Some(Answer::Refused(_)) => {
                self.prompts.remove(id);
                self.report.prompts -= 1;
                true
            }
            _ => false,
        }
    }

    async fn is_up_or_over(&self, session: Id<Session>) -> bool {
        let socket = self.address.borrow().clone();
        match ask(&socket, &Request::Do(session, Deed::Ensure)).await {
            Some(Answer::Done) => true,
            Some(Answer::Refused(code)) => code == "session-stopped",
            _ => false,
        }
    }

    async fn is_ended(&mut self, id: &str) -> Result<bool> {
        let Some(asked) = self.prompts.get_mut(id).filter(|a| a.end.is_none()) else {
            return Ok(true);
        };
        let Some(prompt) = self.store.find_prompt(asked.session, id).await? else {
            return Ok(false);
        };
        match prompt.status {
            Status::Queued | Status::Dispatched | Status::Accepted => return Ok(false),
            Status::Finished => self.report.finished += 1,
            Status::Failed => self.report.failed += 1,
            Status::Interrupted => self.report.interrupted += 1,
        }
        asked.end = Some(prompt.status);
        Ok(true)
    }

    /// For whoever has to find out why.
    async fn what_moves(&self) -> Result<String> {
        let mut told = Vec::new();
        for id in self.sessions.keys() {
            if let Some(record) = self.store.find_session(*id).await? {
                let state = record.state.state;
                told.push(format!("{id} (term {}): {state}", record.term));
            }
        }
        for (id, asked) in self.prompts.iter().filter(|(_, a)| a.end.is_none()) {
            let prompt = self.store.find_prompt(asked.session, id).await?;
            let status = prompt.map(|prompt| prompt.status.to_string());
            told.push(format!("prompt {id} of {}: {status:?}", asked.session));
        }
        let sandboxes = self.ground.provider().list(&[]).await.unwrap_or_default();
        told.extend(checks::orphans(&self.store, &sandboxes).await?);
        Ok(told.join("; "))
    }

    /// Compares everything with everything.
    async fn look(&mut self) -> Result<Vec<String>> {
        let mut broken = checks::overdue(&self.store).await?;
        let mut runs: BTreeMap<String, u64> = BTreeMap::new();
        let tag = self.tag();
        let runs_of_all = self.ground.runs().await?.into_iter();
        for run in runs_of_all.filter(|run| run.prompt.ends_with(&tag)) {
            // Every prompt of a storm has a name of its own.
            *runs.entry(run.prompt).or_default() += 1;
        }
        for (prompt, times) in runs.iter().filter(|(_, times)| **times > 1) {
            broken.push(format!("{prompt} ran {times} times"));
        }
        for (id, asked) in &self.prompts {
            if asked.end == Some(Status::Finished) && !runs.contains_key(id) {
                // One that was cancelled before it began did not run.
                let log = checks::log(&self.store, asked.session).await?;
                if checks::was_answered(&log, id) {
                    broken.push(format!("{id} was answered and never ran"));
                }
            }
        }
        let mut over = Vec::new();
        for (id, watched) in &self.sessions {
            let record = self.store.load_session(*id).await?;
            let (told, log) = self.caught_up(*id, watched, record.last_seq).await?;
            let found = checks::book(&told, &log);
            broken.extend(found.into_iter().map(|what| format!("{id}: {what}")));
            let lifecycle = record.state.lifecycle()?;
            if let State::Stopped(_) = lifecycle.state {
                over.push(*id);
            }
            let Some(place) = lifecycle.place() else {
                continue;
            };
            let kept = checks::files(&log);
            if kept.is_empty() {
                continue;
            }
            let found = checks::workspace(&*self.ground.provider(), place.sandbox).await?;
            for (path, words) in kept {
                self.report.files += 1;
                if found.get(&path) != Some(&words) {
                    broken.push(format!(
                        "{id}: {path} was acknowledged as `{words}` and is {:?}",
                        found.get(&path)
                    ));
                }
            }
        }
        for id in over {
            self.forget(id);
        }
        Ok(broken)
    }

    /// What the client was told, once it has all of the log, and the log. The log is read last: a
    /// session that is left alone still says that it pauses, or what its boot comes to.
    async fn caught_up(
        &self,
        session: Id<Session>,
        watched: &Watched,
        last: u64,
    ) -> Result<(Book, BTreeMap<u64, String>)> {
        let has_all = async {
            while watched.book().last() < last {
                sleep(Duration::from_millis(2)).await;
            }
        };
        let has_all = timeout(self.ground.pace().patience(), has_all).await;
        has_all.with_context(|| format!("the client of {session} does not get all there is"))?;
        let told = watched.book().clone();
        Ok((told, checks::log(&self.store, session).await?))
    }

    pub(super) fn forget(&mut self, session: Id<Session>) {
        self.prompts.retain(|_, asked| asked.session != session);
        if let Some(watched) = self.sessions.remove(&session) {
            let book = watched.book();
            self.report.frames += book.numbered.len() as u64;
            self.report.deltas += book.deltas;
        }
    }
}
