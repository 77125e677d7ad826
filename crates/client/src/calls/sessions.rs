use reqwest::Method;
use wire::v1::{
    ChangeSession, Fork, Message, NewSession, NewSnapshot, Page, Receipt, Recover, Session,
    SessionWithReceipt, SnapshotInfo, Status,
};

use super::{MOST_PAGES, Paging, SESSIONS, V1};
use crate::{Client, ClientError};

/// Which sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    pub status: Option<Status>,
    /// With this in their title.
    pub search: Option<String>,
    /// Archived ones instead of the others.
    pub archived: bool,
    pub paging: Paging,
}

impl Client {
    /// A session; without a sandbox, unless `start` is said.
    pub async fn create_session(&self, new: &NewSession) -> Result<Session, ClientError> {
        self.call(Method::POST, &[V1, SESSIONS])
            .json(new)
            .once()
            .answer()
            .await
    }

    /// Some of them, and where to go on.
    pub async fn sessions(&self, filter: &SessionFilter) -> Result<Page<Session>, ClientError> {
        let call = self
            .call(Method::GET, &[V1, SESSIONS])
            .query("status", filter.status.map(word))
            .query("search", filter.search.as_deref())
            .query("archived", filter.archived.then_some("true"));
        filter.paging.of(call).answer().await
    }

    /// All of them, page by page.
    pub async fn all_sessions(&self, status: Option<Status>) -> Result<Vec<Session>, ClientError> {
        let filter = SessionFilter {
            status,
            ..SessionFilter::default()
        };
        self.sessions_to_the_end(filter).await
    }

    /// As [`Client::all_sessions`], from wherever the filter begins.
    pub async fn sessions_to_the_end(
        &self,
        mut filter: SessionFilter,
    ) -> Result<Vec<Session>, ClientError> {
        let mut all = Vec::new();
        for _ in 0..MOST_PAGES {
            let page = self.sessions(&filter).await?;
            all.extend(page.items);
            filter.paging.cursor = page.next_cursor;
            if filter.paging.cursor.is_none() {
                break;
            }
        }
        Ok(all)
    }

    pub async fn session(&self, id: &str) -> Result<Session, ClientError> {
        self.call(Method::GET, &[V1, SESSIONS, id]).answer().await
    }

    pub async fn change_session(
        &self,
        id: &str,
        change: &ChangeSession,
    ) -> Result<Session, ClientError> {
        self.call(Method::PATCH, &[V1, SESSIONS, id])
            .json(change)
            .answer()
            .await
    }

    /// Stops and forgets it.
    pub async fn delete_session(&self, id: &str) -> Result<(), ClientError> {
        self.call(Method::DELETE, &[V1, SESSIONS, id])
            .patient()
            .done()
            .await
    }

    /// What was kept is in the receipt.
    pub async fn pause(&self, id: &str) -> Result<SessionWithReceipt, ClientError> {
        self.call(Method::POST, &[V1, SESSIONS, id, "pause"])
            .once()
            .patient()
            .answer()
            .await
    }

    pub async fn resume(&self, id: &str) -> Result<Session, ClientError> {
        self.call(Method::POST, &[V1, SESSIONS, id, "resume"])
            .once()
            .patient()
            .answer()
            .await
    }

    /// To a new sandbox, with all that is on its disk.
    pub async fn migrate(&self, id: &str) -> Result<Session, ClientError> {
        self.call(Method::POST, &[V1, SESSIONS, id, "migrate"])
            .once()
            .patient()
            .answer()
            .await
    }

    /// For good; what was kept is in the receipt.
    pub async fn stop(&self, id: &str) -> Result<SessionWithReceipt, ClientError> {
        self.call(Method::POST, &[V1, SESSIONS, id, "stop"])
            .once()
            .patient()
            .answer()
            .await
    }

    /// Another session that begins where this one is, or was.
    pub async fn fork(&self, id: &str, fork: &Fork) -> Result<Session, ClientError> {
        self.call(Method::POST, &[V1, SESSIONS, id, "fork"])
            .json(fork)
            .once()
            .patient()
            .answer()
            .await
    }

    /// Leaves `degraded`, with consent to what was lost.
    pub async fn recover(&self, id: &str) -> Result<Session, ClientError> {
        self.call(Method::POST, &[V1, SESSIONS, id, "recover"])
            .json(&Recover { accept: true })
            .once()
            .patient()
            .answer()
            .await
    }

    pub async fn create_snapshot(
        &self,
        id: &str,
        new: &NewSnapshot,
    ) -> Result<Receipt, ClientError> {
        self.call(Method::POST, &[V1, SESSIONS, id, "snapshots"])
            .json(new)
            .patient()
            .answer()
            .await
    }

    pub async fn snapshots_of(
        &self,
        id: &str,
        paging: &Paging,
    ) -> Result<Page<SnapshotInfo>, ClientError> {
        let call = self.call(Method::GET, &[V1, SESSIONS, id, "snapshots"]);
        paging.of(call).answer().await
    }

    /// Those of all sessions.
    pub async fn snapshots(&self, paging: &Paging) -> Result<Page<SnapshotInfo>, ClientError> {
        let call = self.call(Method::GET, &[V1, "snapshots"]);
        paging.of(call).answer().await
    }

    pub async fn snapshot(&self, id: &str) -> Result<SnapshotInfo, ClientError> {
        self.call(Method::GET, &[V1, "snapshots", id])
            .answer()
            .await
    }

    /// The transcript. It needs no sandbox.
    pub async fn messages(&self, id: &str, paging: &Paging) -> Result<Page<Message>, ClientError> {
        let call = self.call(Method::GET, &[V1, SESSIONS, id, "messages"]);
        paging.of(call).answer().await
    }
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Starting => "starting",
        Status::Running => "running",
        Status::Migrating => "migrating",
        Status::Paused => "paused",
        Status::Suspended => "suspended",
        Status::Stopped => "stopped",
        Status::Unknown => "unknown",
    }
}
