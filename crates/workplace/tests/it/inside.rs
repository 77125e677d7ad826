//! `nacre` inside, over the socket.

use std::os::unix::process::CommandExt as _;
use std::process::Output;
use std::rc::Rc;

use camino::Utf8PathBuf;
use fs_err as fs;
use serde_json::{Value, json};
use workplace::devtools::Tools;
use workplace::inside;
use workplace::services::Status;

use crate::api::tools;
use crate::world::{UID, World, eventually, in_world};

struct Inside {
    tools: Rc<Tools>,
    path: Utf8PathBuf,
}

impl Inside {
    fn start(world: &World) -> Self {
        let path = world.outside().join("nacre.sock");
        let listener = inside::bind(&path).unwrap();
        let tools = tools(world);
        tokio::task::spawn_local(inside::serve(listener, Rc::clone(&tools), UID));
        Self { tools, path }
    }

    async fn nacre(&self, arguments: &[&str]) -> Output {
        nacre_as(UID, &self.path, arguments).await
    }

    async fn must(&self, arguments: &[&str]) -> String {
        let output = self.nacre(arguments).await;
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {complaint}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    async fn code(&self, arguments: &[&str]) -> i32 {
        self.nacre(arguments).await.status.code().unwrap()
    }
}

async fn nacre_as(uid: u32, socket: &Utf8PathBuf, arguments: &[&str]) -> Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nacre-inside"));
    command
        .args(arguments)
        .env("NACRE_INSIDE_SOCKET", socket)
        .env("API_KEY", "it's a \"key\"\nof two lines")
        .uid(uid)
        .gid(uid);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    output.await.unwrap()
}

#[test]
fn the_command_line_drives_services() {
    in_world(|world: Rc<World>| async move {
        let inside = Inside::start(&world);
        let started = [
            "services",
            "start",
            "--name",
            "web",
            "--command",
            "echo hello; pwd; exec sleep 1000",
            "--cwd",
            ".",
        ];
        assert_eq!(inside.must(&started).await, "web: starting\n");
        eventually("it runs", || {
            inside.tools.services.list()[0].status == Status::Running
        })
        .await;
        let list = inside.must(&["services", "list"]).await;
        assert!(list.contains("web") && list.contains("running"), "{list}");
        let list: Value =
            serde_json::from_str(&inside.must(&["services", "list", "--json"]).await).unwrap();
        assert_eq!(list["services"][0]["name"], "web");
        let log = loop {
            let log = inside.must(&["services", "logs", "web"]).await;
            if log.contains(world.place.workspace.as_str()) {
                break log;
            }
        };
        assert!(log.contains("hello\n"), "{log}");
        assert_eq!(
            inside.must(&["services", "stop", "--name", "web"]).await,
            "web: stopped\n"
        );
        assert_eq!(
            inside.must(&["services", "start", "web"]).await,
            "web: starting\n"
        );
        inside.must(&["services", "restart", "web"]).await;
        assert_eq!(
            inside.must(&["services", "expose", "3000"]).await,
            "port 3000 is exposed\n"
        );
        inside.must(&["services", "rm", "web"]).await;
        assert_eq!(inside.code(&["services", "stop", "web"]).await, 3);
        assert_eq!(inside.code(&["services", "expose", "4000"]).await, 2);
        assert_eq!(inside.code(&["services", "expose", "70000"]).await, 2);
        assert_eq!(
            inside
                .code(&["services", "start", "--name", "../x", "--command", "true"])
                .await,
            2
        );
        assert_eq!(inside.code(&["services", "frobnicate"]).await, 2);
        assert_eq!(inside.code(&["nonsense"]).await, 2);
        assert!(
            inside
                .must(&["--help"])
                .await
                .contains("nacre services start")
        );
    });
}

#[test]
fn the_command_line_applies_env_files_and_asks_the_hub() {
    in_world(|world: Rc<World>| async move {
        let inside = Inside::start(&world);
        let spec = r#"[{"workspacePath": ".", "path": ".env", "format": "dotenv", "mode": "secret", "keys": [{"key": "API_KEY", "required": true}]}]"#;
        let answer: Value = serde_json::from_str(
            &inside
                .must(&["env", "apply", "--spec", spec, "--json"])
                .await,
        )
        .unwrap();
        assert_eq!(
            (
                &answer["applied"][0]["path"],
                &answer["applied"][0]["key_count"]
            ),
            (&json!(".env"), &json!(1))
        );
        assert_eq!(
            world.must(". ./.env; printf %s \"$API_KEY\"").await,
            "it's a \"key\"\nof two lines"
        );
        assert_eq!(inside.must(&["env", "scrub"]).await, ".env\n");
        assert_eq!(
            inside
                .code(&["env", "apply", "--spec", &spec.replace(".env", "../x")])
                .await,
            2
        );
        assert_eq!(
            inside
                .code(&[
                    "env",
                    "apply",
                    "--spec",
                    &spec.replace("API_KEY", "NO_SUCH")
                ])
                .await,
            1
        );
        assert_eq!(inside.code(&["env", "apply", "--spec", "{"]).await, 2);
        assert_eq!(world.must("ls -A").await, "");

        assert_eq!(
            inside.must(&["tunnel", "add", "api", "8080"]).await,
            "api leads to port 8080\n"
        );
        assert!(inside.must(&["tunnel", "ls"]).await.contains("8080"));
        inside.must(&["tunnel", "rm", "api"]).await;
        assert_eq!(inside.code(&["tunnel", "rm", "api"]).await, 3);
        assert_eq!(
            inside.must(&["snapshot", "--message", "m"]).await,
            "snapshot snap-1\n"
        );
        let run = [
            "actions",
            "run",
            "--integration",
            "linear",
            "--action",
            "create",
            "--params",
            "{}",
            "--json",
        ];
        let done: Value = serde_json::from_str(&inside.must(&run).await).unwrap();
        assert_eq!(done["result"], 7, "approved after a while");
        assert_eq!(
            inside
                .code(&["actions", "run", "--integration", "x", "--action", "danger"])
                .await,
            4
        );
        assert_eq!(
            inside.code(&["actions", "list"]).await,
            5,
            "no answer in time"
        );
    });
}

#[test]
fn another_uid_at_the_socket_is_refused_and_nothing_is_done() {
    in_world(|world: Rc<World>| async move {
        let inside = Inside::start(&world);
        let start = ["services", "start", "--name", "web", "--command", "true"];
        let refused = nacre_as(65534, &inside.path, &start).await;
        assert_eq!(refused.status.code(), Some(4));
        assert!(inside.tools.services.list().is_empty());
        let refused = nacre_as(1, &inside.path, &["services", "list"]).await;
        assert_eq!(refused.status.code(), Some(4));
        assert_eq!(
            nacre_as(0, &inside.path, &["services", "list"])
                .await
                .status
                .code(),
            Some(0)
        );
    });
}

#[test]
fn a_call_while_the_workplace_is_starting_succeeds() {
    in_world(|world: Rc<World>| async move {
        let path = world.outside().join("nacre.sock");
        let asked = path.clone();
        let call = tokio::task::spawn_local(async move { nacre_as(UID, &asked, &["ports"]).await });
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let _inside = Inside::start(&world);
        let output = call.await.unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        // A socket that was left behind is replaced.
        drop(inside::bind(&path).unwrap());
        assert!(inside::bind(&path).is_ok());
        assert!(fs::exists(&path).unwrap());
    });
}
