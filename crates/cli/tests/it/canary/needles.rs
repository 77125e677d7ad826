use std::fmt::Write as _;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use camino::{Utf8Path, Utf8PathBuf};
use model::{Id, Session, SystemClock};

/// What was planted, in every spelling that it may be found in.
pub(super) struct Needles {
    planted: Vec<Planted>,
    /// For `grep`; it is not searched.
    list: Utf8PathBuf,
}

struct Planted {
    kind: String,
    raw: String,
    forms: Vec<String>,
}

impl Needles {
    pub(super) fn plant(kinds: &[&str], aside: &Utf8Path) -> Self {
        let planted: Vec<Planted> = kinds.iter().map(|kind| Planted::new(kind)).collect();
        let list = aside.join("needles");
        let lines: Vec<&str> = planted
            .iter()
            .flat_map(|planted| &planted.forms)
            .map(String::as_str)
            .collect();
        fs_err::write(&list, lines.join("\n") + "\n").unwrap();
        let needles = Self { planted, list };
        needles.would_be_found(aside);
        needles
    }

    pub(super) fn raw(&self, kind: &str) -> &str {
        &self.get(kind).raw
    }

    pub(super) fn of(&self, kind: &str) -> &[String] {
        &self.get(kind).forms
    }

    fn get(&self, kind: &str) -> &Planted {
        let mut planted = self.planted.iter();
        planted.find(|planted| planted.kind == kind).unwrap()
    }

    pub(super) fn are_not_in(&self, what: &str, content: &[u8]) {
        for (kind, form) in self.all() {
            let needle = form.as_bytes();
            let is_there = content.windows(needle.len()).any(|some| some == needle);
            assert!(!is_there, "{kind} is in {what}, as {form}");
        }
    }

    /// The database and its log, records, layers and disks among them.
    pub(super) fn are_in_no_file(&self, below: &Utf8Path) {
        assert_eq!(self.files_with(below), Vec::<String>::new());
    }

    /// Environments and arguments of all that runs on this machine, inside sandboxes as well.
    pub(super) fn are_in_no_process(&self) {
        let mut looked_at = 0;
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if !name.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            for what in ["environ", "cmdline"] {
                // It may be gone by now.
                let Ok(content) = fs_err::read(entry.path().join(what)) else {
                    continue;
                };
                looked_at += 1;
                self.are_not_in(&format!("{what} of process {name}"), &content);
            }
        }
        assert!(looked_at > 10, "nothing was looked at");
    }

    fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.planted.iter().flat_map(|planted| {
            let forms = planted.forms.iter();
            forms.map(|form| (&*planted.kind, form.as_str()))
        })
    }

    fn files_with(&self, below: &Utf8Path) -> Vec<String> {
        let found = Command::new("grep")
            .args([
                "-rlaFs",
                "-D",
                "skip",
                "-f",
                self.list.as_str(),
                below.as_str(),
            ])
            .output()
            .unwrap();
        let found = String::from_utf8_lossy(&found.stdout).into_owned();
        found.lines().map(str::to_owned).collect()
    }

    /// The search would find each of them, in each spelling, in the middle of anything.
    fn would_be_found(&self, aside: &Utf8Path) {
        let place = aside.join("control");
        fs_err::create_dir(&place).unwrap();
        assert_eq!(self.files_with(&place), Vec::<String>::new());
        for planted in &self.planted {
            let raw = planted.raw.as_bytes();
            for before in ["", "x", "yy"] {
                let whole = [before.as_bytes(), raw, b"behind"].concat();
                for text in [
                    whole.clone(),
                    STANDARD.encode(&whole).into_bytes(),
                    URL_SAFE.encode(&whole).into_bytes(),
                    hex(&whole).into_bytes(),
                    percent(&whole).into_bytes(),
                    serde_json::to_vec(&String::from_utf8(whole).unwrap()).unwrap(),
                ] {
                    let file = place.join("file");
                    fs_err::write(&file, [b"\0\xff", &*text, b"\0"].concat()).unwrap();
                    assert_eq!(self.files_with(&place), [file.to_string()]);
                    fs_err::remove_file(file).unwrap();
                }
            }
        }
        fs_err::remove_dir(place).unwrap();
    }
}

impl Planted {
    fn new(kind: &str) -> Self {
        // With what each spelling writes otherwise.
        let random = Id::<Session>::new(&SystemClock).to_string();
        let raw = format!("cnry-{kind}+{random}/&{kind}");
        let bytes = raw.as_bytes();
        let mut forms = vec![
            raw.clone(),
            hex(bytes),
            hex(bytes).to_uppercase(),
            percent(bytes),
        ];
        for before in 0..3 {
            forms.push(middle(&STANDARD, bytes, before));
            forms.push(middle(&URL_SAFE, bytes, before));
        }
        Self {
            kind: kind.to_owned(),
            raw,
            forms,
        }
    }
}

/// What of its base64 does not depend on what stands before and behind it.
fn middle(engine: &impl base64::Engine, bytes: &[u8], before: usize) -> String {
    let whole = [&vec![0; before], bytes].concat();
    let encoded = engine.encode(&whole);
    let encoded = encoded.trim_end_matches('=');
    let first = [0, 2, 3][before];
    let last = encoded.len() - usize::from(whole.len() % 3 != 0);
    encoded[first..last].to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn percent(bytes: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(*byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    bytes.iter().map(one).collect()
}
