//! `nacre doctor --fix`, as far as it changes nothing but the configuration.

use serde_json::json;

use crate::Nacre;

const LOOKED_AT: [&str; 4] = ["upstream proxy", "pip index", "npm registry", "cargo index"];

fn doctor(nacre: &Nacre, fix: bool) -> serde_json::Value {
    let mut arguments = vec!["--json", "doctor"];
    arguments.extend(LOOKED_AT.iter().flat_map(|name| ["--only", name]));
    if fix {
        arguments.push("--fix");
    }
    let ran = nacre.run(arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    ran.json()
}

fn statuses(report: &serde_json::Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|finding| finding["status"].as_str().unwrap())
        .collect()
}

#[test]
fn what_this_machine_uses_to_get_out_is_proposed_and_then_set() {
    let nacre = Nacre::new()
        .with_file("# ours\n[egress]\nallow = [\"build.example\"] # and no more\n")
        .with("https_proxy", "http://someone:hush@proxy.example:3128")
        .with("PIP_INDEX_URL", "https://pip.example/simple");
    let user_home = nacre.path("user");
    fs_err::create_dir_all(user_home.join(".cargo")).unwrap();
    fs_err::write(
        user_home.join(".npmrc"),
        "registry=https://npm.example/all/\n",
    )
    .unwrap();
    fs_err::write(
        user_home.join(".cargo/config.toml"),
        "[source.crates-io]\nreplace-with = \"near\"\n\
         [source.near]\nregistry = \"sparse+https://crates.example/index/\"\n",
    )
    .unwrap();
    let nacre = nacre.with("HOME", user_home.as_str());

    let before = doctor(&nacre, false);
    assert_eq!(statuses(&before), ["warning"; 4], "{before}");
    assert!(!before.to_string().contains("hush"), "{before}");

    let after = doctor(&nacre, true);
    assert_eq!(after["fixed"], json!(LOOKED_AT), "{after}");
    assert_eq!(statuses(&after), ["ok"; 4], "{after}");
    assert!(!after.to_string().contains("hush"), "{after}");

    let file = nacre.path("nacre.toml");
    insta::assert_snapshot!(fs_err::read_to_string(&file).unwrap(), @r#"
    # ours
    [egress]
    allow = ["build.example"] # and no more
    upstream = "http://someone:hush@proxy.example:3128"
    pip_index = "https://pip.example/simple"
    npm_registry = "https://npm.example/all/"
    cargo_index = "sparse+https://crates.example/index/"
    "#);
    let mode = std::os::unix::fs::MetadataExt::mode(&fs_err::metadata(&file).unwrap());
    assert_eq!(mode & 0o777, 0o600, "a password is in it");
    assert_eq!(doctor(&nacre, true)["fixed"], json!([]), "done twice");
}

#[test]
fn an_unknown_name_is_refused_with_the_known_ones() {
    let ran = Nacre::new().run(["doctor", "--only", "weather"]);
    assert_eq!(ran.code, Some(2), "{}", ran.transcript());
    assert!(ran.stderr.contains("pip index"), "{}", ran.stderr);
}
