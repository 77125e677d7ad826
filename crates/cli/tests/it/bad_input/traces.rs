use std::collections::BTreeSet;

use camino::Utf8Path;

use crate::world::World;

const KEPT: [&str; 7] = [
    "sandboxes",
    "layers",
    "intents",
    "ranges",
    "names",
    "keys",
    "trash",
];

/// Everything that belongs to a home, in it and outside it.
pub(super) struct Traces {
    group: String,
    found: BTreeSet<String>,
}

impl Traces {
    /// What there is now, after a first sandbox has come and gone: the host's skeleton is made.
    pub(super) fn of(world: &World) -> Self {
        let id = world.create(&[]);
        let shown = world.ok(&["sandbox", "show", &id]);
        let cgroups = fs_err::read_to_string(format!("/proc/{}/cgroup", shown["pid"])).unwrap();
        let unified = cgroups.lines().find_map(|line| line.strip_prefix("0::/"));
        let group = unified.unwrap().split('/').next().unwrap().to_owned();
        assert!(group.starts_with("nacre-"), "{cgroups}");
        world.ok(&["sandbox", "rm", &id]);
        // Whatever that left is another test's business.
        world.ok(&["sandbox", "ls", "--all"]);
        let found = find(world.nacre.home.path(), &group);
        Self { group, found }
    }

    #[track_caller]
    pub(super) fn assert_no_more(&self, world: &World, after: &str) {
        let now = find(world.nacre.home.path(), &self.group);
        let more: Vec<&String> = now.difference(&self.found).collect();
        assert!(more.is_empty(), "{after} left {more:?}");
    }
}

/// What an attempt left in a home in which nothing ever ran.
#[track_caller]
pub(super) fn assert_untouched(home: &Utf8Path) {
    let found: Vec<String> = find(home, "nacre-no-such-group")
        .into_iter()
        // Whole, and of use to the next attempt.
        .filter(|trace| !trace.starts_with("layers/host-"))
        .collect();
    assert!(found.is_empty(), "left: {found:?}");
}

fn find(home: &Utf8Path, group: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for directory in KEPT {
        found.extend(names(&home.join(directory)).map(|name| format!("{directory}/{name}")));
    }
    let hierarchies = names(Utf8Path::new("/sys/fs/cgroup")).chain([String::new()]);
    for hierarchy in hierarchies {
        let place = Utf8Path::new("/sys/fs/cgroup").join(&hierarchy).join(group);
        found.extend(
            names(&place)
                .filter(|name| name.starts_with("sbx_"))
                .map(|name| format!("cgroup {hierarchy}/{name}")),
        );
    }
    found.extend(processes(home));
    found
}

/// Keepers are started by a path in the home.
fn processes(home: &Utf8Path) -> impl Iterator<Item = String> {
    let programs = format!("{home}/bin/");
    names(Utf8Path::new("/proc")).filter_map(move |pid| {
        let words = fs_err::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        words
            .starts_with(&programs)
            .then(|| format!("process {pid}: {words}"))
    })
}

fn names(directory: &Utf8Path) -> impl Iterator<Item = String> {
    let entries = directory.read_dir_utf8().into_iter().flatten();
    entries.flatten().map(|entry| entry.file_name().to_owned())
}
