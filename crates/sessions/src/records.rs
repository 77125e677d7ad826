//! Sessions as records: made, copied, deleted.

use model::session::{Lifecycle, State, StopReason};
use model::{Id, Organisation, Session, SnapshotId, User};
use store::sessions::{Channel, NewSession, Type};

use crate::{HubError, Sessions, Spec};

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

impl Sessions {
    /// A record and nothing more: its first sandbox is made when somebody asks for it.
    pub async fn create(&self, new: New) -> Result<Id<Session>, HubError> {
        let planned = self.plan(new)?;
        let mut tx = self.shared().store.begin().await?;
        tx.create_session(&planned).await?;
        tx.commit().await?;
        Ok(planned.id)
    }

    /// The record, for whoever writes more than that at once.
    pub fn plan(&self, new: New) -> Result<NewSession, HubError> {
        let shared = self.shared();
        if !shared.providers.contains_key(&new.provider) {
            return Err(HubError::NoProvider(new.provider));
        }
        Ok(NewSession {
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
        })
    }

    /// Another session that goes on from the files of this one: as they are now, or as they were in
    /// a snapshot of it. What was said stays with the parent.
    pub async fn fork(
        &self,
        session: Id<Session>,
        snapshot: Option<SnapshotId>,
        forked_by: Option<Id<User>>,
    ) -> Result<Id<Session>, HubError> {
        let planned = self.plan_fork(session, snapshot, forked_by).await?;
        let mut tx = self.shared().store.begin().await?;
        tx.create_session(&planned).await?;
        tx.commit().await?;
        Ok(planned.id)
    }

    /// Its record, for whoever writes more than that at once.
    pub async fn plan_fork(
        &self,
        session: Id<Session>,
        snapshot: Option<SnapshotId>,
        forked_by: Option<Id<User>>,
    ) -> Result<NewSession, HubError> {
        let shared = self.shared();
        let parent = shared.store.load_session(session).await?;
        let snapshot = match snapshot {
            Some(snapshot) => {
                let known = shared.store.find_snapshot(&snapshot.to_string()).await?;
                let is_its = known.is_some_and(|known| {
                    known.session == Some(session) && known.removed_at.is_none()
                });
                if !is_its {
                    return Err(store::Error::NotFound("snapshot of this session").into());
                }
                Some(snapshot)
            }
            None => self.newest_of(session, &parent.state.lifecycle()?).await?,
        };
        let state = snapshot.map_or_else(Lifecycle::new, Lifecycle::forked);
        Ok(NewSession {
            id: Id::new(&*shared.clock),
            organisation: parent.organisation,
            created_by: forked_by.or(parent.created_by),
            parent: Some(session),
            title: parent.title,
            r#type: parent.r#type,
            channel: parent.channel,
            provider: parent.provider,
            spec: inherited(&parent.spec)?,
            state: state.into(),
            at: shared.clock.now(),
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
            return handle.snapshot().await.map(Some);
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

    /// Ends it, and forgets its record with all that was said. Its disk is sealed first, and kept
    /// for as long as disks without a record are.
    pub async fn delete(&self, session: Id<Session>) -> Result<(), HubError> {
        let handle = self.open(session).await?;
        handle.stop(StopReason::Manual).await?;
        handle.is_over().await?;
        // From here on its hub can write nothing more.
        let shared = self.shared();
        let now = shared.clock.now();
        let until = shared.lease_end(now);
        let fence = shared
            .store
            .take_over(session, &shared.owner, now, until)
            .await?;
        handle.let_go().await;
        let mut tx = shared.store.begin().await?;
        tx.fenced(fence).await?.delete().await?;
        tx.commit().await?;
        Ok(())
    }
}

/// Whether nothing is left to be done for it.
pub(crate) fn is_over(lifecycle: &Lifecycle) -> bool {
    matches!(&lifecycle.state, State::Stopped(stopped) if stopped.ending.is_empty())
}

/// What was let through for a time was let through for the parent.
fn inherited(spec: &str) -> Result<String, HubError> {
    let mut spec: Spec =
        serde_json::from_str(spec).map_err(|error| HubError::BadSpec(error.to_string()))?;
    spec.machine.passes.clear();
    Ok(write(&spec))
}

fn write(spec: &Spec) -> String {
    serde_json::to_string(spec).unwrap_or_default()
}
