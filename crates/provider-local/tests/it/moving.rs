//! Snapshots out of one home and into another.

use std::sync::Arc;

use camino::Utf8PathBuf;
use model::SnapshotId;
use nacre_provider_local::{Config, Local, SnapshotInfo};
use portable::place::{ReadDirectory, ReadFile, WriteDirectory, WriteFile};
use portable::{Control, Index, Packing, Source};
use provider::{ExecSpec, Origin, Provider as _, ProviderError, SandboxId, SandboxSpec};

use crate::home::TestHome;

async fn sh(local: &Local, id: SandboxId, script: &str) -> String {
    let exec = local
        .exec(id, ExecSpec::new(["sh", "-c", script]))
        .await
        .expect("it starts");
    let finished = exec.finish().await.expect("it ends");
    let stderr = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert_eq!(finished.exit.code, 0, "{script}: {stderr}");
    String::from_utf8_lossy(&finished.stdout).trim().to_owned()
}

async fn sandbox(local: &Local, origin: Origin) -> SandboxId {
    local
        .create(&SandboxSpec::from(origin))
        .await
        .expect("a sandbox")
        .id
}

async fn stopped(local: &Local, id: SandboxId) -> SnapshotId {
    let receipt = local.stop(id).await.expect("it stops");
    receipt.snapshot.expect("a snapshot")
}

/// Two homes whose sandboxes have different ids, and files beside them.
struct Two {
    here: TestHome,
    there: TestHome,
    files: Utf8PathBuf,
}

impl Two {
    fn new(name: &str) -> Self {
        let files = Utf8PathBuf::from(format!("/tmp/nacre-{name}-{}-files", std::process::id()));
        fs_err::create_dir(&files).expect("a new directory");
        Self {
            here: TestHome::new(&format!("{name}-here")),
            there: TestHome::new(&format!("{name}-there")),
            files,
        }
    }

    fn there(&self) -> Local {
        let config = Config::at(self.there.path.clone());
        let first_id = config.first_id + 5 * 65_536;
        Local::open(&Config { first_id, ..config }).expect("the other home opens")
    }

    async fn clear(self) {
        self.here.clear().await;
        self.there.clear().await;
        fs_err::remove_dir_all(&self.files).expect("the files can be removed");
    }

    /// Out through one file, and in again.
    async fn carry(&self, local: &Local, id: &SnapshotId) -> SnapshotInfo {
        let path = self.files.join(format!("{}.nacre", id.id));
        let target = Box::new(WriteFile::create(&path).expect("a new file"));
        let exported = local
            .export(id, target, Packing::default(), control())
            .await
            .expect("it is exported");
        let source = Box::new(ReadFile::open(&path).expect("the file"));
        let imported = self
            .there()
            .import(source, None, control())
            .await
            .expect("it is imported");
        assert_eq!(imported.digest.as_deref(), Some(exported.digest.as_str()));
        assert_eq!(
            (imported.bytes, imported.files),
            (Some(exported.bytes), Some(exported.files))
        );
        imported
    }
}

fn control() -> Arc<Control> {
    Arc::new(Control::default())
}

