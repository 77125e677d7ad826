//! What agents left and asked for, what came of a session, and who belongs to an organisation.

use bytes::Bytes;
use reqwest::Method;
use serde_json::Value;
use wire::v1::{
    Action, ActionList, Decision, Evidence, Member, MemberPut, NewMember, Page, Session, Setup,
    TunnelList,
};

use super::{Paging, SESSIONS, V1};
use crate::call::whole;
use crate::{Client, ClientError};

impl Client {
    /// What the session showed for its work.
    pub async fn evidence(&self, id: &str, paging: &Paging) -> Result<Page<Evidence>, ClientError> {
        let call = self.call(Method::GET, &[V1, SESSIONS, id, "evidence"]);
        paging.of(call).answer().await
    }

    /// One of its files, if it is not longer than the limit.
    pub async fn read_evidence(
        &self,
        id: &str,
        evidence: &str,
        limit: usize,
    ) -> Result<Bytes, ClientError> {
        let call = self.call(Method::GET, &[V1, SESSIONS, id, "evidence", evidence]);
        whole(call.patient().response().await?, limit).await
    }

    /// What its agent may ask for, and what it asked for.
    pub async fn actions(&self, id: &str, paging: &Paging) -> Result<ActionList, ClientError> {
        let call = self.call(Method::GET, &[V1, SESSIONS, id, "actions"]);
        paging.of(call).answer().await
    }

    /// Said twice it is done once.
    pub async fn approve(&self, id: &str, action: &str) -> Result<Action, ClientError> {
        let path = [V1, SESSIONS, id, "actions", action, "approve"];
        self.call(Method::POST, &path).same_again().answer().await
    }

    pub async fn deny(
        &self,
        id: &str,
        action: &str,
        said: &Decision,
    ) -> Result<Action, ClientError> {
        let path = [V1, SESSIONS, id, "actions", action, "deny"];
        let call = self.call(Method::POST, &path).json(said);
        call.same_again().answer().await
    }

    /// What a setup session found out.
    pub async fn setup(&self, id: &str) -> Result<Setup, ClientError> {
        self.call(Method::GET, &[V1, SESSIONS, id, "setup"])
            .answer()
            .await
    }

    /// Ports that somebody in its sandbox gave names.
    pub async fn tunnels(&self, id: &str) -> Result<TunnelList, ClientError> {
        self.call(Method::GET, &[V1, SESSIONS, id, "tunnels"])
            .patient()
            .answer()
            .await
    }

    /// Sessions that were made from it.
    pub async fn children(&self, id: &str, paging: &Paging) -> Result<Page<Session>, ClientError> {
        let call = self.call(Method::GET, &[V1, SESSIONS, id, "children"]);
        paging.of(call).answer().await
    }

    /// What was said of pull requests: frames of its log.
    pub async fn pulls(&self, id: &str, paging: &Paging) -> Result<Page<Value>, ClientError> {
        let call = self.call(Method::GET, &[V1, SESSIONS, id, "pulls"]);
        paging.of(call).answer().await
    }

    pub async fn members(
        &self,
        organisation: &str,
        paging: &Paging,
    ) -> Result<Page<Member>, ClientError> {
        let call = self.call(Method::GET, &[V1, "orgs", organisation, "members"]);
        paging.of(call).answer().await
    }

    /// Makes somebody a member, or gives one another role.
    pub async fn put_member(
        &self,
        organisation: &str,
        new: &NewMember,
    ) -> Result<MemberPut, ClientError> {
        self.call(Method::PUT, &[V1, "orgs", organisation, "members"])
            .json(new)
            .answer()
            .await
    }

    pub async fn remove_member(&self, organisation: &str, user: &str) -> Result<(), ClientError> {
        self.call(Method::DELETE, &[V1, "orgs", organisation, "members", user])
            .done()
            .await
    }
}
