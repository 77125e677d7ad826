//! Reading and writing files from outside.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::host::HostDirectory;
use super::wait::soon;
use super::world::{Guest, HOME, World, refused};
use crate::probe::{hash, pattern};
use crate::{FileEntry, FileEvent, FileKind, ProviderError, files_from};

type Files = BTreeMap<Vec<u8>, (FileEntry, Vec<u8>)>;

pub async fn what_is_written_is_read_back(world: &World<'_>) {
    let guest = world.sandbox().await;
    let all: Vec<u8> = (0..=255).collect();
    let files: Vec<(FileEntry, Bytes)> = vec![
        (directory("tree", 0o755), Bytes::new()),
        (file("tree/a", 0o644), Bytes::from_static(b"pearl")),
        (file("tree/empty", 0o600), Bytes::new()),
        (directory("tree/hollow", 0o700), Bytes::new()),
        (file("tree/deep/er/binary", 0o755), Bytes::from(all)),
        (link("tree/link", "deep/er"), Bytes::new()),
    ];
    write(&guest, HOME, None, files.clone())
        .await
        .expect("it is written");
    let found = read(&guest, "/contract/tree").await;
    assert!(
        guest.content("/contract/tree/link/binary").await.is_some(),
        "the link leads there"
    );
    for (entry, data) in files.iter().skip(1) {
        let path = entry.path.strip_prefix(b"tree/").expect("below the tree");
        let (read, content) = &found[path];
        assert_eq!(
            (&read.kind, content),
            (&entry.kind, &data.to_vec()),
            "{path:?}"
        );
        if !matches!(entry.kind, FileKind::Symlink { .. }) {
            assert_eq!(read.mode & 0o7777, entry.mode, "{path:?}");
        }
    }
    let mut paths: Vec<&[u8]> = found.keys().map(Vec::as_slice).collect();
    paths.retain(|path| !path.is_empty());
    let wanted: [&[u8]; 7] = [
        b"a",
        b"deep",
        b"deep/er",
        b"deep/er/binary",
        b"empty",
        b"hollow",
        b"link",
    ];
    assert_eq!(paths, wanted, "with the parents that were made on the way");
}

pub async fn one_file_is_read_by_its_own_path(world: &World<'_>) {
    let guest = world.sandbox().await;
    guest.ok(["write", "/contract/one", "alone"]).await;
    let found = read(&guest, "/contract/one").await;
    assert_eq!(found.len(), 1);
    let (entry, content) = &found[&b""[..]];
    assert_eq!(
        (&entry.kind, content.as_slice()),
        (&FileKind::File, &b"alone"[..])
    );
}

pub async fn what_the_sandbox_wrote_is_read_and_the_other_way_round(world: &World<'_>) {
    let guest = world.sandbox().await;
    guest.ok(["write", "/contract/inside", "from inside"]).await;
    guest.ok(["chmod", "/contract/inside", "640"]).await;
    let files = vec![(file("outside", 0o604), Bytes::from_static(b"from outside"))];
    write(&guest, HOME, None, files)
        .await
        .expect("it is written");
    assert_eq!(
        guest.content("/contract/outside").await.as_deref(),
        Some("from outside")
    );
    let found = read(&guest, HOME).await;
    assert_eq!(found[&b"inside"[..]].1, b"from inside");
    assert_eq!(found[&b"inside"[..]].0.mode & 0o7777, 0o640);
}

pub async fn writing_again_replaces_content_and_mode(world: &World<'_>) {
    let guest = world.sandbox().await;
    for (text, mode) in [("a long first version", 0o600), ("short", 0o644)] {
        let files = vec![(file("again", mode), Bytes::from_static(text.as_bytes()))];
        write(&guest, HOME, None, files)
            .await
            .expect("it is written");
        let found = read(&guest, "/contract/again").await;
        assert_eq!(String::from_utf8_lossy(&found[&b""[..]].1), text);
        assert_eq!(found[&b""[..]].0.mode & 0o7777, mode);
    }
}

