use std::io::{self, Write as _};

use camino::{Utf8Path, Utf8PathBuf};

use super::aside::Aside;
use super::{Sent, Source, Target, blob_path, choose};
use crate::index::MAX_INDEX;
use crate::{Blob, Index, invalid};

#[derive(Debug)]
pub struct WriteDirectory {
    root: Utf8PathBuf,
    sent: Sent,
}

impl WriteDirectory {
    pub fn open(root: &Utf8Path) -> io::Result<Self> {
        for name in ["blobs/sha256", "snapshots"] {
            fs_err::create_dir_all(root.join(name))?;
        }
        Ok(Self {
            root: root.to_owned(),
            sent: Sent::default(),
        })
    }
}

impl Target for WriteDirectory {
    /// A blob of another length was cut off by a loss of power.
    fn has(&mut self, blob: &Blob) -> io::Result<bool> {
        let found = std::fs::symlink_metadata(self.root.join(blob_path(blob)));
        Ok(found.is_ok_and(|found| found.is_file() && found.len() == blob.size))
    }

    fn put(&mut self, blob: &Blob, bytes: Vec<u8>) -> io::Result<()> {
        if self.has(blob)? {
            self.sent.found += 1;
            return Ok(());
        }
        let mut aside = Aside::new(&self.root.join(blob_path(blob)))?;
        aside.file.write_all(&bytes)?;
        aside.replace()?;
        self.sent.blobs += 1;
        self.sent.bytes += blob.size;
        Ok(())
    }

    fn finish(&mut self, index: &Index) -> io::Result<()> {
        // Blobs first: an index that can be seen names nothing that a loss of power could take.
        let root = fs_err::File::open(&self.root)?;
        rustix::fs::syncfs(root.file())?;
        let path = self
            .root
            .join(format!("snapshots/{}.json", index.snapshot.id));
        let mut aside = Aside::new(&path)?;
        aside.file.write_all(&index.to_json())?;
        aside.file.sync_all()?;
        aside.replace()
    }

    fn found(&mut self, blobs: u64) {
        self.sent.found += blobs;
    }

    fn sent(&self) -> Sent {
        self.sent
    }
}

#[derive(Debug)]
pub struct ReadDirectory {
    root: Utf8PathBuf,
    wanted: Option<String>,
}

impl ReadDirectory {
    pub fn open(root: &Utf8Path, wanted: Option<&str>) -> io::Result<Self> {
        if !root.join("snapshots").is_dir() {
            return Err(invalid(format!(
                "{root} holds no snapshots: `nacre snapshot export` makes such a directory"
            )));
        }
        Ok(Self {
            root: root.to_owned(),
            wanted: wanted.map(str::to_owned),
        })
    }

    /// A file that is no longer than it may be, and no link to something else.
    fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        let path = self.root.join(path);
        let found = std::fs::symlink_metadata(&path);
        match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(invalid(format!("{path} is not there")))
            }
            Ok(found) if found.is_file() && found.len() <= most => fs_err::read(&path),
            Ok(_) => Err(invalid(format!("{path} is not what it should be"))),
            Err(error) => Err(error),
        }
    }
}

impl Source for ReadDirectory {
    fn index(&mut self) -> io::Result<Index> {
        let mut found = Vec::new();
        for entry in self.root.join("snapshots").read_dir_utf8()? {
            let entry = entry?;
            let name = entry.file_name();
            if name.starts_with("snp_") && entry.path().extension() == Some("json") {
                let text = self.read(&format!("snapshots/{name}"), MAX_INDEX)?;
                found.push(
                    Index::parse(&text)
                        .map_err(|error| invalid(format!("{name} cannot be used: {error}")))?,
                );
            }
        }
        found.sort_by_key(|index| index.created_at);
        choose(found, self.wanted.as_deref())
    }

    fn get_all(
        &mut self,
        blobs: &[Blob],
        each: &mut dyn FnMut(&Blob, &[u8]) -> io::Result<bool>,
    ) -> io::Result<()> {
        for blob in blobs {
            if !each(blob, &self.read(&blob_path(blob), blob.size)?)? {
                break;
            }
        }
        Ok(())
    }
}
