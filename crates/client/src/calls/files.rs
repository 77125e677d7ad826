//! Bytes, either way.

use bytes::Bytes;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Response};
use wire::v1::{FileList, Upload};

use super::{SESSIONS, V1};
use crate::call::{accepted, lost, shown, whole};
use crate::{Client, ClientError, RequestBody};

/// A file on its way here.
#[derive(Debug)]
pub struct Download {
    response: Response,
}

impl Download {
    /// In bytes, where the server knows.
    pub fn size(&self) -> Option<u64> {
        self.response.content_length()
    }

    /// The next piece; none at the end. A line that breaks is an error, and no end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let next = self.response.chunk().await;
        next.map_err(|error| lost(shown(self.response.url()), error))
    }
}

impl Client {
    /// A file, piece by piece, however long it is.
    pub async fn download(&self, session: &str, path: &str) -> Result<Download, ClientError> {
        let response = self
            .call(Method::GET, &[V1, SESSIONS, session, "files"])
            .query("path", Some(path))
            .patient()
            .response()
            .await?;
        Ok(Download { response })
    }

    /// A file that is not longer than the limit.
    pub async fn read_file(
        &self,
        session: &str,
        path: &str,
        limit: usize,
    ) -> Result<Bytes, ClientError> {
        let download = self.download(session, path).await?;
        whole(download.response, limit).await
    }

    /// Bytes, or a stream of them ([`RequestBody::wrap_stream`]).
    pub async fn write_file(
        &self,
        session: &str,
        path: &str,
        content: impl Into<RequestBody>,
    ) -> Result<(), ClientError> {
        let mut url = self.at(&[V1, SESSIONS, session, "files"])?;
        url.query_pairs_mut().append_pair("path", path);
        let at = shown(&url);
        let sending = self.http().put(url).body(content);
        let sending = sending.header(CONTENT_TYPE, "application/octet-stream");
        let response = sending.send().await.map_err(|error| lost(at, error))?;
        accepted(response).await.map(drop)
    }

    pub async fn list_files(&self, session: &str, path: &str) -> Result<FileList, ClientError> {
        self.call(Method::GET, &[V1, SESSIONS, session, "files", "list"])
            .query("path", Some(path))
            .answer()
            .await
    }

    /// A git bundle or an attachment, to be named later.
    pub async fn upload(&self, content: Bytes) -> Result<Upload, ClientError> {
        self.call(Method::POST, &[V1, "uploads"])
            .bytes(content)
            .patient()
            .answer()
            .await
    }

    /// As [`Client::upload`], for what does not fit into memory. Not tried again.
    pub async fn upload_stream(&self, content: RequestBody) -> Result<Upload, ClientError> {
        let url = self.at(&[V1, "uploads"])?;
        let at = shown(&url);
        let sending = self.http().post(url).body(content);
        let sending = sending.header(CONTENT_TYPE, "application/octet-stream");
        let response = sending.send().await;
        let response = response.map_err(|error| lost(at.clone(), error))?;
        let body = whole(accepted(response).await?, 1 << 20).await?;
        serde_json::from_slice(&body).map_err(|error| ClientError::Protocol {
            url: at,
            detail: error.to_string(),
        })
    }
}
