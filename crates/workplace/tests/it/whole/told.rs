//! What the hub is told without asking.

use std::net::TcpListener;

use fs_err as fs;
use wire::keys::token::{Audience, Claims, PROBE};
use wire::keys::{Key, Purpose};
use wire::link::{FromHub, FromRunner, GitRepo, GitVerb, HealthKind, PhaseState, Use};

use crate::world::eventually;

use super::world::{JOURNAL_KEY, SECRET, SESSION, inside, with_whole};

fn as_user(path: &str) {
    std::os::unix::fs::chown(path, Some(1000), Some(1000)).unwrap();
}

#[test]
fn a_shell_that_fails_is_a_failed_phase_and_what_follows_is_done() {
    with_whole(async |mut whole, _| {
        fs::write("/home/user/.profile", "exit 7\n").unwrap();
        let boot = whole.boot();
        whole.start(boot);
        let phase = whole
            .heard("the terminal's phase", |frame| {
                matches!(frame, FromRunner::Phase(phase)
                    if phase.name == "terminal" && phase.state != PhaseState::Started)
            })
            .await;
        let FromRunner::Phase(phase) = phase else {
            unreachable!("it was waited for");
        };
        assert_eq!(phase.state, PhaseState::Failed);
        assert!(phase.detail.unwrap().contains("code 7"));
        whole
            .heard("the last phase", |frame| {
                matches!(frame, FromRunner::Phase(phase)
                    if phase.name == "services" && phase.state == PhaseState::Done)
            })
            .await;
    });
}

#[test]
fn a_shell_that_works_is_a_phase_that_is_done() {
    with_whole(async |mut whole, _| {
        let boot = whole.boot();
        whole.start(boot);
        whole
            .heard("the terminal's phase", |frame| {
                matches!(frame, FromRunner::Phase(phase)
                    if phase.name == "terminal" && phase.state == PhaseState::Done)
            })
            .await;
    });
}

#[test]
fn a_port_that_opens_and_closes_is_told() {
    with_whole(async |mut whole, _| {
        let boot = whole.boot();
        whole.start(boot);
        let listener = TcpListener::bind("127.0.0.1:3333").unwrap();
        let has = |frame: &FromRunner| matches!(frame, FromRunner::Ports { ports } if ports.iter().any(|port| port.port == 3333));
        whole.heard("the port", has).await;
        let place = whole.hub.heard().len();
        drop(listener);
        whole
            .heard_after(place, "its end", |frame| {
                matches!(frame, FromRunner::Ports { .. }) && !has(frame)
            })
            .await;
    });
}

#[test]
fn where_a_repository_stands_is_told_when_somebody_commits() {
    with_whole(async |mut whole, _| {
        let git = "git -c user.name=a -c user.email=a@example.com -c init.defaultBranch=main -c safe.directory=*";
        let sh = |script: String| async move {
            let done = tokio::process::Command::new("sh")
                .args(["-ec", &script])
                .output();
            let done = done.await.unwrap();
            assert!(
                done.status.success(),
                "{script}: {}",
                String::from_utf8_lossy(&done.stderr)
            );
        };
        sh(format!(
            "mkdir -p /home/user/workspace /home/user/far && cd /home/user/far && {git} init -q && {git} commit -q --allow-empty -m one && \
             {git} clone -q /home/user/far /home/user/workspace/pearl && cd /home/user/workspace/pearl && {git} checkout -q -b side && \
             chown -R 1000:1000 /home/user"
        ))
        .await;
        let boot = wire::link::Boot {
            repos: vec![wire::link::Repo {
                url: "/home/user/far".to_owned(),
                path: Some("pearl".to_owned()),
                ..wire::link::Repo::default()
            }],
            ..whole.boot()
        };
        whole.start(boot);
        let stands = |count: u64| {
            move |frame: &FromRunner| {
                matches!(frame, FromRunner::GitState { repo: Some(repo), branch: Some(branch), base: Some(base), commit_count: Some(found) }
                    if repo == "pearl" && branch == "side" && base == "main" && *found == count)
            }
        };
        whole.heard("the first state", stands(0)).await;
        sh(format!(
            "cd /home/user/workspace/pearl && {git} commit -q --allow-empty -m two"
        ))
        .await;
        whole.heard("the commit", stands(1)).await;
    });
}

#[test]
fn a_tunnel_that_cannot_be_kept_is_told() {
    with_whole(async |mut whole, _| {
        fs::create_dir_all("/home/user/.nacre").unwrap();
        fs::write(
            "/home/user/.nacre/tunnels.json",
            r#"{"tunnels": [{"name": "web", "port": 3000, "protocol": "http"}, {"name": "ours", "port": 9000, "protocol": "http"}]}"#,
        )
        .unwrap();
        as_user("/home/user/.nacre");
        let boot = whole.boot();
        whole.start(boot);
        let health = whole
            .heard("what was dropped", |frame| {
                matches!(frame, FromRunner::RunnerHealth(health) if health.kind == HealthKind::TunnelsDropped)
            })
            .await;
        let FromRunner::RunnerHealth(health) = health else {
            unreachable!("it was waited for");
        };
        assert_eq!(health.count, 1, "{}", health.message);
        assert!(health.message.contains("9000"), "{}", health.message);
        whole
            .heard(
                "the other tunnel",
                |frame| matches!(frame, FromRunner::Tunnels { tunnels } if tunnels.len() == 1),
            )
            .await;
    });
}