pub async fn every_mode_is_kept(world: &World<'_>) {
    let guest = world.sandbox().await;
    let mut files = Vec::new();
    for mode in [0o000, 0o400, 0o640, 0o755, 0o777, 0o4755, 0o2755] {
        files.push((file(&format!("f{mode:o}"), mode), Bytes::from_static(b"x")));
    }
    for mode in [0o700, 0o755, 0o1777, 0o2770] {
        files.push((directory(&format!("d{mode:o}"), mode), Bytes::new()));
    }
    write(&guest, HOME, None, files.clone())
        .await
        .expect("it is written");
    let (inside, outside) = (guest.manifest().await, read(&guest, HOME).await);
    for (entry, _) in &files {
        let name = String::from_utf8_lossy(&entry.path);
        let line = inside
            .iter()
            .find(|line| line.path == name)
            .expect("it is there");
        assert_eq!(line.mode, entry.mode, "{name} inside");
        assert_eq!(
            outside[&entry.path].0.mode & 0o7777,
            entry.mode,
            "{name} outside"
        );
    }
}

pub async fn a_large_file_passes_both_ways(world: &World<'_>) {
    let guest = world.sandbox().await;
    let content = pattern(3, 8 << 20);
    let files = vec![(file("large", 0o644), Bytes::from(content.clone()))];
    write(&guest, HOME, None, files)
        .await
        .expect("it is written");
    let inside = guest.manifest().await;
    let line = inside
        .iter()
        .find(|line| line.path == "large")
        .expect("it is there");
    assert_eq!(line.hash, Some(hash([content.as_slice()])));
    assert!(
        read(&guest, "/contract/large").await[&b""[..]].1 == content,
        "the bytes differ"
    );
}

pub async fn a_missing_folder_is_empty(world: &World<'_>) {
    let guest = world.sandbox().await;
    assert!(read(&guest, "/contract/nowhere/at/all").await.is_empty());
}

pub async fn an_empty_folder_has_only_itself(world: &World<'_>) {
    let guest = world.sandbox().await;
    guest.ok(["mkdir", "/contract/hollow"]).await;
    let found = read(&guest, "/contract/hollow").await;
    assert!(found.keys().all(Vec::is_empty), "{found:?}");
}

pub async fn names_may_have_every_byte_but_slash_and_zero(world: &World<'_>) {
    let guest = world.sandbox().await;
    let mut names: Vec<Vec<u8>> = (1..=255)
        .filter(|byte| *byte != b'/')
        .map(|byte| vec![b'n', byte])
        .collect();
    names.extend([
        b"...".to_vec(),
        b"-rf".to_vec(),
        b"$(id)".to_vec(),
        vec![b'x'; 255],
        vec![0xff; 200],
    ]);
    let files = names.iter().map(|name| {
        let entry = FileEntry {
            path: name.clone(),
            ..file("", 0o644)
        };
        (entry, Bytes::from(name.clone()))
    });
    write(&guest, "/contract/odd", None, files.collect())
        .await
        .expect("it is written");
    let found = read(&guest, "/contract/odd").await;
    for name in &names {
        assert_eq!(found.get(name).map(|(_, content)| content), Some(name));
    }
    assert_eq!(
        found.keys().filter(|path| !path.is_empty()).count(),
        names.len()
    );
}

pub async fn a_path_that_leads_out_of_the_folder_is_refused(world: &World<'_>) {
    let guest = world.sandbox().await;
    for path in [
        "../escaped",
        "a/../../escaped",
        "/contract/escaped",
        "..",
        "a/..",
    ] {
        let files = vec![(file(path, 0o644), Bytes::from_static(b"x"))];
        refused(path, write(&guest, "/contract/inner", None, files).await);
    }
    let found = read(&guest, HOME).await;
    assert!(
        !found.keys().any(|path| path.ends_with(b"escaped")),
        "{:?}",
        found.keys()
    );
}

pub async fn a_file_is_written_as_the_user_asked_for(world: &World<'_>) {
    let guest = world.sandbox().await;
    let files = || vec![(file("mine", 0o644), Bytes::from_static(b"x"))];
    write(&guest, "/contract/theirs", Some("1000:1000"), files())
        .await
        .expect("the folder is open");
    write(&guest, "/contract/roots", None, files())
        .await
        .expect("root may");
    let lines = guest.manifest().await;
    let owner = |path: &str| {
        let line = lines
            .iter()
            .find(|line| line.path == path)
            .expect("it is there");
        (line.uid, line.gid)
    };
    assert_eq!(owner("theirs/mine"), (1000, 1000));
    assert_eq!(
        owner("theirs"),
        (1000, 1000),
        "the folder that was made too"
    );
    assert_eq!(owner("roots/mine"), (0, 0));
    let denied = write(&guest, "/contract/roots", Some("1000:1000"), files()).await;
    refused("where that user may not write", denied);
}

