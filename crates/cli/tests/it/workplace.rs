//! What a base brings along besides the agent, in a session's sandbox.

use wire::link::{Boot, Service};

use crate::based::Based;
use crate::workbench::Workbench;

#[tokio::test(flavor = "multi_thread")]
async fn databases_and_a_catcher_of_mail_run_when_they_are_listed_and_not_otherwise() {
    let Some(based) = Based::with_parts() else {
        return;
    };
    let service = |name: &str| Service {
        name: name.to_owned(),
        command: format!("start-{name}"),
        cwd: None,
    };
    let boot = Boot {
        services: ["postgres", "redis"].map(service).to_vec(),
        has_deps: true,
        ..Boot::default()
    };
    let bench = Workbench::new(&based, boot).await;
    bench.has("services").await;
    bench.until("[ \"$(redis-cli ping)\" = PONG ]").await;
    bench
        .until("psql -h 127.0.0.1 -U postgres -Atc 'select 42' | grep -qx 42")
        .await;
    let is_there = "(exec 3<>/dev/tcp/127.0.0.1/1025) 2>/dev/null && echo yes || echo no";
    assert_eq!(bench.sh(is_there).await, "no\n");

    bench
        .sh("nacre services start --name mail --command start-mail")
        .await;
    bench
        .until("curl -sf -o /dev/null http://127.0.0.1:1080/")
        .await;
    let caught = "printf 'From: a@example.com\\n\\nhello\\n' > /tmp/mail && \
        curl -s smtp://127.0.0.1:1025 --mail-from a@example.com --mail-rcpt b@example.com -T /tmp/mail && \
        curl -s http://127.0.0.1:1080/email | jq -r '.[0].text'";
    assert_eq!(bench.sh(caught).await.trim(), "hello");
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_routes_of_the_preview_want_the_dev_tools_token() {
    let Some(based) = Based::slim() else { return };
    let bench = Workbench::new(&based, Boot::default()).await;
    bench.has("preview").await;
    bench
        .sh("nacre services start --name app --command 'python3 -m http.server 3000' && nacre services expose 3000")
        .await;
    bench
        .until("curl -sf -o /dev/null http://127.0.0.1:20000/")
        .await;
    let bearer = bench.devtools_bearer();
    let asked = |path: &str, more: &str| {
        format!("curl -s -o /dev/null -w '%{{http_code}}' {more} http://127.0.0.1:20000{path}")
    };
    let token = format!("-H 'Authorization: Bearer {bearer}'");
    for (path, without, with) in [
        ("/_nacre/mcp/api/health", "401", "200"),
        ("/_nacre/mcp/api/services", "401", "200"),
        ("/_nacre/vscode/", "401", "502"),
        ("/_nacre/other", "404", "404"),
        ("/", "200", "200"),
    ] {
        assert_eq!(bench.sh(&asked(path, "")).await, without, "{path}");
        assert_eq!(bench.sh(&asked(path, &token)).await, with, "{path}");
    }
    let upgrade = "-H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' \
        -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' --http1.1 -m 2";
    let terminal = asked("/_nacre/mcp/api/terminal", &format!("{token} {upgrade}"));
    assert_eq!(bench.sh(&format!("{terminal} || true")).await, "101");

    // Nobody but the gateway leads there.
    let listening = bench
        .sh("nacre --json ports >/dev/null; awk '$4 == \"0A\" {print $2}' /proc/net/tcp /proc/net/tcp6 | grep -v '^0100007F\\|^00000000000000000000000001000000' | sort")
        .await;
    assert_eq!(listening, "00000000:0BB8\n00000000:2328\n", "3000 and 9000");
    bench.end().await;
}
