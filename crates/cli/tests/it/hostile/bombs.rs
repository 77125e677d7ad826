//! Those who take all there is.

use model::ByteCount;
use provider::{ExecInput, ExecOutput, ExecSpec, Provider as _, SandboxSpec};
use testkit::model::ScriptedModel;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wire::link::FromRunner;

use crate::based::Based;
use crate::story::{MODEL_PORT, PATIENCE, Story, boot};

const PIDS: u64 = 300;
const MEMORY: u64 = 1 << 30;

/// Starts a service that forks until nobody can, says so, waits to be told, and has it ended: all
/// by itself, for there is no process to be had for a helper.
const FORKS: &str = r#"
import errno, os, socket, subprocess, sys, time

def ask(method, path, body=""):
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(60)
        stream.connect("/run/nacre.sock")
        head = f"{method} {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        stream.sendall((head + body).encode())
        answer = b""
        while piece := stream.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.0 200"), answer
    return answer

def can_fork():
    try:
        child = os.fork()
    except OSError as error:
        assert error.errno == errno.EAGAIN, error
        return False
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return True

def until(holds):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)

bomb = "perl -e 'while (1) { defined(fork) or select(undef, undef, undef, 0.2) }'"
ask("POST", "/api/services", '{"name": "bomb", "command": "%s", "restart": "never"}' % bomb)
until(lambda: not any(can_fork() for _ in range(20)))
print("full", flush=True)
sys.stdin.readline()
assert b'"running"' in ask("GET", "/api/services/bomb")
ask("POST", "/api/services/bomb/stop")
until(lambda: all(can_fork() for _ in range(20)))
assert subprocess.run(["pgrep", "-c", "perl"], capture_output=True).stdout == b"0\n"
print("usable", flush=True)
"#;

/// Each of these leaves its parent, its session or both.
const DAEMONS: &str = r#"
nacre services start --name daemons --command '
    (setsid sleep 98701 >/dev/null 2>&1 &)
    setsid sh -c "sleep 98702 & setsid nohup sleep 98703 & exit" &
    python3 -c "
import os
os.fork() and os._exit(0)
os.setsid()
os.fork() and os._exit(0)
os.environ.clear()
os.execv(\"/bin/sleep\", [\"sleep\", \"98704\"])"
    sleep 98705' >/dev/null
for i in $(seq 300); do [ $(pgrep -c -f "^sleep 9870") = 5 ] && break; sleep 0.1; done
[ $(pgrep -c -f "^sleep 9870") = 5 ] || { pgrep -af sleep; exit 1; }
nacre services stop daemons >/dev/null
pgrep -af "^sleep 9870" || echo none
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_bomb_goes_off_alone() {
    let Some(based) = Based::slim() else { return };
    let model = ScriptedModel::listen(0).await.unwrap();
    let forwards = [(MODEL_PORT, model.address().unwrap())];
    let mut story = Story::begin_with(&based, &forwards, |spec| SandboxSpec {
        pids: Some(PIDS),
        memory: Some(ByteCount::new(MEMORY)),
        ..spec
    })
    .await;
    story.tasks.spawn(async move {
        let _ = model.run().await;
    });
    story.boot(boot()).await;
    let ours = "pgrep -x 'nacre-workplace|opencode' | sort";
    let before = story.sh(ours).await;
    assert_eq!(before.lines().count(), 2, "{before}");

    // A service ends with all that it started, wherever that went.
    assert_eq!(story.sh(DAEMONS).await, "none\n");

    // Whoever takes all memory is the first to go.
    let scores = "for p in 1 $(pgrep -x nacre-workplace) $(pgrep -x opencode) self; do cat /proc/$p/oom_score_adj; done";
    let scores = story.sh(scores).await;
    let scores: Vec<i32> = scores.lines().map(|score| score.parse().unwrap()).collect();
    assert!(
        scores[0] == scores[1] && scores[1] < scores[2] && scores[2] == scores[3],
        "{scores:?}"
    );
    let hog = story.try_as("user", "tail /dev/zero").await;
    assert_eq!(hog.exit.code, 128 + 9, "{hog:?}");
    assert_eq!(story.sh(ours).await, before);

    // With every process taken the workplace answers at its port, and takes what the hub says.
    let spec = ExecSpec {
        user: Some("user".to_owned()),
        ..ExecSpec::new(["python3", "-c", FORKS])
    };
    let mut forks = story.local.exec(story.id, spec).await.unwrap();
    assert_eq!(line(&mut forks.output).await, "full\n");
    assert_eq!(health(&story).await, "HTTP/1.1 200 OK");
    let meanwhile = async {
        // It is on the disk, which takes a thread.
        story.heard("that it was taken", takes).await;
        let go = ExecInput::Data("go\n".into());
        forks.input.send(go).await.unwrap();
        assert_eq!(line(&mut forks.output).await, "usable\n");
    };
    let (end, ()) = tokio::join!(story.prompt("p1", "Hello.", &[]), meanwhile);
    assert!(end.ends("p1"), "{end:?}");
    let end = story.prompt("p2", "Again.", &[]).await;
    assert!(matches!(end, FromRunner::Complete { .. }), "{end:?}");
    assert_eq!(story.sh(ours).await, before);
    assert_eq!(story.hub.hellos().len(), 1, "the link broke");
    story.end().await;
}

async fn line(
    output: &mut tokio::sync::mpsc::Receiver<Result<ExecOutput, provider::ProviderError>>,
) -> String {
    let mut said = String::new();
    while !said.ends_with('\n') {
        let next = tokio::time::timeout(PATIENCE, output.recv()).await;
        match next.expect("it goes on").expect("it goes on").unwrap() {
            ExecOutput::Stdout(bytes) | ExecOutput::Stderr(bytes) => {
                said.push_str(&String::from_utf8_lossy(&bytes));
            }
            ExecOutput::Exit(exit) => panic!("{exit:?}: {said}"),
        }
    }
    said
}

/// The first line of what the gateway says to one who comes from outside.
async fn health(story: &Story<'_>) -> String {
    let mut stream = story.local.dial(story.id, 9000).await.unwrap();
    let request = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

fn takes(frame: &FromRunner) -> bool {
    matches!(frame, FromRunner::Accepted { prompt_id, .. } if prompt_id == "p1")
}
