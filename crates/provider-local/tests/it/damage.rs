//! Snapshots that are not what they were.

use provider::{Origin, Provider as _, ProviderError, SandboxSpec};

use crate::engine::{bare, sh};
use crate::home::TestHome;

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_a_layer_is_found() {
    let home = TestHome::new("flipped");
    let local = home.open();
    let id = bare(&local).await;
    sh(&local, id, "echo 'mother of pearl' > /root/file").await;
    let snapshot = local
        .stop(id)
        .await
        .expect("it stops")
        .snapshot
        .expect("a snapshot");
    let info = local.digest_snapshot(&snapshot).await.expect("a digest");
    assert!(
        local
            .verify_snapshot(&snapshot)
            .await
            .expect("it is read")
            .ok
    );
    let file = home
        .path
        .join("layers")
        .join(&info.layers[0])
        .join("fs/root/file");
    let mut content = fs_err::read(&file).expect("the layer's file");
    content[3] ^= 1;
    fs_err::write(&file, content).expect("the bit is flipped");
    let verified = local.verify_snapshot(&snapshot).await.expect("it is read");
    assert!(!verified.ok);
    assert_ne!(verified.expected.as_deref(), Some(verified.found.as_str()));
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_rests_on_another_hosts_usr_is_refused() {
    let home = TestHome::new("other-host");
    let local = home.open();
    let id = bare(&local).await;
    let snapshot = local
        .stop(id)
        .await
        .expect("it stops")
        .snapshot
        .expect("a snapshot");
    let path = home
        .path
        .join("snapshots")
        .join(format!("{}.json", snapshot.id));
    let text = fs_err::read_to_string(&path).expect("the record");
    let mut record: serde_json::Value = serde_json::from_str(&text).expect("a record");
    record["host"] = "another".into();
    fs_err::write(&path, record.to_string()).expect("the record is changed");
    let spec = SandboxSpec::from(Origin::Snapshot(snapshot));
    let error = local.create(&spec).await.expect_err("it is refused");
    assert!(error.to_string().contains("another host"), "{error}");
    home.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_snapshot_is_told_from_one_that_is_not_there() {
    let home = TestHome::new("damaged");
    let local = home.open();
    let mut snapshots = Vec::new();
    for _ in 0..2 {
        let id = bare(&local).await;
        let receipt = local.stop(id).await.expect("it stops");
        snapshots.push(receipt.snapshot.expect("a snapshot"));
    }
    let [cut, hollow] = &snapshots[..] else {
        unreachable!("there are two");
    };
    let info = local.digest_snapshot(hollow).await.expect("a digest");
    let layer = home.path.join("layers").join(&info.layers[0]);
    for files in ["fs", "disk"] {
        let files = layer.join(files);
        if files.exists() {
            fs_err::rename(&files, layer.join("elsewhere")).expect("its files go");
        }
    }
    let record = home.path.join("snapshots");
    let record = record.join(format!("{}.json", cut.id));
    fs_err::write(&record, "{ \"id\": \"lo").expect("the record is cut");
    for damaged in [cut, hollow] {
        let spec = SandboxSpec::from(Origin::Snapshot(damaged.clone()));
        let error = local.create(&spec).await.expect_err("it is refused");
        assert!(matches!(error, ProviderError::Damaged { .. }), "{error}");
    }
    fs_err::remove_file(&record).expect("the record goes");
    let spec = SandboxSpec::from(Origin::Snapshot(cut.clone()));
    let error = local.create(&spec).await.expect_err("it is refused");
    assert!(matches!(error, ProviderError::NotFound { .. }), "{error}");
    home.clear().await;
}
