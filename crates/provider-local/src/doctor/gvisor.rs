//! The second runtime: whether it is there, and whether it works here.

use provider::Runtime;

use super::scratch::Scratch;
use super::{Finding, Fix, programs, trial};
use crate::{Config, runtime};

const NAME: &str = "gVisor";
/// Older ones lack options that we use.
const OLDEST_YEAR: u32 = 2023;
const INSTALL: Fix = Fix::Script {
    does: "installing runsc by apt, from the backports where the release's own is too old",
    script: include_str!("install-runsc.sh"),
};

pub(super) fn examine(config: &Config, scratch: &Scratch) -> Finding {
    let Some(program) = runtime::runsc() else {
        return Finding::warning(
            NAME,
            "runsc not found: sandboxes share the host's kernel, `--runtime runsc` is refused",
            "install runsc of 2023 or later: Debian 13 has it, Debian 12 in its backports (`apt-get install -t bookworm-backports runsc`)",
        )
        .fixed_by(INSTALL);
    };
    let said = programs::version(program.as_str(), "--version").unwrap_or_default();
    match released(&said) {
        Some(date) if date / 10_000 < OLDEST_YEAR => {
            return Finding::warning(
                NAME,
                format!("runsc of {date} is too old for `--runtime runsc`"),
                "install runsc of 2023 or later: Debian 13 has it, Debian 12 in its backports (`apt-get install -t bookworm-backports runsc`)",
            )
            .fixed_by(INSTALL);
        }
        _ => {}
    }
    match trial::one(config, scratch, Runtime::Runsc) {
        Ok(times) => Finding::ok(NAME, format!("{said}: {times}")),
        Err(error) => Finding::warning(
            NAME,
            format!("{said} does not work here: {error}"),
            "`--runtime runsc` cannot be used on this machine; `--runtime native` can",
        ),
    }
}

/// The day on which it was released, as in `release-20240729.0` or `0.0~20240729.0`.
fn released(version: &str) -> Option<u32> {
    version
        .split(|c: char| !c.is_ascii_digit())
        .find(|digits| digits.len() == 8)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_of_release_is_found_in_each_spelling() {
        assert_eq!(
            released("runsc version release-20240513.0"),
            Some(20_240_513)
        );
        assert_eq!(released("0.0~20221219.0"), Some(20_221_219));
        assert_eq!(released("runsc version VERSION_MISSING"), None);
    }
}
