use std::path::Path;

use bytes::Bytes;
use model::SnapshotId;

use crate::{FileEntry, FileKind, Origin, Provider, ProviderError, SandboxSpec, files_from};

/// Puts the probe into a sandbox that starts from `base` and seals that: an origin for the suite,
/// for a provider whose images cannot be prepared otherwise.
pub async fn plant(
    provider: &dyn Provider,
    base: Origin,
    probe: &Path,
) -> Result<SnapshotId, ProviderError> {
    let content =
        fs_err::read(probe).map_err(|e| ProviderError::unavailable("read the probe", e))?;
    let sandbox = provider.create(&SandboxSpec::from(base)).await?;
    let sealed = async {
        let at = Path::new(crate::probe::PATH);
        let (Some(directory), Some(name)) = (at.parent(), at.file_name()) else {
            return Err(ProviderError::refused("the probe's path has no directory"));
        };
        let entry = FileEntry {
            path: name.as_encoded_bytes().to_vec(),
            kind: FileKind::File,
            mode: 0o755,
            uid: Some(0),
            gid: Some(0),
        };
        let files = files_from(vec![(entry, Bytes::from(content))]);
        let directory = directory.as_os_str().as_encoded_bytes();
        provider
            .write_files(sandbox.id, directory, None, files)
            .await?;
        provider.stop(sandbox.id).await
    }
    .await;
    provider.remove(sandbox.id).await?;
    sealed?
        .snapshot
        .ok_or_else(|| ProviderError::refused("stop gave no snapshot"))
}
