//! Files that are being received.

use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::{Bytes, HttpBody};
use camino::Utf8PathBuf;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use crate::body;
use crate::problem::{Answer, Problem};

/// A file that goes again unless it is kept.
#[derive(Debug)]
pub(crate) struct Draft {
    path: Utf8PathBuf,
    is_kept: AtomicBool,
}

/// What came, all of it.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) size: u64,
    /// SHA-256, in hexadecimal digits.
    pub(crate) digest: String,
}

impl Draft {
    pub(crate) fn new(path: Utf8PathBuf) -> Self {
        Self {
            path,
            is_kept: false.into(),
        }
    }

    /// Until the end, unless `may_be` says that the next piece does not fit any more.
    pub(crate) async fn receive<B>(
        &self,
        mut body: B,
        mut may_be: impl FnMut(u64) -> Answer<()>,
    ) -> Answer<Received>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        if let Some(folder) = self.path.parent() {
            fs_err::tokio::create_dir_all(folder)
                .await
                .map_err(Problem::internal)?;
        }
        let mut file = fs_err::tokio::File::create(&self.path)
            .await
            .map_err(Problem::internal)?;
        let (mut size, mut digest) = (0, Sha256::new());
        while let Some(piece) = body::next(&mut body).await? {
            may_be(piece.len() as u64)?;
            size += piece.len() as u64;
            digest.update(&piece);
            file.write_all(&piece).await.map_err(Problem::internal)?;
        }
        file.sync_all().await.map_err(Problem::internal)?;
        let digits = digest.finalize();
        let digits = digits.iter().map(|byte| format!("{byte:02x}"));
        Ok(Received {
            size,
            digest: digits.collect(),
        })
    }

    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_kept.load(Ordering::Relaxed) {
            // It may never have come to be.
            let _ = fs_err::remove_file(&self.path);
        }
    }
}
