//! Archives that try something. Each is refused whole, and nothing outside is touched.

use nacre_portable::Rules;

use crate::forge::{Forged, Ground, refusal};

fn refused(forged: Forged, says: &str) {
    let said = refusal(&forged.bytes());
    assert!(said.contains(says), "`{said}` does not say `{says}`");
}

#[test]
fn a_path_that_leads_up_is_refused() {
    for path in ["../outside/x", "a/../../outside/x", "..", "a/.."] {
        refused(Forged::new().directory("a").file(path, b"x"), "leads out");
    }
}

#[test]
fn an_absolute_path_is_refused() {
    refused(Forged::new().file("/etc/x", b"x"), "absolute");
    let pax = [("path", &b"/etc/x"[..])];
    refused(Forged::new().pax(&pax).file("x", b"x"), "absolute");
}

#[test]
fn a_path_through_a_symbolic_link_is_refused() {
    let link = Forged::new().symbolic_link("a", "../outside");
    refused(link.clone().file("a/x", b"x"), "symbolic link");
    refused(link.clone().directory("a/x"), "symbolic link");
    refused(link.clone().hard_link("x", "a/file"), "symbolic link");
    refused(link.clone().file("a/.wh.file", b""), "symbolic link");
    refused(link.file("a/.wh..wh..opq", b""), "symbolic link");
}

#[test]
fn a_symbolic_link_is_never_written_through() {
    let link = Forged::new().symbolic_link("a", "../outside/file");
    refused(link.clone().file("a", b"x"), "twice");
    refused(link.clone().mode("a", 0o4755), "twice");
    refused(link.clone().directory("a"), "twice");
    refused(link.hard_link("b", "a"), "no file");
}

#[test]
fn a_hard_link_leads_only_to_a_file_that_came_before() {
    for target in ["/etc/passwd", "../outside/file"] {
        let said = refusal(&Forged::new().hard_link("x", target).bytes());
        assert!(said.contains("absolute") || said.contains("leads out"));
    }
    refused(
        Forged::new().hard_link("x", "later").file("later", b""),
        "not in it",
    );
    refused(Forged::new().directory("d").hard_link("x", "d"), "no file");
    refused(Forged::new().hard_link("x", "./"), "directory");
    refused(Forged::new().hard_link("x", "x"), "not in it");
}

#[test]
fn a_device_is_refused() {
    refused(Forged::new().kind(b'3', "null"), "device");
    refused(Forged::new().kind(b'4', "disk"), "device");
}

#[test]
fn an_entry_of_an_unknown_kind_is_refused() {
    for kind in [b'V', b'M', b'g', b'D', b'N', 0xff] {
        refused(Forged::new().kind(kind, "x"), "unknown type");
    }
}

#[test]
fn a_mode_beyond_the_permissions_is_refused() {
    refused(Forged::new().mode("x", 0o100_644), "mode");
    refused(Forged::new().mode("x", 0o10_000), "mode");
}

#[test]
fn a_name_that_comes_twice_is_refused() {
    refused(Forged::new().file("x", b"1").file("x", b"2"), "twice");
    refused(Forged::new().file("x", b"1").file("./x", b"2"), "twice");
    refused(Forged::new().directory("x").directory("x/"), "twice");
    refused(Forged::new().directory("./"), "twice");
    refused(Forged::new().file("x", b"").file(".wh.x", b""), "twice");
    refused(Forged::new().file(".wh.x", b"").file("x", b""), "twice");
    let opaque = Forged::new().file(".wh..wh..opq", b"");
    refused(opaque.file(".wh..wh..opq", b""), "twice");
}

#[test]
fn an_entry_before_its_directory_is_refused() {
    refused(Forged::new().file("a/x", b"").directory("a"), "too late");
}

#[test]
fn whiteouts_of_nothing_and_of_unknown_kinds_are_refused() {
    for name in [
        ".wh.",
        ".wh..",
        ".wh...",
        ".wh..wh.plnk",
        ".wh..wh..wh..opq",
    ] {
        let said = refusal(&Forged::new().file(name, b"").bytes());
        assert!(
            said.contains("whiteout") || said.contains("hides nothing"),
            "{said}"
        );
    }
    refused(Forged::new().file(".wh.x", b"content"), "with a content");
    refused(Forged::new().directory(".wh.x"), "with a content");
}

#[test]
fn a_whiteout_in_the_lowest_layer_is_refused() {
    let tar = Forged::new().file(".wh.x", b"").bytes();
    let error = Ground::new().unpack(&tar, Rules::LowestLayer).unwrap_err();
    assert!(error.to_string().contains("not there"), "{error}");
}

#[test]
fn attributes_of_the_overlay_and_of_the_machine_are_refused() {
    for name in [
        "trusted.overlay.redirect",
        "trusted.overlay.opaque",
        "user.overlay.redirect",
        "security.selinux",
        "trusted.x",
        "system.x",
        "",
    ] {
        let key = format!("SCHILY.xattr.{name}");
        let pax = [(key.as_str(), &b"/etc"[..])];
        refused(Forged::new().pax(&pax).file("x", b""), "no layer has");
        refused(Forged::new().pax(&pax).directory("x"), "no layer has");
    }
}