pub async fn root_may_give_files_away(world: &World<'_>) {
    let guest = world.sandbox().await;
    let entry = FileEntry {
        uid: Some(12),
        gid: Some(34),
        ..file("given", 0o640)
    };
    write(&guest, HOME, None, vec![(entry, Bytes::new())])
        .await
        .expect("root may");
    let found = read(&guest, "/contract/given").await;
    let entry = &found[&b""[..]].0;
    assert_eq!(
        (entry.uid, entry.gid, entry.mode & 0o7777),
        (Some(12), Some(34), 0o640)
    );
}

/// A sandbox is hostile: its links may point at anything the host has.
pub async fn a_link_out_of_the_sandbox_is_never_followed_on_the_host(world: &World<'_>) {
    let host = HostDirectory::new(&world.name("host"));
    let guest = world.sandbox().await;
    let target = host.path();
    guest.ok(["symlink", &target, "/contract/out"]).await;
    guest
        .ok([
            "symlink",
            &format!("../../../../../..{target}"),
            "/contract/up",
        ])
        .await;
    guest
        .ok(["symlink", "/proc/1/root", "/contract/proc"])
        .await;
    let found = read(&guest, HOME).await;
    let kind = &found[&b"out"[..]].0.kind;
    assert_eq!(
        *kind,
        FileKind::Symlink {
            target: target.clone().into_bytes()
        },
        "read as a link"
    );
    for way in ["out/secret", "up/secret", "out", "up"] {
        let stream = guest
            .provider()
            .await
            .read_files(guest.id, format!("{HOME}/{way}").as_bytes(), None)
            .await;
        let Ok(stream) = stream else { continue };
        let Ok(found) = collect(stream).await else {
            continue;
        };
        for (_, content) in found.values() {
            assert!(
                content != HostDirectory::SECRET,
                "{way} shows the host's file"
            );
        }
    }
    let planted = || Bytes::from_static(b"planted");
    for way in ["out", "up"] {
        // Whether it is refused or lands inside the sandbox: it must not land on the host.
        let below = format!("{HOME}/{way}");
        let _ = write(
            &guest,
            &below,
            None,
            vec![(file("planted", 0o644), planted())],
        )
        .await;
        let through = file(&format!("{way}/planted"), 0o644);
        let _ = write(&guest, HOME, None, vec![(through, planted())]).await;
        let over = file(&format!("{way}/secret"), 0o644);
        let _ = write(&guest, HOME, None, vec![(over, planted())]).await;
    }
    host.is_untouched();
}

fn file(path: &str, mode: u32) -> FileEntry {
    FileEntry {
        path: path.as_bytes().to_vec(),
        kind: FileKind::File,
        mode,
        uid: None,
        gid: None,
    }
}

fn directory(path: &str, mode: u32) -> FileEntry {
    FileEntry {
        kind: FileKind::Directory,
        ..file(path, mode)
    }
}

fn link(path: &str, target: &str) -> FileEntry {
    FileEntry {
        kind: FileKind::Symlink {
            target: target.as_bytes().to_vec(),
        },
        ..file(path, 0o777)
    }
}

async fn write(
    guest: &Guest<'_>,
    path: &str,
    user: Option<&str>,
    files: Vec<(FileEntry, Bytes)>,
) -> Result<(), ProviderError> {
    let provider = guest.provider().await;
    soon(
        "write_files",
        provider.write_files(guest.id, path.as_bytes(), user, files_from(files)),
    )
    .await
}

async fn read(guest: &Guest<'_>, path: &str) -> Files {
    let provider = guest.provider().await;
    let stream = soon(
        "read_files",
        provider.read_files(guest.id, path.as_bytes(), None),
    )
    .await;
    collect(stream.expect("it is read"))
        .await
        .expect("it is read")
}

async fn collect(mut stream: crate::FileStream) -> Result<Files, ProviderError> {
    let mut found = Files::new();
    let mut current = None;
    while let Some(event) = soon("the next piece", stream.recv()).await {
        match event? {
            FileEvent::Entry(entry) => {
                let path = entry.path.clone();
                assert!(
                    found.insert(path.clone(), (entry, Vec::new())).is_none(),
                    "twice: {path:?}"
                );
                current = Some(path);
            }
            FileEvent::Data(data) => {
                let path = current.as_ref().expect("an entry comes before its data");
                found
                    .get_mut(path)
                    .expect("it was put there")
                    .1
                    .extend_from_slice(&data);
            }
        }
    }
    Ok(found)
}
