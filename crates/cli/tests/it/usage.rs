use crate::Nacre;

/// Wrong before anything is opened, so that none of these needs an engine.
#[test]
fn wrong_usage_ends_with_two() {
    let nacre = Nacre::new();
    let long = "a".repeat(64);
    let cases: &[&[&str]] = &[
        &[],
        &["nonsense"],
        &["sandbox"],
        &["sandbox", "create", "--memory", "lots"],
        &["sandbox", "create", "--memory", "0"],
        &["sandbox", "create", "--pids", "0"],
        &["sandbox", "create", "--cpus", "0"],
        &["sandbox", "create", "--cpus", "1.2345"],
        &["sandbox", "create", "--cpus", "4097"],
        &["sandbox", "create", "--disk", "-1"],
        &["sandbox", "create", "--env", "NOVALUE"],
        &["sandbox", "create", "--env", "=x"],
        &["sandbox", "create", "--label", "k"],
        &["sandbox", "create", "--runtime", "docker"],
        &["sandbox", "create", "--net", "bridge"],
        &["sandbox", "create", "--net", "host"],
        &["sandbox", "create", "--allow", "example.org"],
        &[
            "sandbox",
            "create",
            "--net",
            "none",
            "--allow",
            "example.org",
        ],
        &["sandbox", "create", "--serve", "80"],
        &[
            "sandbox", "create", "--serve", "80=h:1", "--serve", "80=h:2",
        ],
        &["sandbox", "create", "--from", "base", "--rootfs", "/"],
        &["sandbox", "create", "--name", "Capital"],
        &["sandbox", "create", "--name", "-dash"],
        &["sandbox", "create", "--name", "sbx_01"],
        &["sandbox", "create", "--name", &long],
        &["sandbox", "ls", "--label", "k"],
        &["sandbox", "show"],
        &["sandbox", "rm"],
        &["sandbox", "exec", "x"],
        &["sandbox", "exec", "x", "--"],
        &["sandbox", "exec", "x", "true"],
        &["sandbox", "exec", "x", "--timeout", "30", "--", "true"],
        &["sandbox", "exec", "x", "--timeout", "0s", "--", "true"],
        &["sandbox", "exec", "x", "--timeout", "-5s", "--", "true"],
        &["sandbox", "exec", "x", "--detach", "-i", "--", "true"],
        &["sandbox", "exec", "x", "--env", "NOVALUE", "--", "true"],
        &["sandbox", "snapshot", "x", "--name", "host"],
        &["sandbox", "snapshot", "x", "--name", "base"],
        &["sandbox", "fork", "x", "-n", "0"],
        &["sandbox", "cp", "a", "b"],
        &["sandbox", "cp", "x:/a", "y:/b"],
        &["sandbox", "cp", "x:relative", "b"],
        &["sandbox", "cp", "x:/a/../b", "b"],
        &["sandbox", "cp", "", "x:/a"],
        &["sandbox", "port", "x", "0"],
        &["sandbox", "port", "x", "65536"],
        &["sandbox", "port", "x", "80", "--listen", "nowhere"],
        &["sandbox", "ssh", "x", "--user", "-oProxyCommand=true"],
        &["session", "attach"],
        &["session", "attach", "ses_1"],
        &["session", "shell", "ses_1"],
        &["session", "cp", "a", "b"],
        &["session", "cp", "x:a", "y:b"],
        &["session", "port", "ses_1", "0"],
        &["session", "port", "ses_1", "3000:x"],
        &["session", "ssh", "ses_1", "--proxy", "--", "ls"],
        &["snapshot", "rm"],
        &["completions", "cmd.exe"],
        &["internal", "digests", "snp_1"],
    ];
    for arguments in cases {
        let ran = nacre.run(*arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.transcript());
        assert_eq!(ran.stdout, "", "{arguments:?}");
    }
}

#[test]
fn the_hosts_network_must_be_meant() {
    let ran = Nacre::new().run(["sandbox", "create", "--net", "host"]);
    insta::assert_snapshot!(ran.transcript(), @r"
    error: `--net host` lets the sandbox reach everything the host reaches
    hint: add `--i-know` if that is meant, or use `--net none`
    [exit 2]
    ");
}

#[test]
fn wrong_usage_for_a_program_is_json_on_stderr() {
    let nacre = Nacre::new();
    for arguments in [
        &["sandbox", "create", "--memory", "lots", "--json"][..],
        &["--json", "sandbox", "cp", "a", "b"],
    ] {
        let ran = nacre.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
        let error: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(error["error"]["code"], "usage");
        assert!(
            error["error"]["message"]
                .as_str()
                .is_some_and(|message| !message.contains('\n')),
            "{error}"
        );
        assert!(error["error"]["hints"].is_array());
    }
}

#[test]
fn json_after_the_commands_own_arguments_is_the_commands() {
    let ran = Nacre::new().run(["sandbox", "exec", "--bad", "x", "--", "ls", "--json"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.starts_with("error: "), "{ran:?}");
}

#[test]
fn a_list_of_allowed_hosts_is_for_the_proxy_and_holds_hosts() {
    let create = |arguments: &[&str]| {
        let ran = Nacre::new().run([&["sandbox", "create"], arguments].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        ran.stderr
    };
    let without = create(&["--allow", "example.org"]);
    assert!(without.contains("add `--net proxy`"), "{without}");
    for bad in [
        "https://example.org",
        "example.org.",
        "0x7f.1",
        "b\u{fc}cher.example",
    ] {
        let said = create(&["--net", "proxy", "--allow", bad]);
        assert!(said.contains(bad), "{said}");
    }
}

#[test]
fn what_needs_a_terminal_says_what_a_script_does() {
    let nacre = Nacre::new();
    let ran = nacre.run(["session", "attach", "ses_1"]);
    insta::assert_snapshot!(ran.transcript(), @r"
    error: to attach needs a terminal
    hint: a script asks by `nacre session prompt ses_1 TEXT`
    hint: and reads by `nacre session logs ses_1 --follow`
    [exit 2]
    ");
    let ran = nacre.run(["session", "shell", "ses_1"]);
    insta::assert_snapshot!(ran.transcript(), @r"
    error: a shell needs a terminal
    hint: a script runs commands by `nacre session exec ses_1 -- CMD`
    [exit 2]
    ");
}
