//! Every kind of error, provoked with a secret at hand.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

use bytes::Bytes;
use model::{Id, SnapshotId, SnapshotKind, SystemClock};

use super::output::first_refusal;
use super::wait::soon;
use super::world::{Guest, HOME, World};
use crate::{
    Capability, ExecSpec, FileEntry, FileKind, Origin, ProviderError, SandboxId, SandboxSpec,
    files_from,
};

const CANARY: &str = "canary-5f2b9c71d4";

pub(super) async fn no_error_shows_a_secret(world: &World<'_>) {
    let env = BTreeMap::from([("TOKEN".to_owned(), CANARY.to_owned())]);
    let name = Some(world.name("secret"));
    let spec = SandboxSpec {
        name,
        env,
        ..world.spec()
    };
    let guest = world.create(&spec).await;
    let mut errors = Vec::new();
    errors.extend(of_making(world, &spec).await);
    errors.extend(of_commands(&guest).await);
    errors.extend(of_files(&guest).await);
    if world.can(Capability::Pause).await {
        guest.pause().await;
        errors.extend(guest.try_exec(with_secrets(&guest, ["pwd"])).await.err());
        errors.extend(guest.provider().await.dial(guest.id, 1).await.err());
        guest.resume().await;
    }
    guest.terminate().await;
    errors.extend(guest.try_exec(with_secrets(&guest, ["pwd"])).await.err());
    assert!(
        errors.len() >= 8,
        "only {} errors were provoked",
        errors.len()
    );
    for error in &errors {
        let shown = everything_shown(error);
        assert!(!shown.contains(CANARY), "{shown}");
    }
}

async fn of_making(world: &World<'_>, taken: &SandboxSpec) -> Vec<ProviderError> {
    let provider = world.provider().await;
    let snapshot = |of: &str| SnapshotId {
        provider: of.to_owned(),
        kind: SnapshotKind::Disk,
        id: Id::new(&SystemClock),
    };
    let from = |origin| SandboxSpec {
        name: None,
        origin,
        ..taken.clone()
    };
    let (ours, theirs) = (snapshot(provider.name()), snapshot("elsewhere"));
    let missing = std::path::PathBuf::from("/no/such/directory/at/all");
    let nobody: SandboxId = Id::new(&SystemClock);
    let answers = [
        provider.create(taken).await.err(),
        provider.create(&from(Origin::Snapshot(ours))).await.err(),
        provider.create(&from(Origin::Snapshot(theirs))).await.err(),
        provider.create(&from(Origin::Rootfs(missing))).await.err(),
        provider.stop(nobody).await.err(),
    ];
    answers.into_iter().flatten().collect()
}

async fn of_commands(guest: &Guest<'_>) -> Vec<ProviderError> {
    let spec = with_secrets(guest, ["args", CANARY]);
    let unknown = [b"/no/such/program".to_vec(), CANARY.as_bytes().to_vec()];
    let attempts = [
        ExecSpec {
            cwd: Some(b"/no/such/directory".to_vec()),
            ..spec.clone()
        },
        ExecSpec {
            user: Some("nobody-we-know".into()),
            ..spec.clone()
        },
        ExecSpec {
            argv: unknown.to_vec(),
            ..spec
        },
    ];
    let mut errors = Vec::new();
    for attempt in attempts {
        errors.extend(first_refusal(guest.try_exec(attempt).await).await.err());
    }
    errors
}

async fn of_files(guest: &Guest<'_>) -> Vec<ProviderError> {
    let entry = FileEntry {
        path: b"../escaped".to_vec(),
        kind: FileKind::File,
        mode: 0o600,
        uid: None,
        gid: None,
    };
    let provider = guest.provider().await;
    let files = || files_from(vec![(entry.clone(), Bytes::from_static(CANARY.as_bytes()))]);
    let escaped = provider.write_files(guest.id, HOME.as_bytes(), None, files());
    let mut errors: Vec<_> = soon("write_files", escaped)
        .await
        .err()
        .into_iter()
        .collect();
    let unknown = provider.write_files(guest.id, HOME.as_bytes(), Some("nobody-we-know"), files());
    errors.extend(soon("write_files", unknown).await.err());
    errors.extend(provider.dial(guest.id, 1).await.err());
    errors.extend(provider.serve(guest.id, "../bell").await.err());
    errors
}

fn with_secrets<const N: usize>(guest: &Guest<'_>, args: [&str; N]) -> ExecSpec {
    let env = BTreeMap::from([(b"OTHER_TOKEN".to_vec(), CANARY.as_bytes().to_vec())]);
    ExecSpec {
        env,
        ..guest.command(args)
    }
}

/// All the ways in which an error gets into a log.
fn everything_shown(error: &ProviderError) -> String {
    let mut shown = format!("{error} {error:?} {error:#?}");
    let mut next = error.source();
    while let Some(cause) = next {
        let _ = write!(shown, " {cause} {cause:?}");
        next = cause.source();
    }
    shown
}
