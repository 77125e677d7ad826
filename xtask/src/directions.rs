//! Which of our crates may use which. Checked against what cargo says, so that a dependency
//! cannot slip in unnoticed.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::command::{command, output_of};
use crate::report::End;

/// What a crate of ours may use of ours. Tests of any of them may use `nacre-testkit` too.
enum May {
    Use(&'static [&'static str]),
    /// Where everything comes together.
    UseAll,
}

const RULES: &[(&str, May)] = &[
    ("nacre-model", May::Use(&[])),
    ("nacre-wire", May::Use(&[])),
    ("nacre-provider", May::Use(&["nacre-model", "nacre-wire?"])),
    ("nacre-portable", May::Use(&["nacre-model"])),
    (
        "nacre-provider-local",
        May::Use(&[
            "nacre-egress",
            "nacre-model",
            "nacre-portable",
            "nacre-provider",
            "nacre-wire",
        ]),
    ),
    ("nacre-agent", May::Use(&["nacre-model", "nacre-wire?"])),
    ("nacre-relay", May::Use(&[])),
    ("nacre-carrier", May::Use(&["nacre-wire"])),
    ("nacre-client", May::Use(&["nacre-wire"])),
    (
        "nacre-attach",
        May::Use(&["nacre-client", "nacre-model", "nacre-wire"]),
    ),
    (
        "nacre-egress",
        May::Use(&["nacre-model", "nacre-relay", "nacre-wire"]),
    ),
    ("nacre-keeper", May::Use(&["nacre-model", "nacre-wire"])),
    ("nacre-runner", May::Use(&["nacre-model", "nacre-wire"])),
    (
        "nacre-workplace",
        May::Use(&[
            "nacre-agent",
            "nacre-carrier",
            "nacre-model",
            "nacre-relay",
            "nacre-wire",
        ]),
    ),
    (
        "nacre-guest",
        May::Use(&["nacre-runner", "nacre-workplace"]),
    ),
    ("nacre-telemetry", May::Use(&["nacre-model"])),
    ("nacre-store", May::Use(&["nacre-model", "nacre-wire"])),
    ("nacre-jobs", May::Use(&["nacre-model", "nacre-store"])),
    (
        "nacre-sessions",
        May::Use(&[
            "nacre-agent",
            "nacre-carrier",
            "nacre-jobs",
            "nacre-model",
            "nacre-provider",
            "nacre-store",
            "nacre-telemetry",
            "nacre-wire",
        ]),
    ),
    (
        "nacre-doors",
        May::Use(&["nacre-egress", "nacre-model", "nacre-wire"]),
    ),
    (
        "nacre-gateway",
        May::Use(&[
            "nacre-model",
            "nacre-provider",
            "nacre-sessions",
            "nacre-store",
            "nacre-telemetry",
            "nacre-wire",
        ]),
    ),
    // The only one that names concrete providers.
    (
        "nacre-prove",
        May::Use(&[
            "nacre-model",
            "nacre-provider",
            "nacre-sessions",
            "nacre-store",
            "nacre-wire",
        ]),
    ),
    (
        "nacre-server",
        May::Use(&[
            "nacre-doors",
            "nacre-egress",
            "nacre-gateway",
            "nacre-model",
            "nacre-provider",
            "nacre-sessions",
            "nacre-store",
            "nacre-telemetry",
            "nacre-wire",
        ]),
    ),
    ("nacre", May::UseAll),
    ("nacre-testkit", May::UseAll),
    ("xtask", May::Use(&[])),
];

pub(crate) fn check() -> Result<End> {
    let line = "cargo metadata --format-version 1 --no-deps";
    let metadata = serde_json::from_str(&output_of(&mut command(line))?)?;
    let broken = broken_rules(&metadata)?;
    ensure!(
        broken.is_empty(),
        "{}\nthe rules are in {}",
        broken.join("\n"),
        file!()
    );
    Ok(End::Passed)
}

fn broken_rules(metadata: &Value) -> Result<Vec<String>> {
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata without packages")?;
    let ours: Vec<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    let mut broken = Vec::new();
    for package in packages {
        let name = package["name"]
            .as_str()
            .context("a package without a name")?;
        let Some((_, may)) = RULES.iter().find(|(of, _)| *of == name) else {
            broken.push(format!("{name} has no rule"));
            continue;
        };
        let dependencies = package["dependencies"]
            .as_array()
            .context("no dependencies")?;
        for dependency in dependencies {
            let used = dependency["name"]
                .as_str()
                .context("a dependency without a name")?;
            if ours.contains(&used) && !allows(may, dependency, used) {
                broken.push(format!("{name} may not use {used}"));
            }
        }
    }
    Ok(broken)
}

/// A question mark after a name: only as an optional dependency, behind a feature.
fn allows(may: &May, dependency: &Value, used: &str) -> bool {
    let in_tests = dependency["kind"] == "dev";
    if used == "nacre-testkit" {
        return in_tests;
    }
    let optional = dependency["optional"] == true;
    match may {
        May::UseAll => true,
        May::Use(list) => list.iter().any(|allowed| match allowed.strip_suffix('?') {
            Some(allowed) => allowed == used && (optional || in_tests),
            None => *allowed == used,
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn broken_by(package: &str, dependency: &Value) -> Vec<String> {
        let used = dependency["name"].clone();
        let metadata = json!({"packages": [
            {"name": package, "dependencies": [dependency]},
            {"name": used, "dependencies": []},
        ]});
        broken_rules(&metadata).unwrap()
    }

    #[test]
    fn the_model_uses_nothing_of_ours() {
        let wire = json!({"name": "nacre-wire", "kind": null, "optional": false});
        assert_eq!(
            broken_by("nacre-model", &wire),
            ["nacre-model may not use nacre-wire"]
        );
    }

    #[test]
    fn a_provider_uses_the_wire_only_behind_a_feature() {
        let always = json!({"name": "nacre-wire", "kind": null, "optional": false});
        let optional = json!({"name": "nacre-wire", "kind": null, "optional": true});
        assert_eq!(broken_by("nacre-provider", &always).len(), 1);
        assert!(broken_by("nacre-provider", &optional).is_empty());
    }

    #[test]
    fn the_testkit_is_for_tests() {
        let shipped = json!({"name": "nacre-testkit", "kind": null, "optional": false});
        let tested = json!({"name": "nacre-testkit", "kind": "dev", "optional": false});
        assert_eq!(broken_by("nacre", &shipped).len(), 1);
        assert!(broken_by("nacre-model", &tested).is_empty());
    }

    #[test]
    fn a_new_crate_needs_a_rule() {
        let model = json!({"name": "nacre-model", "kind": null, "optional": false});
        assert_eq!(broken_by("nacre-news", &model), ["nacre-news has no rule"]);
    }
}
