use super::*;

fn quiet() -> Output {
    Output::new(true)
}

/// A directory to unpack into, and one beside it that nothing may reach.
struct Place {
    root: camino_tempfile::Utf8TempDir,
}

impl Place {
    fn new() -> Self {
        let root = camino_tempfile::tempdir().unwrap();
        fs_err::create_dir(root.path().join("into")).unwrap();
        fs_err::write(root.path().join("secret"), "kept").unwrap();
        Self { root }
    }

    fn unpack(&self, archive: &[u8]) -> Result<Copied, CommandError> {
        let into = self.root.path().join("into").into_std_path_buf();
        unpack(archive, quiet(), |_| Ok((into, OsString::from("tree"))))
    }

    fn read(&self, path: &str) -> String {
        fs_err::read_to_string(self.root.path().join("into/tree").join(path)).unwrap()
    }
}

struct Hostile(Builder<Vec<u8>>);

impl Hostile {
    fn new() -> Self {
        Self(Builder::new(Vec::new())).entry("./", EntryType::Directory, "", "")
    }

    /// Written as it is: the builder itself would refuse what an attacker does not.
    fn entry(mut self, name: &str, kind: EntryType, link: &str, content: &str) -> Self {
        let mut header = Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.append(&header, content.as_bytes()).unwrap();
        self
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

#[test]
fn a_tree_comes_back_as_it_was() {
    let place = Place::new();
    let from = camino_tempfile::tempdir().unwrap();
    let deep = "d".repeat(120);
    fs_err::create_dir_all(from.path().join(&deep)).unwrap();
    fs_err::write(from.path().join(&deep).join("pearl.txt"), "grit").unwrap();
    fs_err::write(from.path().join("empty"), "").unwrap();
    fs_err::os::unix::fs::symlink("/nowhere", from.path().join("link")).unwrap();
    let mut archive = Vec::new();
    let packed = pack(from.path().as_std_path(), &mut archive, quiet()).unwrap();
    assert_eq!(packed, Copied { files: 2, bytes: 4 });
    // As the session's own tar has it: the directory itself comes first.
    let mut whole = Hostile::new().bytes();
    whole.truncate(512);
    whole.extend(archive);
    assert_eq!(place.unpack(&whole).unwrap(), packed);
    assert_eq!(place.read(&format!("{deep}/pearl.txt")), "grit");
    let link = fs_err::read_link(place.root.path().join("into/tree/link")).unwrap();
    assert_eq!(link, Path::new("/nowhere"));
}

#[test]
fn nothing_lands_outside() {
    let file = EntryType::Regular;
    let attacks = [
        Hostile::new().entry("../secret", file, "", "lost"),
        Hostile::new().entry("./../../secret", file, "", "lost"),
        Hostile::new().entry("/etc/nacre-test", file, "", "lost"),
        Hostile::new()
            .entry("./out", EntryType::Symlink, "../..", "")
            .entry("./out/secret", file, "", "lost"),
        Hostile::new()
            .entry("./out", EntryType::Link, "../../secret", "")
            .entry("./out", file, "", "lost"),
    ];
    for attack in attacks {
        let place = Place::new();
        assert!(place.unpack(&attack.bytes()).is_err());
        let secret = fs_err::read_to_string(place.root.path().join("secret"));
        assert_eq!(secret.unwrap(), "kept");
    }
}

#[test]
fn a_link_that_is_replaced_is_not_written_through() {
    let place = Place::new();
    let attack = Hostile::new()
        .entry("./a", EntryType::Symlink, "../../secret", "")
        .entry("./a", EntryType::Regular, "", "mine");
    place.unpack(&attack.bytes()).unwrap();
    assert_eq!(place.read("a"), "mine");
    let secret = fs_err::read_to_string(place.root.path().join("secret"));
    assert_eq!(secret.unwrap(), "kept");
}

#[test]
fn a_name_without_end_is_not_read_to_its_end() {
    let place = Place::new();
    let name = "n".repeat(1 << 20);
    let attack = Hostile::new().entry("././@LongLink", EntryType::GNULongName, "", &name);
    assert!(place.unpack(&attack.bytes()).is_err());
}

#[test]
fn a_file_that_is_cut_off_is_no_file() {
    let place = Place::new();
    let mut archive = Hostile::new()
        .entry("./a", EntryType::Regular, "", &"x".repeat(4096))
        .bytes();
    archive.truncate(512 * 4);
    assert!(place.unpack(&archive).is_err());
    assert!(!place.root.path().join("into/tree/a").exists());
}

#[test]
fn a_size_beyond_all_measure_is_refused_before_it_is_written() {
    let place = Place::new();
    let mut header = Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..3].copy_from_slice(b"./a");
    header.set_entry_type(EntryType::Regular);
    header.set_size(1 << 50);
    header.set_cksum();
    let mut archive = Hostile::new().bytes();
    archive.truncate(512);
    archive.extend_from_slice(header.as_bytes());
    assert!(place.unpack(&archive).is_err());
}

#[test]
fn one_file_lands_under_the_name_that_was_asked_for() {
    let place = Place::new();
    let mut archive = Hostile(Builder::new(Vec::new()));
    archive = archive.entry("./other", EntryType::Regular, "", "pearl");
    place.unpack(&archive.bytes()).unwrap();
    let read = fs_err::read_to_string(place.root.path().join("into/tree"));
    assert_eq!(read.unwrap(), "pearl");
}