#[test]
fn what_the_sandbox_is_used_for_is_told_and_its_probes_do_not_count() {
    with_whole(async |mut whole, _| {
        let boot = whole.boot();
        whole.start(boot);
        whole
            .heard(
                "rest",
                |frame| matches!(frame, FromRunner::Activity { uses } if uses.is_empty()),
            )
            .await;
        let place = whole.hub.heard().len();
        let uses = |wanted: Use| move |frame: &FromRunner| matches!(frame, FromRunner::Activity { uses } if uses.contains(&wanted));
        // Somebody asks for something through the gateway.
        let key = Key::derive(SECRET, Purpose::Token).unwrap();
        let now = u64::try_from(model::Clock::now(&model::SystemClock).as_second()).unwrap();
        let token = |user| Claims::new(user, SESSION, Audience::Gateway, now).sign(&key);
        get_with(&token(PROBE), "http://127.0.0.1:9000/ttyd/").await;
        get_with("nonsense", "http://127.0.0.1:9000/ttyd/").await;
        // A service that works, and is found at the next look: nothing before it counted.
        let started = inside(
            "POST",
            "/api/services",
            r#"{"name": "busy", "command": "while :; do :; done"}"#,
        )
        .await;
        assert!(started.contains("busy"), "{started}");
        let service = Use::Service {
            name: "busy".to_owned(),
        };
        let first = whole
            .heard_after(place, "the service", uses(service.clone()))
            .await;
        assert_eq!(
            first,
            FromRunner::Activity {
                uses: vec![service]
            }
        );
        let place = whole.hub.heard().len();
        get_with(&token("usr_1"), "http://127.0.0.1:9000/ttyd/").await;
        whole
            .heard_after(place, "the request", uses(Use::Request))
            .await;
    });
}

async fn get_with(token: &str, url: &str) {
    let header = format!("Authorization: Bearer {token}");
    let done = tokio::process::Command::new("curl")
        .args(["-s", "-H", &header, url])
        .output();
    done.await.unwrap();
}

#[test]
fn what_is_typed_into_a_terminal_is_a_use() {
    with_whole(async |mut whole, _| {
        let boot = whole.boot();
        whole.start(boot);
        whole
            .heard("rest", |frame| matches!(frame, FromRunner::Activity { .. }))
            .await;
        let bearer = wire::keys::devtools_bearer(SECRET).unwrap();
        let mut request =
            tokio_tungstenite::tungstenite::client::IntoClientRequest::into_client_request(
                "ws://127.0.0.1:4000/api/terminal",
            )
            .unwrap();
        let value = format!("Bearer {bearer}").parse().unwrap();
        request.headers_mut().insert("authorization", value);
        let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        let keys = tokio_tungstenite::tungstenite::Message::binary(&b"true\n"[..]);
        futures::SinkExt::send(&mut socket, keys).await.unwrap();
        whole
            .heard("the keystroke", |frame| {
                matches!(frame, FromRunner::Activity { uses } if uses.contains(&Use::Terminal))
            })
            .await;
    });
}

#[test]
fn its_own_log_says_what_it_did_and_no_secret() {
    with_whole(async |mut whole, _| {
        let boot = whole.boot();
        whole.start(boot);
        whole
            .heard("the last phase", |frame| {
                matches!(frame, FromRunner::Phase(phase)
                    if phase.name == "services" && phase.state == PhaseState::Done)
            })
            .await;
        tracing::warn!(secret = SECRET, "told {JOURNAL_KEY} by mistake");
        let log = fs::read_to_string("/home/user/.nacre/logs/workplace.log").unwrap();
        assert!(log.contains("the workplace starts"), "{log}");
        assert!(log.contains("told [redacted] by mistake"), "{log}");
        for canary in [SECRET, JOURNAL_KEY] {
            assert!(!log.contains(canary), "{log}");
        }
    });
}

#[test]
fn a_repository_that_is_given_later_is_reached_through_the_git_door() {
    with_whole(async |mut whole, _| {
        let boot = whole.boot();
        whole.start(boot);
        whole
            .heard("the clone", |frame| {
                matches!(frame, FromRunner::CloneComplete { .. })
            })
            .await;
        whole.hub.say(FromHub::GitAccess {
            repos: vec![GitRepo {
                url: "https://git.example/a/pearl".to_owned(),
                verbs: vec![GitVerb::Fetch],
            }],
        });
        let is_told = || {
            let settings = fs::read_to_string("/home/user/.gitconfig").unwrap_or_default();
            settings.contains("/git/https/git.example/")
        };
        eventually("git knows the way", is_told).await;
    });
}

#[test]
fn a_picture_that_somebody_inside_shows_is_in_the_conversation() {
    const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
    with_whole(async |mut whole, _| {
        let boot = whole.boot();
        whole.start(boot);
        eventually("the socket", || {
            std::os::unix::net::UnixStream::connect("/run/nacre.sock").is_ok()
        })
        .await;
        let body = format!("{{\"data\": \"{PIXEL}\", \"description\": \"a pearl\"}}");
        assert_eq!(inside("POST", "/api/image", &body).await, "{\"ok\":true}");
        let shown = whole
            .heard("the picture", |frame| {
                matches!(frame, FromRunner::Image { .. })
            })
            .await;
        let FromRunner::Image { image, .. } = shown else {
            unreachable!("it was waited for");
        };
        assert_eq!(image.media_type, "image/png");
        assert_eq!(image.description.as_deref(), Some("a pearl"));
        for bad in ["PHN2Zz4=", "no base 64!"] {
            let body = format!("{{\"data\": \"{bad}\"}}");
            let refused = inside("POST", "/api/image", &body).await;
            assert!(refused.contains("bad_request"), "{refused}");
        }
    });
}
