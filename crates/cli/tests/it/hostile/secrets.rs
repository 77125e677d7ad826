//! The workplace's memory, its journal, its place at the link door.

use bytes::Bytes;
use provider::{FileEntry, FileKind, Provider as _, files_from};
use testkit::hub::Manners;
use wire::link::{FromRunner, HealthKind};

use crate::based::Based;
use crate::story::{Story, boot};

const INTRUDER: &str = "/opt/nacre-intruder";

/// The attempts on PID 1 that its neighbour has to hold, too. Root may end it: it comes back.
const AIMS: [&str; 8] = [
    "read-",
    "overwrite-program",
    "process-vm",
    "trace",
    "steal-descriptor",
    "descriptors",
    "root-and-directory",
    "out-of-memory-score",
];

/// Says hello as a runner would, to whoever is there, and prints what it is told.
const FORGE: &str = r#"
import json, socket
hello = {"type": "hello", "session": "ses_story", "generation": 1, "boot": "forged.1",
         "protocol": 1, "term": 1, "offers": []}
door = socket.socket(socket.AF_UNIX)
door.settimeout(5)
door.connect("/run/nacre/link")
try:
    door.sendall((json.dumps(hello) + "\n").encode())
    heard = door.recv(1000)
except OSError:
    heard = b""
print("heard", len(heard))
"#;

/// One byte of what is sealed, in the middle.
const SPOIL: &str = r#"
import glob, os
path = max(glob.glob("/home/user/.nacre/journal/*"), key=lambda p: os.path.isfile(p) and os.path.getsize(p))
with open(path, "r+b") as file:
    file.seek(os.path.getsize(path) // 2)
    byte = file.read(1)
    file.seek(-1, 1)
    file.write(bytes([byte[0] ^ 1]))
"#;

#[tokio::test(flavor = "multi_thread")]
async fn nobody_inside_reads_the_workplace_or_speaks_for_it() {
    let Some(based) = Based::slim() else { return };
    let mut story = Story::begin_with(&based, &[], |spec| spec).await;
    // What is not acknowledged stays in the journal.
    story.hub.behave(Manners {
        withholds_acks: true,
        ..Manners::default()
    });
    story.boot(boot()).await;

    // Its memory, its program and what it holds open are nobody's, and those of PID 1.
    bring_intruder(&story).await;
    let workplace = story.sh("pgrep -x nacre-workplace").await;
    for user in ["root", "user"] {
        nothing_gives(&story, user, "--only pid-1/").await;
        nothing_gives(&story, user, "--only doors/").await;
        for aim in AIMS {
            let arguments = format!("--only pid-1/{aim} --process {}", workplace.trim());
            nothing_gives(&story, user, &arguments).await;
        }
    }

    // Nobody but the workplace greets the hub.
    let forge = format!("python3 - <<'END'\n{FORGE}\nEND");
    for user in ["root", "user"] {
        assert_eq!(story.sh_as(user, &forge).await, "heard 0\n", "{user}");
    }
    let boots: Vec<String> = story.hub.hellos().into_iter().map(|h| h.boot).collect();
    assert_eq!(boots.len(), 1, "{boots:?}");

    // The journal is closed to the user, and to root it says nothing.
    let journal = "/home/user/.nacre/journal";
    let closed = story.try_as("user", &format!("ls {journal}")).await;
    assert_ne!(closed.exit.code, 0, "the user reads the journal");
    let sealed = format!(
        "find {journal} -type f -size +1k | grep -q . && ! grep -ral agent_status {journal}"
    );
    story.sh_as("root", &sealed).await;

    // What somebody changed in it is found out, and whoever ends the workplace gets another.
    story.hub.behave(Manners::default());
    story
        .sh_as(
            "root",
            &format!("python3 - <<'END'\n{SPOIL}\nEND\nkill -9 {workplace}"),
        )
        .await;
    story
        .heard("the damage", |frame| {
            matches!(frame, FromRunner::RunnerHealth(health) if health.kind == HealthKind::JournalDamaged)
        })
        .await;
    let last = story.hub.hellos().pop().unwrap();
    assert_ne!(last.boot, boots[0]);
    story.end().await;
}

async fn bring_intruder(story: &Story<'_>) {
    let program = testkit::program_path("nacre-intruder").expect("the intruder is built");
    let entry = FileEntry {
        path: b"nacre-intruder".to_vec(),
        kind: FileKind::File,
        mode: 0o755,
        uid: None,
        gid: None,
    };
    let content = Bytes::from(fs_err::read(program).unwrap());
    let files = files_from(vec![(entry, content)]);
    let written = story.local.write_files(story.id, b"/opt", None, files);
    written.await.unwrap();
}

async fn nothing_gives(story: &Story<'_>, user: &str, arguments: &str) {
    let made = story
        .try_as(user, &format!("{INTRUDER} --inside {arguments}"))
        .await;
    let lines = String::from_utf8_lossy(&made.stdout);
    assert!(
        made.exit.code == 0 && lines.contains("\"held\":true"),
        "{user}: {arguments}: {lines}{}",
        String::from_utf8_lossy(&made.stderr)
    );
}
