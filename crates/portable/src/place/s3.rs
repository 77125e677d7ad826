//! An S3-compatible store. Blobs are small, so each is sent by one request, which puts it there
//! whole or not at all; several are under way at once.

use std::io;
use std::str::FromStr as _;

use futures::{StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::{Sent, Source, Target, blob_path, choose};
use crate::index::{MAX_INDEX, MAX_PACKED};
use crate::{Blob, Index, invalid};

/// Requests under way at once.
const AT_ONCE: usize = 4;

/// A bucket and a prefix in it. Used from threads that may block, while the runtime runs elsewhere.
#[derive(Debug, Clone)]
pub struct Store {
    bucket: std::sync::Arc<AmazonS3>,
    prefix: Path,
    runtime: Handle,
}

impl Store {
    /// `settings` are the variables that other S3 clients read: `AWS_ENDPOINT_URL`,
    /// `AWS_ACCESS_KEY_ID` and so on; those that mean nothing here are left aside.
    pub fn open(
        bucket: &str,
        prefix: &str,
        settings: impl IntoIterator<Item = (String, String)>,
        runtime: Handle,
    ) -> io::Result<Self> {
        let mut builder = AmazonS3Builder::new().with_bucket_name(bucket);
        for (name, value) in settings {
            if let Ok(key) = AmazonS3ConfigKey::from_str(&name.to_ascii_lowercase()) {
                builder = builder.with_config(key, value);
            }
        }
        let client = builder.build().map_err(|error| {
            invalid(format!("the settings for s3://{bucket} are wrong: {error}"))
        })?;
        Ok(Self {
            bucket: std::sync::Arc::new(client),
            prefix: Path::from(prefix),
            runtime,
        })
    }

    fn path(&self, below: &str) -> Path {
        let prefix = self.prefix.as_ref();
        Path::from(format!("{prefix}/{below}"))
    }
}

#[derive(Debug)]
pub struct WriteStore {
    store: Store,
    under_way: JoinSet<io::Result<()>>,
    sent: Sent,
}

impl WriteStore {
    pub fn new(store: Store) -> Self {
        Self {
            store,
            under_way: JoinSet::new(),
            sent: Sent::default(),
        }
    }

    /// Waits until at most so many requests are under way.
    fn settle(&mut self, most: usize) -> io::Result<()> {
        while self.under_way.len() > most {
            if let Some(done) = self.store.runtime.block_on(self.under_way.join_next()) {
                done.map_err(io::Error::other)??;
            }
        }
        Ok(())
    }
}

impl Target for WriteStore {
    fn has(&mut self, blob: &Blob) -> io::Result<bool> {
        let path = self.store.path(&blob_path(blob));
        match self.store.runtime.block_on(self.store.bucket.head(&path)) {
            Ok(found) => Ok(found.size == blob.size),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(said(&error)),
        }
    }

    fn put(&mut self, blob: &Blob, bytes: Vec<u8>) -> io::Result<()> {
        if self.has(blob)? {
            self.sent.found += 1;
            return Ok(());
        }
        self.settle(AT_ONCE - 1)?;
        self.sent.blobs += 1;
        self.sent.bytes += blob.size;
        let (store, path) = (self.store.bucket.clone(), self.store.path(&blob_path(blob)));
        let work = async move {
            let put = store.put(&path, bytes.into()).await;
            put.map(|_| ()).map_err(|error| said(&error))
        };
        self.under_way.spawn_on(work, &self.store.runtime);
        Ok(())
    }

    fn finish(&mut self, index: &Index) -> io::Result<()> {
        self.settle(0)?;
        let path = self
            .store
            .path(&format!("snapshots/{}.json", index.snapshot.id));
        let put = self.store.bucket.put(&path, index.to_json().into());
        self.store
            .runtime
            .block_on(put)
            .map(|_| ())
            .map_err(|error| said(&error))
    }

    fn found(&mut self, blobs: u64) {
        self.sent.found += blobs;
    }

    fn sent(&self) -> Sent {
        self.sent
    }
}

#[derive(Debug)]
pub struct ReadStore {
    store: Store,
    wanted: Option<String>,
}

impl ReadStore {
    pub fn new(store: Store, wanted: Option<&str>) -> Self {
        Self {
            store,
            wanted: wanted.map(str::to_owned),
        }
    }
}

impl Source for ReadStore {
    fn index(&mut self) -> io::Result<Index> {
        let store = self.store.clone();
        let found = self.store.runtime.block_on(async move {
            let prefix = store.path("snapshots");
            let listed: Vec<_> = store
                .bucket
                .list(Some(&prefix))
                .try_collect()
                .await
                .map_err(|error| said(&error))?;
            let mut found = Vec::new();
            for object in listed {
                if object.size > MAX_INDEX {
                    return Err(invalid(format!("{} is absurdly large", object.location)));
                }
                let text = get(&store.bucket, &object.location, MAX_INDEX).await?;
                found.push(Index::parse(&text).map_err(|error| {
                    invalid(format!("{} cannot be used: {error}", object.location))
                })?);
            }
            Ok(found)
        })?;
        choose(found, self.wanted.as_deref())
    }

    fn get_all(
        &mut self,
        blobs: &[Blob],
        each: &mut dyn FnMut(&Blob, &[u8]) -> io::Result<bool>,
    ) -> io::Result<()> {
        let store = &self.store;
        let requests = blobs.iter().map(|blob| {
            let path = store.path(&blob_path(blob));
            async move { Ok::<_, io::Error>((blob, get(&store.bucket, &path, MAX_PACKED).await?)) }
        });
        let mut answers = Box::pin(futures::stream::iter(requests).buffered(AT_ONCE));
        while let Some(answer) = store.runtime.block_on(answers.next()) {
            let (blob, bytes) = answer?;
            if !each(blob, &bytes)? {
                break;
            }
        }
        Ok(())
    }
}

async fn get(store: &AmazonS3, path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let found = store.get(path).await.map_err(|error| said(&error))?;
    if found.meta.size > most {
        return Err(invalid(format!("{path} is absurdly large")));
    }
    let bytes = found.bytes().await.map_err(|error| said(&error))?;
    Ok(bytes.into())
}

fn said(error: &object_store::Error) -> io::Error {
    match error {
        object_store::Error::NotFound { path, .. } => invalid(format!("{path} is not there")),
        object_store::Error::PermissionDenied { .. }
        | object_store::Error::Unauthenticated { .. } => {
            invalid(format!("the store refused: {error}"))
        }
        error => io::Error::other(error.to_string()),
    }
}
