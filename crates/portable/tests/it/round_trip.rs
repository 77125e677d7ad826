//! What is written is read back, by us and by GNU tar.

use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::process::Command;

use nacre_portable::Rules;
use nacre_portable::tar::{Extent, Head, Kind, Writer};
use proptest::prelude::*;

use crate::forge::{Forged, Ground};

fn head(path: &[u8], kind: Kind) -> Head<'_> {
    Head {
        path,
        kind,
        mode: 0o640,
        uid: 7,
        gid: 70_000,
        mtime: 1_000_000_000,
        link: b"",
        attributes: &[],
        literal: false,
    }
}

/// A file with data at 1 MiB, and a hole before and after it.
fn sparse_layer(ground: &Ground) -> Vec<u8> {
    let path = ground.temp.path().join("source");
    let mut content = vec![0; 3 << 20];
    content[1 << 20..(1 << 20) + 4096].fill(b'x');
    fs_err::write(&path, &content).unwrap();
    let file = fs_err::File::open(&path).unwrap();
    let mut writer = Writer::new(Vec::new());
    writer.entry(&head(b"", Kind::Directory)).unwrap();
    let extents = [Extent {
        start: 1 << 20,
        length: 4096,
    }];
    writer
        .file(
            &head(b"sparse", Kind::File),
            file.as_fd(),
            3 << 20,
            &extents,
        )
        .unwrap();
    writer.finish().unwrap().0
}

#[test]
fn a_sparse_file_keeps_its_size_its_data_and_its_holes() {
    let ground = Ground::new();
    let tar = sparse_layer(&ground);
    assert!(tar.len() < 16 << 10, "holes are not stored: {}", tar.len());
    ground.unpack(&tar, Rules::Layer).unwrap();
    let made = ground.temp.path().join("layer/sparse");
    let source = ground.temp.path().join("source");
    assert_eq!(fs_err::read(&made).unwrap(), fs_err::read(source).unwrap());
    assert!(fs_err::metadata(&made).unwrap().blocks() <= 16);
}

#[test]
fn gnu_tar_reads_what_we_write() {
    let ground = Ground::new();
    let archive = ground.temp.path().join("layer.tar");
    fs_err::write(&archive, sparse_layer(&ground)).unwrap();
    let out = ground.temp.path().join("out");
    fs_err::create_dir(&out).unwrap();
    let status = Command::new("tar")
        .args(["xf", archive.as_str(), "-C", out.as_str()])
        .status()
        .unwrap();
    assert!(status.success());
    let source = ground.temp.path().join("source");
    assert_eq!(
        fs_err::read(out.join("sparse")).unwrap(),
        fs_err::read(source).unwrap()
    );
}

#[test]
fn a_root_file_system_by_gnu_tar_is_read_sparse_files_and_long_names_included() {
    for format in ["gnu", "posix", "ustar", "v7"] {
        let ground = Ground::new();
        let tree = ground.temp.path().join("tree");
        let long = if format == "v7" {
            "short"
        } else {
            "a-rather-long-name-of-a-directory/that-holds-another-one/which-goes-on-for-quite-some-time/until-100"
        };
        fs_err::create_dir_all(tree.join(long)).unwrap();
        fs_err::write(tree.join(long).join("file"), "content").unwrap();
        let sparse = fs_err::File::create(tree.join("sparse")).unwrap();
        sparse.set_len(1 << 20).unwrap();
        let archive = ground.temp.path().join("tree.tar");
        let sparse = matches!(format, "gnu" | "posix").then_some("--sparse");
        let status = Command::new("tar")
            .args(["c", "--format", format, "-f", archive.as_str()])
            .args(sparse)
            .args(["-C", tree.as_str(), "."])
            .status()
            .unwrap();
        assert!(status.success());
        let tar = fs_err::read(archive).unwrap();
        ground.unpack(&tar, Rules::RootFileSystem).unwrap();
        let made = ground.temp.path().join("layer");
        let content = fs_err::read_to_string(made.join(long).join("file")).unwrap();
        assert_eq!(content, "content", "{format}");
        assert_eq!(
            fs_err::metadata(made.join("sparse")).unwrap().len(),
            1 << 20
        );
    }
}

#[test]
fn whiteouts_become_the_overlays_own_and_literal_names_stay_names() {
    let ground = Ground::new();
    let tar = Forged::new()
        .file(".wh.gone", b"")
        .directory("fresh")
        .file("fresh/.wh..wh..opq", b"")
        .pax(&[("NACRE.literal", b"1")])
        .file(".wh.kept", b"a name")
        .bytes();
    ground.unpack(&tar, Rules::Layer).unwrap();
    let made = ground.temp.path().join("layer");
    let gone = fs_err::symlink_metadata(made.join("gone")).unwrap();
    assert!(gone.file_type().is_char_device() && gone.rdev() == 0);
    let mut value = [0; 8];
    let fresh = made.join("fresh");
    let length =
        rustix::fs::getxattr(fresh.as_std_path(), "trusted.overlay.opaque", &mut value).unwrap();
    assert_eq!(&value[..length], b"y");
    assert_eq!(
        fs_err::read_to_string(made.join(".wh.kept")).unwrap(),
        "a name"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Names are bytes, and any length of them fits.
    #[test]
    fn any_name_owner_and_attribute_comes_back(
        name in proptest::collection::vec(1u8..=255, 1..=255),
        link in proptest::collection::vec(1u8..=255, 1..=1000),
        uid in 0u32..u32::MAX,
        mtime in -(1i64 << 40)..(1 << 40),
        value in proptest::collection::vec(any::<u8>(), 0..=2000),
    ) {
        prop_assume!(!name.contains(&b'/') && !matches!(&name[..], b"." | b".."));
        let attributes = vec![(b"user.x".to_vec(), value.clone())];
        let mut writer = Writer::new(Vec::new());
        let entry = Head { uid, mtime, link: &link, attributes: &attributes, ..head(&name, Kind::Symlink) };
        writer.entry(&entry).unwrap();
        let (tar, entries) = writer.finish().unwrap();
        prop_assert_eq!(entries, 1);
        let mut reader = nacre_portable::tar::Reader::new(&tar[..], crate::forge::LIMITS);
        let read = reader.next_entry().unwrap().unwrap();
        prop_assert_eq!((read.path, read.link, read.uid, read.mtime), (name, link, u64::from(uid), mtime));
        prop_assert_eq!(&read.attributes[0].1, &value);
        prop_assert!(reader.next_entry().unwrap().is_none());
    }
}