#[test]
fn a_capability_that_is_none_is_refused() {
    let pax = [("SCHILY.xattr.security.capability", &b"\xff\xff\xff\xff"[..])];
    refused(Forged::new().pax(&pax).file("x", b""), "cannot be");
}

#[test]
fn a_file_that_promises_more_than_it_has_is_refused() {
    refused(Forged::new().promise(b'0', "x", 1 << 20), "cut off");
    refused(Forged::new().promise(b'0', "x", 1 << 40), "larger");
    refused(Forged::new().promise(b'0', "x", u64::MAX), "larger");
}

#[test]
fn content_of_what_has_none_is_refused() {
    for kind in *b"12356" {
        refused(Forged::new().promise(kind, "x", 512), "has content");
    }
}

#[test]
fn huge_headers_are_refused_before_they_are_read() {
    for kind in *b"xLK" {
        refused(Forged::new().promise(kind, "x", 1 << 40), "absurdly long");
        refused(Forged::new().promise(kind, "x", u64::MAX), "absurdly long");
    }
    let mut many = Forged::new();
    for _ in 0..40 {
        many = many.raw_pax(&b"30 comment=aaaaaaaaaaaaaaaaaa\n".repeat(100));
    }
    refused(many.file("x", b""), "absurdly long");
}

#[test]
fn damaged_records_are_refused() {
    for text in [
        &b"99 path=x\n"[..],
        b"5 a=b\n",
        b"x",
        b"6 path\n",
        b"-1 a=b\n",
    ] {
        let said = refusal(&Forged::new().raw_pax(text).file("x", b"").bytes());
        assert!(
            said.contains("damaged") || said.contains("number"),
            "{said}"
        );
    }
    for (key, value) in [("size", "-1"), ("uid", "+1"), ("gid", "x"), ("mtime", "")] {
        let pax = [(key, value.as_bytes())];
        let said = refusal(&Forged::new().pax(&pax).file("x", b"").bytes());
        assert!(said.contains("none"), "{key}: {said}");
    }
}

#[test]
fn paths_that_no_file_system_takes_are_refused() {
    let long = "a".repeat(256);
    let pax = [("path", long.as_bytes())];
    refused(Forged::new().pax(&pax).file("x", b""), "too long");
    let deep = "a/".repeat(65);
    let pax = [("path", deep.as_bytes())];
    refused(Forged::new().pax(&pax).directory("x"), "too deep");
    let very_long = "b/".repeat(4096);
    let pax = [("path", very_long.as_bytes())];
    refused(Forged::new().pax(&pax).directory("x"), "no path");
    let pax = [("path", &b"a\0b"[..])];
    refused(Forged::new().pax(&pax).file("x", b""), "no path");
    refused(Forged::new().file("", b""), "no path");
}

#[test]
fn an_owner_that_is_none_is_refused() {
    for id in ["4294967295", "4294967296", "18446744073709551615"] {
        let pax = [("uid", id.as_bytes())];
        refused(Forged::new().pax(&pax).file("x", b""), "owner");
    }
}

#[test]
fn maps_of_sparse_files_that_lie_are_refused() {
    let sparse = |map: &str, size: &str, stored: u64| {
        let records = [
            ("GNU.sparse.major", &b"1"[..]),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.realsize", size.as_bytes()),
        ];
        let mut content = map.as_bytes().to_vec();
        content.resize(content.len().next_multiple_of(512), 0);
        content.resize(content.len() + usize::try_from(stored).unwrap(), b'x');
        Forged::new().pax(&records).file("x", &content)
    };
    refused(sparse("2\n0\n512\n100\n512\n", "2000", 1024), "contradicts");
    refused(sparse("1\n0\n1024\n", "2000", 512), "contradicts");
    refused(sparse("1\n1500\n512\n", "2000", 512), "contradicts");
    refused(
        sparse("1\n18446744073709551615\n1\n", "5", 1),
        "contradicts",
    );
    refused(sparse("99999999\n", "5", 0), "absurdly many");
    refused(sparse("1\n", "5", 0), "damaged");
    refused(sparse(&format!("1\n0\n{}", " ".repeat(505)), "5", 0), "");
    refused(sparse("", "5", 0), "");
    refused(sparse("1\n0\n0\n", "99999999999999999", 0), "larger");
    let old = [("GNU.sparse.map", &b"0,1"[..])];
    refused(Forged::new().pax(&old).file("x", b""), "not read");
}

#[test]
fn more_entries_than_promised_are_refused() {
    let mut many = Forged::new();
    for number in 0..10_001 {
        many = many.file(&number.to_string(), b"");
    }
    refused(many, "more entries");
}

#[test]
fn something_behind_the_end_is_refused() {
    let mut tar = Forged::new().bytes();
    tar.extend(Forged::new().file("hidden", b"x").bytes());
    assert!(refusal(&tar).contains("follows the end"));
}

#[test]
fn an_archive_that_is_cut_off_or_is_none_is_refused() {
    let whole = Forged::new().file("x", &[7; 2000]);
    for length in [1, 100, 512, 1000, 2047] {
        refusal(&whole.clone().cut(length));
    }
    refusal(&[0xaa; 5000]);
    refusal(b"short");
}

#[test]
fn a_header_whose_sum_is_wrong_is_refused() {
    let mut tar = Forged::new().file("x", b"y").bytes();
    tar[512 + 100] ^= 1;
    assert!(refusal(&tar).contains("damaged"));
}
