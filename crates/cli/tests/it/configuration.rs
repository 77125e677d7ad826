use serde_json::Value;

use crate::Nacre;

/// `key value source` of one setting.
fn setting(nacre: &Nacre, key: &str) -> String {
    let ran = nacre.run(["config", "check", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let settings = ran.json()["settings"].as_array().unwrap().clone();
    let found = settings
        .into_iter()
        .find(|setting| setting["key"] == key)
        .unwrap();
    let plain = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    format!("{} {}", plain(&found["value"]), plain(&found["source"]))
}

#[test]
fn without_a_file_everything_has_a_default() {
    let nacre = Nacre::new();
    assert_eq!(setting(&nacre, "home"), "[home] NACRE_HOME");
    assert_eq!(setting(&nacre, "config"), "[home]/nacre.toml default");
    for key in [
        "local.first_id",
        "local.ranges",
        "local.pause_to_disk_after",
    ] {
        assert!(setting(&nacre, key).ends_with(" default"), "{key}");
    }
}

#[test]
fn the_file_comes_over_the_default_and_the_environment_over_the_file() {
    let nacre = Nacre::new()
        .with_file("[local]\nranges = 7\npause_to_disk_after = \"90m\"\n")
        .with("NACRE_LOCAL__RANGES", "9");
    assert_eq!(setting(&nacre, "local.ranges"), "9 NACRE_LOCAL__RANGES");
    assert_eq!(
        setting(&nacre, "local.pause_to_disk_after"),
        "1h 30m [home]/nacre.toml"
    );
    assert!(setting(&nacre, "local.first_id").ends_with(" default"));
}

#[test]
fn the_file_may_be_elsewhere() {
    let nacre = Nacre::new();
    fs_err::write(nacre.path("other.toml"), "[local]\nranges = 3\n").unwrap();
    let other = nacre.path("other.toml");
    let nacre = nacre.with("NACRE_CONFIG", other.as_str());
    assert_eq!(setting(&nacre, "local.ranges"), "3 [home]/other.toml");
}

#[test]
fn variables_without_a_section_are_not_settings() {
    let nacre = Nacre::new()
        .with("NACRE_URL", "http://localhost")
        .with("NACRE_TOKEN", "t0ken-canary");
    let ran = nacre.run(["config", "check"]);
    assert_eq!(ran.code, Some(0));
    assert!(!ran.transcript().contains("t0ken-canary"));
}

#[test]
fn the_settings_are_shown_with_where_they_are_from() {
    let nacre = Nacre::new()
        .with_file("[local]\nfirst_id = 1000000\npause_to_disk_after = \"1h\"\n")
        .with("NACRE_LOCAL__RANGES", "100");
    insta::assert_snapshot!(nacre.run(["config", "check"]).transcript(), @r"
    KEY                        VALUE                    FROM
    home                       [home]               NACRE_HOME
    config                     [home]/nacre.toml    default
    egress.allow               []                       default
    egress.cargo_index         -                        default
    egress.default             registries               default
    egress.npm_registry        -                        default
    egress.pip_index           -                        default
    egress.private             []                       default
    egress.upstream            -                        default
    git.forges                 []                       default
    git.hosts                  []                       default
    local.first_id             1000000                  [home]/nacre.toml
    local.pause_to_disk_after  1h                       [home]/nacre.toml
    local.ranges               100                      NACRE_LOCAL__RANGES
    log.filter                 -                        default
    log.format                 text                     default
    models.anthropic_models    []                       default
    models.anthropic_url       -                        default
    models.at_a_time           -                        default
    models.custom              []                       default
    models.default             -                        default
    models.demo                true                     default
    models.micros_per_session  -                        default
    models.openai_models       []                       default
    models.openai_url          -                        default
    models.per_minute          -                        default
    models.prices              []                       default
    models.tokens_per_session  -                        default
    preview.domain             preview.nacre.localhost  default
    server.hosts               []                       default
    server.listen              127.0.0.1:7070           default
    server.url                 -                        default
    sessions.egress            proxy                    default
    sessions.egress_allow      []                       default
    sessions.egress_of         {}                       default
    sessions.idle              15m                      default
    sessions.idle_in_chats     30m                      default
    sessions.paused            3h                       default
    sessions.provider          local                    default
    sessions.snapshots         5                        default
    telemetry.endpoint         -                        default
    [exit 0]
    ");
}

#[test]
fn the_way_out_is_configured_and_its_password_is_not_shown() {
    let nacre = Nacre::new()
        .with_file("[egress]\ndefault = \"none\"\nupstream = \"http://me:hunter2@proxy:3128\"\n")
        .with("NACRE_EGRESS__ALLOW", "[\"*.example.org\"]");
    assert_eq!(setting(&nacre, "egress.default"), "none [home]/nacre.toml");
    assert_eq!(
        setting(&nacre, "egress.allow"),
        "[\"*.example.org\"] NACRE_EGRESS__ALLOW"
    );
    assert_eq!(
        setting(&nacre, "egress.upstream"),
        "http://***@proxy:3128 [home]/nacre.toml"
    );
}

#[test]
fn a_bad_value_names_its_place() {
    let cases = [
        (
            Nacre::new().with_file("[local]\nranges = \"many\"\n"),
            ["local.ranges", "[home]/nacre.toml"],
        ),
        (
            Nacre::new().with("NACRE_EGRESS__ALLOW", "[\"https://a\"]"),
            ["egress.allow", "NACRE_EGRESS__ALLOW"],
        ),
        (
            Nacre::new().with_file("[egress]\nprivate = [\"*\"]\n"),
            ["egress.private", "[home]/nacre.toml"],
        ),
        (
            Nacre::new().with("NACRE_LOCAL__RANGES", "many"),
            ["local.ranges", "NACRE_LOCAL__RANGES"],
        ),
        (
            Nacre::new().with("NACRE_LOCAL__RANGES", "0"),
            ["local.ranges", "NACRE_LOCAL__RANGES"],
        ),
        (
            Nacre::new().with("NACRE_LOCAL__RANGES", "99999"),
            ["local.ranges", "NACRE_LOCAL__RANGES"],
        ),
        (
            Nacre::new().with("NACRE_LOCAL__FIRST_ID", "-1"),
            ["local.first_id", "NACRE_LOCAL__FIRST_ID"],
        ),
        (
            Nacre::new().with_file("[local]\nfirst_id = 1000\n"),
            ["local.first_id", "[home]/nacre.toml"],
        ),
        (
            Nacre::new().with_file("[local]\npause_to_disk_after = 5\n"),
            ["local.pause_to_disk_after", "[home]/nacre.toml"],
        ),
        (
            Nacre::new().with_file("[local]\npause_to_disk_after = \"soon\"\n"),
            ["local.pause_to_disk_after", "[home]/nacre.toml"],
        ),
        (
            Nacre::new().with_file("[local]\npause_to_disk_after = \"0s\"\n"),
            ["local.pause_to_disk_after", "[home]/nacre.toml"],
        ),
        (
            Nacre::new().with_file("[local]\nrangs = 5\n"),
            ["rangs", "[home]/nacre.toml"],
        ),
        (
            Nacre::new().with("NACRE_LOCAL__RANGS", "5"),
            ["rangs", "NACRE_LOCAL__RANGS"],
        ),
        (
            Nacre::new().with_file("[lokal]\nranges = 5\n"),
            ["lokal", "[home]/nacre.toml"],
        ),
        (
            Nacre::new().with_file("[local\n"),
            ["expected", "[home]/nacre.toml"],
        ),
    ];
    for (nacre, parts) in cases {
        let ran = nacre.run(["config", "check"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        for part in parts {
            assert!(ran.stderr.contains(part), "{part} is not in {}", ran.stderr);
        }
    }
}

#[test]
fn a_bad_value_is_told_to_people() {
    let nacre = Nacre::new().with_file("[local]\nranges = \"many\"\n");
    insta::assert_snapshot!(nacre.run(["config", "check"]).transcript(), @r#"
    error: `local.ranges` from [home]/nacre.toml: invalid type: found string "many", expected u32
    hint: correct it, or remove it to have the default
    [exit 2]
    "#);
}

#[test]
fn a_bad_value_is_told_to_programs() {
    let nacre = Nacre::new().with("NACRE_LOCAL__PAUSE_TO_DISK_AFTER", "soon");
    insta::assert_snapshot!(nacre.run(["config", "check", "--json"]).transcript(), @r#"
    {"error":{"code":"usage","hints":["correct it, or remove it to have the default"],"message":"`local.pause_to_disk_after` from NACRE_LOCAL__PAUSE_TO_DISK_AFTER: `soon` is not a length of time: write 30s, 10m or 1h30m"}}
    [exit 2]
    "#);
}

#[test]
fn a_file_that_was_asked_for_must_be_there() {
    let nacre = Nacre::new().with("NACRE_CONFIG", "/nowhere/nacre.toml");
    insta::assert_snapshot!(nacre.run(["config", "check"]).transcript(), @r"
    error: there is no file at /nowhere/nacre.toml
    hint: NACRE_CONFIG names it: unset it, or make the file
    [exit 3]
    ");
}

#[test]
fn a_command_that_needs_no_settings_does_not_read_them() {
    let nacre = Nacre::new().with_file("[local]\nranges = \"many\"\n");
    assert_eq!(nacre.run(["completions", "bash"]).code, Some(0));
}

#[test]
fn a_bad_log_filter_is_wrong_usage() {
    let ran = Nacre::new()
        .with("NACRE_LOG", "a=b=c")
        .run(["config", "check"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn a_log_filter_that_is_none_is_told_with_its_place() {
    let nacre = Nacre::new().with_file("[log]\nformat = \"json\"\nfilter = \"nacre=loud\"\n");
    let ran = nacre.run(["config", "check"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.stderr.contains("`log.filter` from [home]/nacre.toml"),
        "{ran:?}"
    );
}

#[test]
fn a_part_of_a_server_needs_a_database_that_others_share() {
    let nacre = Nacre::new();
    let ran = nacre.run(["serve", "--role", "api,worker"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("NACRE_DATABASE_URL"), "{ran:?}");
}
