//! Who asks, what they have, and what the server offers.

use reqwest::Method;
use wire::v1::{
    Caller, ModelList, NewOrganisation, NewRepository, NewSecret, NewToken, Organisation, Page,
    ProviderList, Repository, SecretInfo, Token, TokenMade,
};

use super::{Paging, V1, all};
use crate::{Client, ClientError};

impl Client {
    pub async fn me(&self) -> Result<Caller, ClientError> {
        self.call(Method::GET, &[V1, "me"]).answer().await
    }

    pub async fn organisations(&self, paging: &Paging) -> Result<Page<Organisation>, ClientError> {
        let call = self.call(Method::GET, &[V1, "orgs"]);
        paging.of(call).answer().await
    }

    pub async fn create_organisation(
        &self,
        new: &NewOrganisation,
    ) -> Result<Organisation, ClientError> {
        self.call(Method::POST, &[V1, "orgs"])
            .json(new)
            .answer()
            .await
    }

    pub async fn tokens(&self, paging: &Paging) -> Result<Page<Token>, ClientError> {
        let call = self.call(Method::GET, &[V1, "tokens"]);
        paging.of(call).answer().await
    }

    /// All of them, page by page.
    pub async fn all_tokens(&self) -> Result<Vec<Token>, ClientError> {
        all(async |paging: &Paging| self.tokens(paging).await).await
    }

    /// The token is in this answer, and in no other.
    pub async fn create_token(&self, new: &NewToken) -> Result<TokenMade, ClientError> {
        self.call(Method::POST, &[V1, "tokens"])
            .json(new)
            .answer()
            .await
    }

    pub async fn revoke_token(&self, id: &str) -> Result<(), ClientError> {
        self.call(Method::DELETE, &[V1, "tokens", id]).done().await
    }

    pub async fn secrets(&self, paging: &Paging) -> Result<Page<SecretInfo>, ClientError> {
        let call = self.call(Method::GET, &[V1, "secrets"]);
        paging.of(call).answer().await
    }

    /// All of them, page by page.
    pub async fn all_secrets(&self) -> Result<Vec<SecretInfo>, ClientError> {
        all(async |paging: &Paging| self.secrets(paging).await).await
    }

    /// One of the same name and scope is replaced.
    pub async fn put_secret(&self, new: &NewSecret) -> Result<SecretInfo, ClientError> {
        self.call(Method::PUT, &[V1, "secrets"])
            .json(new)
            .once()
            .answer()
            .await
    }

    pub async fn delete_secret(&self, id: &str) -> Result<(), ClientError> {
        self.call(Method::DELETE, &[V1, "secrets", id]).done().await
    }

    pub async fn repositories(&self, paging: &Paging) -> Result<Page<Repository>, ClientError> {
        let call = self.call(Method::GET, &[V1, "repos"]);
        paging.of(call).answer().await
    }

    /// All of them, page by page.
    pub async fn all_repositories(&self) -> Result<Vec<Repository>, ClientError> {
        all(async |paging: &Paging| self.repositories(paging).await).await
    }

    pub async fn add_repository(&self, new: &NewRepository) -> Result<Repository, ClientError> {
        self.call(Method::POST, &[V1, "repos"])
            .json(new)
            .answer()
            .await
    }

    pub async fn remove_repository(&self, id: &str) -> Result<(), ClientError> {
        self.call(Method::DELETE, &[V1, "repos", id]).done().await
    }

    pub async fn providers(&self) -> Result<ProviderList, ClientError> {
        self.call(Method::GET, &[V1, "providers"]).answer().await
    }

    pub async fn models(&self) -> Result<ModelList, ClientError> {
        self.call(Method::GET, &[V1, "models"]).answer().await
    }
}
