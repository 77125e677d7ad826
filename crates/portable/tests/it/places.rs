//! A file and a directory as places.

use camino_tempfile::Utf8TempDir;
use model::Clock as _;
use nacre_portable::place::{ReadDirectory, ReadFile, WriteDirectory, WriteFile};
use nacre_portable::tar::{Head, Kind};
use nacre_portable::{Control, Index, Layer, Packing, Source, Target, pack, stream};

fn sent(target: &mut dyn Target, name: &str) -> Layer {
    let control = Control::default();
    pack(target, Packing::default(), &control, |writer| {
        let head = Head {
            path: name.as_bytes(),
            kind: Kind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
            mtime: 0,
            link: b"",
            attributes: &[],
            literal: false,
        };
        // More than two blobs, no two of them alike.
        let content: Vec<u8> = (0..5u32 << 20).flat_map(u32::to_le_bytes).collect();
        writer.bytes(&head, &content)
    })
    .unwrap()
}

fn index(layer: Layer) -> Index {
    let id: model::Id<model::Snapshot> = model::Id::new(&model::SystemClock);
    Index {
        format: nacre_portable::index::FORMAT.to_owned(),
        version: nacre_portable::index::VERSION,
        snapshot: format!("local:disk:{id}").parse().unwrap(),
        name: None,
        created_at: model::SystemClock.now(),
        recovered: false,
        host: None,
        digest: "blake3:0".to_owned(),
        bytes: 0,
        files: 0,
        layers: vec![layer],
    }
}

fn read(source: &mut dyn Source) -> std::io::Result<u64> {
    let index = source.index()?;
    let control = Control::default();
    stream(source, &index.layers[0], &control, |from| {
        std::io::copy(from, &mut std::io::sink())
    })
}

#[test]
fn a_file_is_not_there_until_it_is_whole() {
    let temp = Utf8TempDir::new().unwrap();
    let path = temp.path().join("x.nacre");
    let mut target = WriteFile::create(&path).unwrap();
    let layer = sent(&mut target, "a");
    assert!(layer.blobs.len() > 2);
    assert_eq!(temp.path().read_dir_utf8().unwrap().count(), 0);
    target.finish(&index(layer.clone())).unwrap();
    assert_eq!(
        read(&mut ReadFile::open(&path).unwrap()).unwrap(),
        layer.bytes
    );
    assert!(WriteFile::create(&path).is_err(), "it is not replaced");
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_refused() {
    let temp = Utf8TempDir::new().unwrap();
    let path = temp.path().join("x.nacre");
    let mut target = WriteFile::create(&path).unwrap();
    let layer = sent(&mut target, "a");
    target.finish(&index(layer)).unwrap();
    let length = fs_err::metadata(&path).unwrap().len();
    for cut in [2048, 4096, 1 << 20, length - 100, length] {
        let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(length - cut).unwrap();
        read(&mut ReadFile::open(&path).unwrap()).expect_err("it is cut off");
    }
}

#[test]
fn what_a_directory_has_is_not_sent_again() {
    let temp = Utf8TempDir::new().unwrap();
    let mut first = WriteDirectory::open(temp.path()).unwrap();
    let layer = sent(&mut first, "a");
    // Cut off before the index: another one goes on from there.
    let sent_first = first.sent();
    assert_eq!(sent_first.blobs, layer.blobs.len() as u64);
    drop(first);
    let mut second = WriteDirectory::open(temp.path()).unwrap();
    assert_eq!(
        sent(&mut second, "a"),
        layer,
        "the same tree, the same blobs"
    );
    assert_eq!(
        (second.sent().blobs, second.sent().found),
        (0, sent_first.blobs)
    );
    second.finish(&index(layer.clone())).unwrap();
    let mut source = ReadDirectory::open(temp.path(), None).unwrap();
    assert_eq!(read(&mut source).unwrap(), layer.bytes);
}

#[test]
fn a_part_that_is_damaged_or_missing_is_noticed() {
    let temp = Utf8TempDir::new().unwrap();
    let mut target = WriteDirectory::open(temp.path()).unwrap();
    let layer = sent(&mut target, "a");
    target.finish(&index(layer.clone())).unwrap();
    let blob = temp
        .path()
        .join(format!("blobs/sha256/{}", layer.blobs[1].sha256));
    let mut bytes = fs_err::read(&blob).unwrap();
    bytes[1000] ^= 1;
    fs_err::write(&blob, bytes).unwrap();
    let source = || ReadDirectory::open(temp.path(), None).unwrap();
    let error = read(&mut source()).unwrap_err();
    assert!(error.to_string().contains("is damaged"), "{error}");
    fs_err::remove_file(&blob).unwrap();
    let error = read(&mut source()).unwrap_err();
    assert!(error.to_string().contains("is not there"), "{error}");
}

#[test]
fn an_index_that_asks_for_absurd_things_is_refused() {
    let temp = Utf8TempDir::new().unwrap();
    let mut target = WriteDirectory::open(temp.path()).unwrap();
    let good = index(sent(&mut target, "a"));
    let check = |change: &dyn Fn(&mut Index)| {
        let mut bad = good.clone();
        change(&mut bad);
        Index::parse(&bad.to_json()).expect_err("it is absurd");
    };
    Index::parse(&good.to_json()).unwrap();
    check(&|index| index.version = 2);
    check(&|index| index.format = "other".to_owned());
    check(&|index| index.layers.clear());
    check(&|index| index.layers[0].bytes += 1);
    check(&|index| index.layers[0].entries = u64::MAX);
    check(&|index| index.layers[0].media_type = "text/plain".to_owned());
    check(&|index| index.layers[0].blobs[0].unpacked = 1 << 40);
    check(&|index| index.layers[0].blobs[0].size = u64::MAX);
    check(&|index| {
        let layer = index.layers[0].clone();
        index.layers = vec![layer; 501];
    });
}

/// A frame that unpacks to more than its index says, or that asks for a huge window.
#[test]
fn a_bomb_is_refused_before_it_unpacks() {
    struct Bomb(Index, Vec<u8>);
    impl Source for Bomb {
        fn index(&mut self) -> std::io::Result<Index> {
            Ok(self.0.clone())
        }
        fn get_all(
            &mut self,
            blobs: &[nacre_portable::Blob],
            each: &mut dyn FnMut(&nacre_portable::Blob, &[u8]) -> std::io::Result<bool>,
        ) -> std::io::Result<()> {
            each(&blobs[0], &self.1).map(|_| ())
        }
    }
    let zeros = vec![0; 256 << 20];
    let frame = zstd::bulk::compress(&zeros, 1).unwrap();
    let layer = Layer {
        media_type: nacre_portable::index::LAYER_TYPE.to_owned(),
        bytes: 8 << 20,
        entries: 1,
        blobs: vec![nacre_portable::Blob {
            sha256: nacre_portable::index::Sha::of(&frame),
            size: frame.len() as u64,
            unpacked: 8 << 20,
        }],
    };
    let error = read(&mut Bomb(index(layer), frame)).unwrap_err();
    assert!(
        error.to_string().contains("not what its index says"),
        "{error}"
    );
}
