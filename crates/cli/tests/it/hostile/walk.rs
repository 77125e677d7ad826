//! Every port of ours, without credentials, from where the agent is.

use crate::based::Based;
use crate::story::{Story, boot};

/// Below each port, what is asked for. What no route knows is asked for as well.
const WALK: &str = r#"
walk() {
    port=$1; shift
    for path in "$@"; do for method in GET POST DELETE $more; do
        code=$(curl -s -m 20 -o /dev/null -w '%{http_code}' --path-as-is -X "$method" "http://127.0.0.1:$port$path")
        echo "$code $port $method $path"
    done; done
}
api="/api /api/services /api/services/x /api/services/x/logs /api/logs/x /api/expose /api/ports /api/tunnels
     /api/tunnels/x /api/git/repos /api/git/status?repo=. /api/git/commit /api/git/push /api/files /api/files?path=x
     /api/files/list /api/files/rename /api/evidence /api/terminal /api/terminals /api/terminals/main /api/env/apply
     /api/env/scrub /api/snapshot /api/actions /api/actions/invoke /api/auth/check /api/health/../services /nowhere"
# The agent's server tells every page which methods there are, and no more.
walk 4096 / /session /config /event /global/health /provider /mcp /doc /path /nowhere &
more=OPTIONS
walk 9000 /health / /vscode/ /vnc/ /ttyd/ /ttyd/token /opencode/session /t/x/ /link /health/../vscode/ /nowhere &
walk 4000 /api/health / $api &
walk 4001 / /mcp /mcp/x /health /nowhere &
walk 20000 /_nacre/mcp/api/health $(printf '/_nacre/mcp%s\n' $api) /_nacre/vscode/ /_nacre/vscode/x &
wait
"#;

/// A token that says of itself that it is not signed, and one that is signed by nobody.
const FORGED: &str = r#"
b64() { printf '%s' "$1" | base64 -w0 | tr '+/' '-_' | tr -d '='; }
claims=$(b64 '{"sub":"x","sid":"ses_story","aud":"gateway","exp":99999999999}')
for token in "$(b64 '{"alg":"none","typ":"JWT"}').$claims." "$(b64 '{"alg":"HS256","typ":"JWT"}').$claims.AAAA"; do
    for address in 9000/vscode/ 9000/link 4000/api/services 4001/mcp; do
        curl -s -m 20 -o /dev/null -w '%{http_code}\n' -H "Authorization: Bearer $token" \
            -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' \
            -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==' "http://127.0.0.1:$address"
    done
done
"#;

#[tokio::test(flavor = "multi_thread")]
async fn without_credentials_nothing_answers_but_health() {
    let Some(based) = Based::slim() else { return };
    let mut story = Story::begin_with(&based, &[], |spec| spec).await;
    story.boot(boot()).await;
    // The preview is started after the agent, and nobody waits for it.
    story
        .sh("for i in $(seq 300); do curl -s -o /dev/null http://127.0.0.1:20000/ && exit 0; sleep 0.1; done; exit 1")
        .await;
    let walked = story.sh(WALK).await;
    let (refused, mut open): (Vec<&str>, Vec<&str>) =
        walked.lines().partition(|line| line.starts_with("401 "));
    open.sort_unstable();
    // A path that could mean another is refused before anybody asks who it is.
    let ambiguous = ["DELETE", "GET", "OPTIONS", "POST"]
        .map(|method| format!("400 9000 {method} /health/../vscode/"));
    let no_method =
        ["DELETE", "OPTIONS", "POST"].map(|method| format!("405 9000 {method} /health"));
    let mut expected = vec!["200 4000 GET /api/health", "200 9000 GET /health"];
    expected.extend(ambiguous.iter().chain(&no_method).map(String::as_str));
    assert_eq!(open, expected);
    assert!(refused.len() > 250, "{walked}");
    // Behind these are doors that nobody serves.
    for port in [4002, 4003] {
        let asked = story
            .try_as("user", &format!("curl -s -m 20 http://127.0.0.1:{port}/"))
            .await;
        assert_ne!(asked.exit.code, 0, "{port}");
    }
    let forged = story.sh(FORGED).await;
    assert_eq!(forged, "401\n".repeat(8));
    story.end().await;
}