/// Everything that a disk may have on it.
const EVERYTHING: &str = r#"
set -e
mkdir -p /srv/all/sub && cd /srv/all
echo first > a; ln a b; ln a sub/c; ln -s a link; ln -s /nowhere dangling; mkfifo pipe
truncate -s 64M sparse; printf x | dd of=sparse bs=1 seek=40000000 conv=notrunc 2>/dev/null
truncate -s 3M only-a-hole; : > empty; mkdir empty-directory
chmod 4755 a; chmod 2750 sub; chmod 1777 empty-directory; chmod 000 empty
chown 1000:1000 sub; chown 7:65534 empty
echo literal > .wh.file; mkdir .wh.directory; echo inside > .wh.directory/x
touch "$(printf 'new\nline')" "$(printf '\377\376')" ./-rf "with space" .hidden ..twodots
touch "$(printf '%0250d' 7)"; mkdir -p "$(printf '%0200d' 1)/$(printf '%0200d' 2)"; echo deep > "$(printf '%0200d' 1)/$(printf '%0200d' 2)/f"
touch -d '1965-01-01' old; touch -d '2200-01-01' future
python3 - <<'P' 2>/dev/null || true
import os
os.setxattr("/srv/all/a", "user.note", b"\x00\xff binary")
os.setxattr("/srv/all/sub", "user.note", b"x" * 500)
os.setxattr("/srv/all/b", "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
P
head -c 20000000 /dev/urandom > random
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_has_the_same_digest_after_export_and_import_under_other_ids() {
    let two = Two::new("carry");
    let local = two.here.open();
    let id = sandbox(&local, Origin::Bare).await;
    sh(&local, id, EVERYTHING).await;
    let snapshot = stopped(&local, id).await;
    let imported = two.carry(&local, &snapshot).await;
    let there = two.there();
    assert!(there.verify_snapshot(&imported.id).await.expect("read").ok);
    let again = sandbox(&there, Origin::Snapshot(imported.id.clone())).await;
    let seen = sh(
        &there,
        again,
        "cd /srv/all; cat a .wh.file .wh.directory/x; stat -c %h a; stat -c '%a %u' sub empty; du -k sparse | cut -f1; stat -c %Y old",
    )
    .await;
    assert_eq!(
        seen,
        "first\nliteral\ninside\n3\n2750 1000\n0 7\n4\n-157766400"
    );
    two.clear().await;
}

/// Deletions, replacements, opaque directories and renames over several layers.
#[tokio::test(flavor = "multi_thread")]
async fn a_stack_with_renames_and_deletions_is_the_same_tree_elsewhere() {
    let two = Two::new("stack");
    let local = two.here.open();
    let steps = [
        "mkdir -p /srv/d/e /srv/x/y /srv/k; echo 1 > /srv/d/e/f; echo 1 > /srv/d/g; echo z > /srv/x/y/z; ln /srv/d/g /srv/k/g; echo s > /srv/file",
        "rm /srv/d/g; rm -r /srv/x; mkdir /srv/x; echo new > /srv/x/only; mv /srv/d /srv/moved; rm /srv/file; mkdir /srv/file; echo in > /srv/file/in",
        "mv /srv/moved/e /srv/e2; echo more >> /srv/e2/f; rm -r /srv/file; echo file > /srv/file; mv /srv/k /srv/k2; chmod 700 /srv/x",
        "rm -r /srv/e2; mv /srv/moved /srv/d; mv /srv/k2/g /srv/k2/h; mkdir /srv/x/y; mv /srv/x /srv/xx",
    ];
    let mut origin = Origin::Bare;
    let mut last = None;
    for step in steps {
        let id = sandbox(&local, origin).await;
        sh(&local, id, step).await;
        let kept = stopped(&local, id).await;
        // Every stage of it, not only the last.
        last = Some(two.carry(&local, &kept).await);
        origin = Origin::Snapshot(kept);
    }
    let imported = last.expect("steps");
    assert_eq!(imported.layers.len(), 5);
    let there = two.there();
    let again = sandbox(&there, Origin::Snapshot(imported.id.clone())).await;
    let seen = sh(
        &there,
        again,
        "cd /srv; find . | sort | tr '\\n' ' '; cat file xx/only k2/h",
    )
    .await;
    assert_eq!(
        seen,
        ". ./d ./file ./k2 ./k2/h ./xx ./xx/only ./xx/y file\nnew\n1"
    );
    two.clear().await;
}

/// A file whose names are in two directories of a lower layer, of which one is renamed.
#[tokio::test(flavor = "multi_thread")]
async fn names_of_one_file_stay_together_when_a_directory_is_renamed() {
    let two = Two::new("links");
    let local = two.here.open();
    let id = sandbox(&local, Origin::Bare).await;
    sh(
        &local,
        id,
        "mkdir -p /srv/a /srv/c/d; echo x > /srv/a/1; ln /srv/a/1 /srv/c/d/2; ln /srv/a/1 /srv/3",
    )
    .await;
    let lower = stopped(&local, id).await;
    let id = sandbox(&local, Origin::Snapshot(lower)).await;
    sh(&local, id, "mv /srv/a /srv/b").await;
    let upper = stopped(&local, id).await;
    let imported = two.carry(&local, &upper).await;
    let there = two.there();
    let again = sandbox(&there, Origin::Snapshot(imported.id.clone())).await;
    let seen = sh(
        &there,
        again,
        "cd /srv; stat -c %h b/1 c/d/2 3 | tr '\\n' ' '; test ! -e a",
    )
    .await;
    assert_eq!(seen, "3 3 3");
    two.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_mark_of_the_overlay_is_in_an_export() {
    let two = Two::new("marks");
    let local = two.here.open();
    let id = sandbox(&local, Origin::Bare).await;
    sh(&local, id, "mkdir /srv/a; echo x > /srv/a/x").await;
    let lower = stopped(&local, id).await;
    let id = sandbox(&local, Origin::Snapshot(lower)).await;
    sh(&local, id, "mv /srv/a /srv/b; rm -r /opt; mkdir /opt").await;
    let snapshot = stopped(&local, id).await;
    two.carry(&local, &snapshot).await;
    let mut source =
        ReadFile::open(&two.files.join(format!("{}.nacre", snapshot.id))).expect("the file");
    let index = source.index().expect("an index");
    for layer in &index.layers {
        let mut tar = Vec::new();
        portable::stream(&mut source, layer, &control(), |from| {
            std::io::Read::read_to_end(from, &mut tar)
        })
        .expect("the layer");
        let marks = tar.windows(9).filter(|bytes| bytes == b".overlay.").count();
        assert_eq!(marks, 0);
    }
    two.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_export_sends_only_what_is_missing() {
    let two = Two::new("missing");
    let local = two.here.open();
    let id = sandbox(&local, Origin::Bare).await;
    sh(&local, id, "head -c 30000000 /dev/urandom > /srv/large").await;
    let lower = stopped(&local, id).await;
    let id = sandbox(&local, Origin::Snapshot(lower.clone())).await;
    sh(&local, id, "echo small > /srv/small").await;
    let upper = stopped(&local, id).await;
    let export = async |id: &SnapshotId| {
        let target = Box::new(WriteDirectory::open(&two.files).expect("a directory"));
        local
            .export(id, target, Packing::default(), control())
            .await
            .expect("it is exported")
    };
    let first = export(&lower).await;
    let second = export(&upper).await;
    let third = export(&upper).await;
    assert!(
        first.sent.bytes > 30_000_000 && first.sent.found == 0,
        "{first:?}"
    );
    assert!(
        second.sent.bytes < 10_000 && second.sent.blobs == 1,
        "{second:?}"
    );
    assert_eq!((third.sent.blobs, third.sent.bytes), (0, 0), "{third:?}");
    let there = two.there();
    for id in [&lower, &upper] {
        let name = id.to_string();
        let source = Box::new(ReadDirectory::open(&two.files, Some(&name)).expect("a directory"));
        there
            .import(source, None, control())
            .await
            .expect("it is imported");
    }
    // Shared there as they were here: the host's skeleton, the large one, the small one.
    let usage = there.usage().await.expect("a sum");
    assert_eq!(usage.layers.count, 3, "{:?}", usage.by_layer);
    two.clear().await;
}

type Forge = fn(&mut Index);

/// Says one thing of a snapshot, and hands out another.
struct Forged {
    inner: ReadFile,
    forge: Forge,
}

impl Source for Forged {
    fn index(&mut self) -> std::io::Result<Index> {
        let mut index = self.inner.index()?;
        (self.forge)(&mut index);
        Ok(index)
    }

    fn get_all(
        &mut self,
        blobs: &[portable::Blob],
        each: &mut dyn FnMut(&portable::Blob, &[u8]) -> std::io::Result<bool>,
    ) -> std::io::Result<()> {
        self.inner.get_all(blobs, each)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_what_it_says_is_refused_and_leaves_nothing() {
    let two = Two::new("forged");
    let local = two.here.open();
    let id = sandbox(&local, Origin::Bare).await;
    sh(&local, id, "echo x > /srv/x").await;
    let snapshot = stopped(&local, id).await;
    let path = two.files.join("x.nacre");
    let target = Box::new(WriteFile::create(&path).expect("a new file"));
    local
        .export(&snapshot, target, Packing::default(), control())
        .await
        .expect("it is exported");
    let there = two.there();
    let forgeries: [(&str, Forge); 7] = [
        ("not what its index says", |i| i.digest = "blake3:00".into()),
        ("not what its index says", |i| i.files += 1),
        ("not what its index says", |i| i.bytes += 1),
        ("more entries", |i| i.layers[1].entries -= 1),
        ("fewer entries", |i| i.layers[1].entries += 1),
        ("another host", |i| i.host = Some("elsewhere".into())),
        ("cannot name", |i| i.name = Some("../../etc".into())),
    ];
    for (says, forge) in forgeries {
        let inner = ReadFile::open(&path).expect("the file");
        let source = Box::new(Forged { inner, forge });
        let error = there
            .import(source, None, control())
            .await
            .expect_err("it is refused");
        assert!(matches!(error, ProviderError::Refused { .. }), "{error:?}");
        assert!(
            error.to_string().contains(says),
            "`{says}` is not in: {error}"
        );
        for place in ["layers", "snapshots", "intents", "aside"] {
            let left = two.there.path.join(place).read_dir_utf8().expect("a home");
            assert_eq!(left.count(), 0, "{place} after {says}");
        }
    }
    two.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_export_or_import_leaves_nothing() {
    let two = Two::new("cancelled");
    let local = two.here.open();
    let id = sandbox(&local, Origin::Bare).await;
    sh(&local, id, "echo x > /srv/x").await;
    let snapshot = stopped(&local, id).await;
    let path = two.files.join("x.nacre");
    let cancelled = control();
    cancelled.cancel();
    let target = Box::new(WriteFile::create(&path).expect("a new file"));
    let result = local
        .export(&snapshot, target, Packing::default(), cancelled.clone())
        .await;
    assert!(result.is_err() && !path.exists());
    assert_eq!(fs_err::read_dir(&two.files).expect("files").count(), 0);
    two.carry(&local, &snapshot).await;
    let there = two.there();
    for found in there.snapshots().await.expect("a list") {
        there.delete_snapshot(&found.id).await.expect("it goes");
    }
    let file = two.files.join(format!("{}.nacre", snapshot.id));
    let source = Box::new(ReadFile::open(&file).expect("the file"));
    assert!(there.import(source, None, cancelled).await.is_err());
    for place in ["layers", "snapshots", "intents"] {
        let left = two.there.path.join(place).read_dir_utf8().expect("a home");
        assert_eq!(left.count(), 0, "{place}");
    }
    two.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_goes_with_its_snapshot_and_must_be_free() {
    let two = Two::new("named");
    let local = two.here.open();
    let id = sandbox(&local, Origin::Bare).await;
    let receipt = local.snapshot(id, Some("pearl")).await.expect("a snapshot");
    let snapshot = receipt.snapshot.expect("a snapshot");
    let imported = two.carry(&local, &snapshot).await;
    assert_eq!(imported.name.as_deref(), Some("pearl"));
    let again = || {
        Box::new(
            ReadFile::open(&two.files.join(format!("{}.nacre", snapshot.id))).expect("the file"),
        )
    };
    let there = two.there();
    let error = there
        .import(again(), None, control())
        .await
        .expect_err("the name is taken");
    assert!(error.to_string().contains("is taken"), "{error}");
    let second = there
        .import(again(), Some("second"), control())
        .await
        .expect("under another name");
    assert_eq!(
        (second.name.as_deref(), &second.layers),
        (Some("second"), &imported.layers)
    );
    two.clear().await;
}
