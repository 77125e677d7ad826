//! The ids that sandboxes have, and whoever else may have them.

use camino::Utf8Path;

use super::Finding;
use crate::Config;
use crate::claim::{IDS_PER_SANDBOX, Ranges};

const NAME: &str = "id ranges";

pub(super) fn examine(config: &Config) -> Vec<Finding> {
    if let Err(error) = Ranges::new(config.first_id, config.ranges) {
        return vec![Finding::missing(
            NAME,
            error.to_string(),
            "correct local.first_id and local.ranges",
        )];
    }
    let ours = ours(config);
    let read = |path: &str| fs_err::read_to_string(path).unwrap_or_default();
    let mut others: Vec<String> = Vec::new();
    for file in ["/etc/subuid", "/etc/subgid"] {
        others.extend(
            overlapping(&subordinate(&read(file)), &ours)
                .map(|name| format!("{file} gives some to {name}")),
        );
    }
    for file in ["/etc/passwd", "/etc/group"] {
        others.extend(
            overlapping(&single(&read(file)), &ours).map(|name| format!("{file} has {name}")),
        );
    }
    let free = config.ranges - claimed(config);
    if free == 0 {
        return vec![Finding::warning(
            NAME,
            format!("all {} are in use", config.ranges),
            "remove sandboxes with `nacre sandbox rm`, or raise local.ranges",
        )];
    }
    let found = format!(
        "{free} of {} free, ids {} to {}",
        config.ranges,
        ours.first,
        ours.first + ours.count - 1
    );
    vec![match others.first() {
        None => Finding::ok(NAME, found),
        Some(first) => Finding::warning(
            NAME,
            format!("{found}; {first}{}", more(others.len() - 1)),
            "set local.first_id to ids that nobody else has: whoever shares them may reach a sandbox's files",
        ),
    }]
}

fn more(count: usize) -> String {
    if count == 0 {
        String::new()
    } else {
        format!(", and {count} more")
    }
}

/// The first id of a range that no sandbox of this home has now.
pub(super) fn free(config: &Config) -> u32 {
    let last_to_first = (0..config.ranges)
        .rev()
        .map(|number| config.first_id + number * IDS_PER_SANDBOX);
    let is_free = |first: &u32| !config.home.join(format!("ranges/{first}")).exists();
    last_to_first
        .clone()
        .find(is_free)
        .unwrap_or(config.first_id)
}

fn claimed(config: &Config) -> u32 {
    let entries = Utf8Path::read_dir_utf8(&config.home.join("ranges"));
    let ours = ours(config);
    let count = entries.into_iter().flatten().flatten().filter(|entry| {
        let first: Result<u64, _> = entry.file_name().parse();
        first.is_ok_and(|first| (ours.first..ours.first + ours.count).contains(&first))
    });
    u32::try_from(count.count())
        .unwrap_or(u32::MAX)
        .min(config.ranges)
}

#[derive(Debug, PartialEq, Eq)]
struct Ids {
    first: u64,
    count: u64,
}

fn ours(config: &Config) -> Ids {
    Ids {
        first: config.first_id.into(),
        count: u64::from(config.ranges) * u64::from(IDS_PER_SANDBOX),
    }
}

/// `name:first:count`.
fn subordinate(text: &str) -> Vec<(String, Ids)> {
    let entry = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        let first = fields.next()?.parse().ok()?;
        Some((
            name,
            Ids {
                first,
                count: fields.next()?.trim().parse().ok()?,
            },
        ))
    };
    text.lines().filter_map(entry).collect()
}

/// `name:password:id:…`.
fn single(text: &str) -> Vec<(String, Ids)> {
    let entry = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((
            name,
            Ids {
                first: fields.nth(1)?.parse().ok()?,
                count: 1,
            },
        ))
    };
    text.lines().filter_map(entry).collect()
}

fn overlapping<'a>(entries: &'a [(String, Ids)], ours: &'a Ids) -> impl Iterator<Item = &'a str> {
    let meets = |ids: &Ids| {
        ids.first < ours.first + ours.count && ours.first < ids.first.saturating_add(ids.count)
    };
    entries
        .iter()
        .filter(move |(_, ids)| meets(ids))
        .map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Ids = Ids {
        first: 1_000_000,
        count: 65_536,
    };

    fn found(entries: &[(String, Ids)]) -> Vec<&str> {
        overlapping(entries, &OURS).collect()
    }

    #[test]
    fn who_has_subordinate_ids_of_ours_is_named() {
        let text = "before:900000:100000\nat:934465:65536\ninside:1000001:1\nafter:1065536:65536\nall:0:4294967295\n";
        assert_eq!(found(&subordinate(text)), ["at", "inside", "all"]);
    }

    #[test]
    fn a_user_with_an_id_of_ours_is_named() {
        let text = "root:x:0:0:root:/root:/bin/sh\nus:x:1000000:1000000::/:/bin/sh\nlast:x:1065535:1::/:\n";
        assert_eq!(found(&single(text)), ["us", "last"]);
    }

    #[test]
    fn lines_that_mean_nothing_are_passed_over() {
        assert_eq!(subordinate("# a comment\nhalf:12\n:::\nx:1:many\n"), []);
        assert_eq!(single("+::::\n\nname\n"), []);
    }
}
