//! Sessions as records: made, copied, deleted.

use model::session::{Lifecycle, State, StopReason};
use model::{Id, Organisation, Session, SnapshotId, User};
use store::sessions::{Channel, NewSession, Type};
use store::{NewEvent, Tx, limits};

use crate::{HubError, Sessions, Spec, inherited};

/// What a session is to be.
#[derive(Debug, Clone)]
pub struct New {
    pub organisation: Id<Organisation>,
    pub created_by: Option<Id<User>>,
    pub title: String,
    pub r#type: Type,
    pub channel: Channel,
    pub provider: String,
    pub spec: Spec,
}

/// A session that is about to be, with what it begins with.
#[derive(Debug)]
pub struct Planned {
    pub record: NewSession,
    said: Vec<NewEvent>,
    /// The agent's conversations, by the names under which they are on its disk. One that is not
    /// there is begun anew by the agent, which is then told what was said.
    channels: Vec<store::channels::Channel>,
}

impl Planned {
    pub async fn write(&self, tx: &mut Tx) -> store::Result<()> {
        let at = self.record.at;
        let fence = tx.create_session(&self.record).await?;
        let mut session = tx.fenced(fence).await?;
        for channel in &self.channels {
            session.set_channel(channel, at).await?;
        }
        for some in self.said.chunks(limits::EVENTS_IN_A_WRITE) {
            session.append(some, at).await?;
        }
        Ok(())
    }
}

impl Sessions {
    /// A record and nothing more: its first sandbox is made when somebody asks for it.
    pub async fn create(&self, new: New) -> Result<Id<Session>, HubError> {
        self.write(&self.plan(new)?).await
    }

    async fn write(&self, planned: &Planned) -> Result<Id<Session>, HubError> {
        let mut tx = self.shared().store.begin().await?;
        planned.write(&mut tx).await?;
        tx.commit().await?;
        Ok(planned.record.id)
    }

    /// The record, for whoever writes more than that at once.
    pub fn plan(&self, new: New) -> Result<Planned, HubError> {
        let shared = self.shared();
        if !shared.providers.contains_key(&new.provider) {
            return Err(HubError::NoProvider(new.provider));
        }
        let record = NewSession {
            id: Id::new(&*shared.clock),
            organisation: new.organisation,
            created_by: new.created_by,
            parent: None,
            title: new.title,
            r#type: new.r#type,
            channel: new.channel,
            provider: new.provider,
            spec: write(&new.spec),
            state: Lifecycle::new().into(),
            at: shared.clock.now(),
        };
        Ok(Planned {
            record,
            said: Vec::new(),
            channels: Vec::new(),
        })
    }

    /// Another session that goes on from the files of this one: as they are now, or as they were in
    /// a snapshot of it. It begins with what was said by then, and its agent goes on with the
    /// conversations that are on that disk.
    pub async fn fork(
        &self,
        session: Id<Session>,
        snapshot: Option<SnapshotId>,
        forked_by: Option<Id<User>>,
    ) -> Result<Id<Session>, HubError> {
        let planned = self.plan_fork(session, snapshot, forked_by).await?;
        self.write(&planned).await
    }

    /// Its record, for whoever writes more than that at once.
    pub async fn plan_fork(
        &self,
        session: Id<Session>,
        snapshot: Option<SnapshotId>,
        forked_by: Option<Id<User>>,
    ) -> Result<Planned, HubError> {
        let shared = self.shared();
        let parent = shared.store.load_session(session).await?;
        let (snapshot, until) = if let Some(snapshot) = snapshot {
            let known = shared.store.find_snapshot(&snapshot.to_string()).await?;
            let its = known
                .filter(|known| known.session == Some(session) && known.removed_at.is_none())
                .ok_or(store::Error::NotFound("snapshot of this session"))?;
            (Some(snapshot), its.created_at)
        } else {
            let newest = self.newest_of(session, &parent.state.lifecycle()?).await?;
            (newest, shared.clock.now())
        };
        let state = snapshot.map_or_else(Lifecycle::new, Lifecycle::forked);
        let said = inherited::tell(&shared.store, session, until).await?;
        let channels = shared.store.channels(session).await?;
        let record = NewSession {
            id: Id::new(&*shared.clock),
            organisation: parent.organisation,
            created_by: forked_by.or(parent.created_by),
            parent: Some(session),
            title: parent.title,
            r#type: parent.r#type,
            channel: parent.channel,
            provider: parent.provider,
            spec: without_passes(&parent.spec)?,
            state: state.into(),
            at: shared.clock.now(),
        };
        Ok(Planned {
            record,
            said,
            channels,
        })
    }

    /// Its files as they are.
    async fn newest_of(
        &self,
        session: Id<Session>,
        lifecycle: &Lifecycle,
    ) -> Result<Option<SnapshotId>, HubError> {
        if lifecycle.whereabouts().is_some() {
            let handle = self.open(session).await?;
            return handle.fork_point().await.map(Some);
        }
        let is_being_sealed =
            matches!(&lifecycle.state, State::Stopped(stopped) if !stopped.ending.is_empty());
        if !is_being_sealed {
            return Ok(lifecycle.snapshot().cloned());
        }
        // Its last files are not named yet.
        let handle = self.open(session).await?;
        handle.is_over().await?;
        let sealed = self.shared().store.load_session(session).await?;
        Ok(sealed.state.lifecycle()?.snapshot().cloned())
    }

    /// Ends it, and forgets its record with all that was said. Its disk is sealed first; then what
    /// nobody asked to be kept, and no other session goes on from, is given back.
    pub async fn delete(&self, session: Id<Session>) -> Result<(), HubError> {
        let handle = self.open(session).await?;
        handle.stop(StopReason::Manual).await?;
        handle.is_over().await?;
        // From here on its hub can write nothing more, and nobody makes another.
        let shared = self.shared();
        let opening = shared.opening(session);
        let _nobody_opens_it = opening.gate.lock().await;
        let now = shared.clock.now();
        let until = shared.lease_end(now);
        let fence = shared
            .store
            .take_over(session, &shared.owner, now, until)
            .await?;
        handle.let_go().await;
        let mut tx = shared.store.begin().await?;
        tx.fenced(fence).await?.delete(now).await?;
        tx.commit().await?;
        self.collect_soon();
        Ok(())
    }
}

/// Whether nothing is left to be done for it.
pub(crate) fn is_over(lifecycle: &Lifecycle) -> bool {
    matches!(&lifecycle.state, State::Stopped(stopped) if stopped.ending.is_empty())
}

/// What was let through for a time was let through for the parent.
fn without_passes(spec: &str) -> Result<String, HubError> {
    let mut spec: Spec =
        serde_json::from_str(spec).map_err(|error| HubError::BadSpec(error.to_string()))?;
    spec.machine.passes.clear();
    Ok(write(&spec))
}

fn write(spec: &Spec) -> String {
    serde_json::to_string(spec).unwrap_or_default()
}
