//! A shell over SSH, with the real server: it is there for one connection, and listens nowhere.

use crate::based::Based;

/// Every TCP port that is listened on, each on a line.
const LISTENING: &str = "cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == \"0A\" { print $2 }' | sort";

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn ssh_gives_a_shell_and_nobody_ever_listens() {
    let Some(based) = Based::slim() else { return };
    let id = based.create(&["--net", "proxy"]);
    let install = "sudo apt-get -qq update && \
        sudo apt-get -qq -y install --no-install-recommends openssh-server >/dev/null 2>&1; \
        test -x /usr/sbin/sshd && echo there";
    if !based.user(&id, install).stdout.contains("there") {
        eprintln!("skipped: openssh-server cannot be installed from here");
        return;
    }
    let before = based.user_says(&id, LISTENING);
    assert!(!before.contains(":0016"), "{before}");

    let ssh = |user: &str, script: &str| {
        let ran = based
            .nacre
            .run(["sandbox", "ssh", &id, "--user", user, "--", script]);
        assert_eq!(ran.code, Some(0), "{}", ran.transcript());
        ran.stdout.trim_end().to_owned()
    };
    assert_eq!(ssh("user", "id -un"), "user");
    assert_eq!(ssh("root", "id -un"), "root");
    assert_eq!(ssh("user", LISTENING), before, "while it is connected");
    let code = based
        .nacre
        .run(["sandbox", "ssh", &id, "--", "exit 7"])
        .code;
    assert_eq!(code, Some(7), "a command's own code");

    assert_eq!(based.user_says(&id, LISTENING), before, "after it");
    let left = based.user_says(&id, "pgrep -x sshd; sudo ls /run | grep nacre-ssh; true");
    assert_eq!(left, "", "no server and no key stays behind");
}
