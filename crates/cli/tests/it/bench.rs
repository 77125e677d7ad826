//! The benchmark as a command: that it works and leaves nothing, never how fast anything is.

use serde_json::Value;

use crate::Nacre;
use crate::based::Based;
use crate::world::World;

#[test]
fn a_quick_benchmark_has_every_figure_and_leaves_nothing() {
    let world = World::new();
    let report = world.ok(&["bench", "sandbox", "--quick", "--only", "create_exec,exec"]);
    assert_eq!(report["quick"], true);
    for name in ["create_exec", "create", "exec"] {
        let operation = named(&report["operations"], name);
        assert_eq!(operation["n"], 5, "{operation}");
        for figure in ["min_ms", "p50_ms", "p95_ms", "p99_ms"] {
            let ms = operation[figure].as_f64();
            assert!(ms.is_some_and(|ms| ms > 0.0), "{figure} in {operation}");
        }
    }
    for peer in ["bubblewrap", "runc", "crun", "podman", "docker"] {
        let peer = named(&report["peers"], peer);
        let measured = !peer["operations"].as_array().unwrap().is_empty();
        assert!(measured || peer["reason"].is_string(), "{peer}");
    }
    assert_eq!(report["goals"].as_array().map(Vec::len), Some(3));
    assert!(report["machine"]["cores"].as_u64() >= Some(1), "{report}");
    assert_eq!(report["failures"], Value::Array(Vec::new()));
    let left: Vec<_> = world.nacre.home.path().read_dir_utf8().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_quick_benchmark_of_moving_has_every_figure_and_leaves_nothing() {
    let world = World::new();
    let report = world.ok(&["bench", "portable", "--quick"]);
    for name in ["export_1gib", "import_1gib", "export_20000_files"] {
        assert_eq!(named(&report["operations"], name)["n"], 1);
        let peer = format!("{name}, tar and zstd");
        assert_eq!(named(&report["operations"], &peer)["n"], 1);
    }
    assert_eq!(report["goals"].as_array().map(Vec::len), Some(4));
    let left: Vec<_> = world.nacre.home.path().read_dir_utf8().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_quick_benchmark_of_a_workplace_has_every_figure_and_leaves_nothing() {
    let Some(based) = Based::slim() else { return };
    let ran = based.nacre.run(["--json", "bench", "runner", "--quick"]);
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    let report = ran.json();
    for (name, n) in [
        ("create_exec, with a workplace", 3),
        ("create to agent ready", 1),
        ("OpenCode alone, to its first answer", 1),
        ("300 deltas: added by runner and link", 300),
        ("terminal: a key and its echo", 20),
    ] {
        assert_eq!(named(&report["operations"], name)["n"], n, "{name}");
    }
    for name in ["300 deltas", "300 deltas with a link that is cut"] {
        let goals = report["goals"].as_array().into_iter().flatten();
        let whole = goals
            .filter(|goal| goal["name"] == name && goal["figure"] == "lost or doubled")
            .collect::<Vec<_>>();
        assert_eq!(whole.len(), 1, "{report}");
        assert_eq!(whole[0]["met"], true, "{}", whole[0]);
    }
    for way in ["direct", "gateway", "caddy"] {
        let value = named(&report["values"], &format!("{way}: 64 KiB bodies"));
        assert!(value["value"].as_f64() > Some(0.0), "{value}");
    }
    assert_eq!(report["goals"].as_array().map(Vec::len), Some(13));
    let all = based.nacre.run(["--json", "sandbox", "ls", "--all"]).json();
    let left = all["sandboxes"].as_array().into_iter().flatten();
    let ours = left
        .filter(|sandbox| sandbox["labels"]["nacre-bench"].is_string())
        .count();
    assert_eq!(ours, 0, "{all}");
}

#[test]
fn a_quick_benchmark_of_the_gateway_has_every_figure_and_leaves_nothing() {
    let Some(based) = Based::slim() else { return };
    let base = based.base.to_string();
    let home = Nacre::new().home;
    let ran = based.nacre.run([
        "--json",
        "bench",
        "gateway",
        "--quick",
        "--base",
        &base,
        "--home",
        home.path().as_str(),
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    let report = ran.json();
    for load in [
        "1 client",
        "100 clients",
        "1,000 clients",
        "1,000 clients, backlog",
    ] {
        for whose in ["ours", "Node"] {
            let value = named(&report["values"], &format!("deliveries: {load}, {whose}"));
            assert!(value["value"].as_f64() > Some(0.0), "{value}");
        }
    }
    for way in ["direct", "preview", "caddy"] {
        let value = named(&report["values"], &format!("{way}: 1 KiB bodies"));
        assert!(value["value"].as_f64() > Some(0.0), "{value}");
    }
    assert_eq!(named(&report["values"], "idle: sockets")["value"], 60.0);
    assert_eq!(named(&report["operations"], "POST /v1/sessions")["n"], 20);
    assert_eq!(report["goals"].as_array().map(Vec::len), Some(8));
    let left: Vec<_> = home.path().read_dir_utf8().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn without_a_base_the_benchmark_of_a_workplace_says_how_to_get_one() {
    let ran = Nacre::new().run(["bench", "runner", "--quick"]);
    insta::assert_snapshot!(ran.transcript(), @"
    error: there is no base to start sandboxes from
    hint: `nacre base build --slim` builds one, or name a snapshot with `--base`
    [exit 3]
    ");
}

#[test]
fn an_operation_that_is_none_is_wrong_usage() {
    let ran = World::new().run(&["bench", "sandbox", "--only", "nonsense"]);
    assert_eq!(ran.code, Some(2), "{}", ran.transcript());
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list.as_array().into_iter().flatten();
    found
        .into_iter()
        .find(|item| item["name"] == name)
        .unwrap_or_else(|| panic!("{name} is not in {list}"))
}
