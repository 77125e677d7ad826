//! Programs of ours that people look at: the preview's server, the editor, the desktop. They are
//! kept running as services are, in a list of their own.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use model::Clock;
use tokio_util::task::TaskTracker;
use wire::link::{FromRunner, Health, HealthKind};
use wire::workplace::{DESKTOP_PORT, DEVTOOLS_PORT, EDITOR_PORT, PREVIEW_PORT, VNC_PORT};

use crate::command::{exec_as, run};
use crate::hands::Hands;
use crate::link::Handle;
use crate::place::Place;
use crate::services::{Definition, Info, Name, Pace, Preview, Restart, Services, Status};
use crate::state;

#[derive(Debug)]
pub struct Programs {
    hands: Rc<Hands>,
    place: Place,
    list: Services,
}

/// Who waits for the screen waits ten seconds at most.
const SCREEN: &str =
    "for i in $(seq 100); do [ -S /tmp/.X11-unix/X99 ] && break; sleep 0.1; done; ";

/// Until somebody has their own: an agent is beside it already, and it is as light or dark as the
/// page around it.
const EDITOR_SETTINGS: &str = r#"{"chat.disableAIFeatures":true,"workbench.secondarySideBar.defaultVisibility":"hidden","workbench.startupEditor":"none","window.autoDetectColorScheme":true}"#;

impl Programs {
    pub fn new(hands: Rc<Hands>, place: &Place, clock: Arc<dyn Clock>) -> Self {
        let own = Place {
            state: place.state.join("programs"),
            ..place.clone()
        };
        let list = Services::new(Rc::clone(&hands), own, clock, Rc::new(()), Pace::default());
        Self {
            hands,
            place: place.clone(),
            list,
        }
    }

    /// Caddy, which shows the port that somebody exposed, or one that is often used.
    pub(super) async fn preview(&self) -> Result<(), String> {
        self.need("caddy").await?;
        let file = self.place.state.join("caddy/Caddyfile");
        state::replace(&file, caddyfile(&self.place).as_bytes()).map_err(|e| e.to_string())?;
        let user = self.place.state.join("caddy/user.caddy");
        // Caddy does not take an empty one.
        if !user.exists() {
            state::replace(&user, b"# Nothing is exposed.\n").map_err(|e| e.to_string())?;
        }
        self.keep(
            "preview",
            format!("exec caddy run --adapter caddyfile --config {file}"),
        )
    }

    /// code-server, without a login of its own: the gateway has one.
    pub(super) async fn editor(&self) -> Result<(), String> {
        self.need("code-server").await?;
        let workspace = &self.place.workspace;
        // A restored disk may hold the locks and sockets of one that is gone.
        self.keep(
            "editor",
            format!(
                "(mkdir -p ~/.local/share/code-server/User && cd ~/.local/share/code-server \
                 && rm -f *.lock *.sock Singleton* \
                 && {{ [ -e User/settings.json ] || echo '{EDITOR_SETTINGS}' >User/settings.json; }}); \
                 exec code-server --auth none --bind-addr 127.0.0.1:{EDITOR_PORT} \
                 --disable-telemetry --disable-update-check --disable-workspace-trust \
                 --disable-getting-started-override \
                 --app-name Nacre --welcome-text 'A workspace in a sandbox.' {workspace}"
            ),
        )
    }

    /// A screen, its windows, and the way to look at it.
    pub(super) async fn desktop(&self) -> Result<(), String> {
        self.need("Xvfb").await?;
        // A restored disk may hold the locks of a screen that is gone; and where the directory is
        // missing, a server that is not root makes no socket that the others could wait for.
        self.keep(
            "screen",
            "rm -f /tmp/.X99-lock /tmp/.X11-unix/X99; mkdir -p -m 1777 /tmp/.X11-unix; exec Xvfb :99 -screen 0 1920x1080x24 -nolisten tcp"
                .to_owned(),
        )?;
        self.keep("windows", format!("{SCREEN} exec fluxbox"))?;
        self.keep(
            "vnc",
            format!(
                "{SCREEN} exec x11vnc -display :99 -forever -shared -nopw -quiet -localhost -rfbport {VNC_PORT}"
            ),
        )?;
        self.keep(
            "viewer",
            format!(
                "exec websockify --web /usr/share/novnc 127.0.0.1:{DESKTOP_PORT} 127.0.0.1:{VNC_PORT}"
            ),
        )
    }

    /// Tells of each that ended by itself. They are started again, and given up when that is in vain.
    pub async fn tell_crashes(self: Rc<Self>, link: Handle) {
        let mut changes = self.list.changes();
        let mut told: BTreeMap<Name, Timestamp> = BTreeMap::new();
        let mut count = 0;
        while changes.changed().await.is_ok() {
            for info in self.list.list() {
                let Some(ended_at) = info.ended_at else {
                    continue;
                };
                let is_over = matches!(info.status, Status::Restarting | Status::Failed);
                if !is_over || told.insert(info.name.clone(), ended_at) == Some(ended_at) {
                    continue;
                }
                count += 1;
                let crash = FromRunner::RunnerHealth(Health {
                    kind: HealthKind::ProgramCrash,
                    message: crash(&info),
                    count,
                    exit_code: info.exit_code,
                });
                let _ = link.say(crash).await;
            }
        }
    }

    /// Ends all of them.
    pub async fn rest(&self) {
        self.list.rest().await;
    }

    /// A base without it is a smaller base, and no failure of ours; it is said all the same.
    async fn need(&self, program: &str) -> Result<(), String> {
        let look = exec_as(
            &self.place.user,
            ["sh", "-lc", &format!("command -v {program}")],
        );
        let found = run(&self.hands, look, 4096)
            .await
            .map_err(|e| e.to_string())?;
        if found.code == 0 {
            Ok(())
        } else {
            Err(format!("{program} is not installed"))
        }
    }

    fn keep(&self, name: &str, command: String) -> Result<(), String> {
        let definition = Definition {
            name: Name::try_from(name.to_owned()).expect("our own names are good"),
            command,
            cwd: None,
            restart: Restart::OnFailure,
        };
        let started = self.list.start(definition);
        started.map(drop).map_err(|error| error.to_string())
    }
}

fn crash(info: &Info) -> String {
    let what = match info.status {
        Status::Failed => "has failed and is not started again",
        _ => "ended and is started again",
    };
    let why = info.message.as_deref().unwrap_or_default();
    format!("{} {what} {why}", info.name).trim_end().to_owned()
}

/// Has Caddy read its configuration again.
#[derive(Debug)]
pub struct Reload {
    pub hands: Rc<Hands>,
    pub place: Place,
    pub tasks: TaskTracker,
}

impl Preview for Reload {
    fn reload(&self) {
        let file = self.place.state.join("caddy/Caddyfile");
        let socket = admin(&self.place);
        let reload = exec_as(
            &self.place.user,
            [
                "caddy",
                "reload",
                "--adapter",
                "caddyfile",
                "--config",
                file.as_str(),
                "--address",
                &socket,
            ],
        );
        let hands = Rc::clone(&self.hands);
        // One that is not running yet reads the file when it starts.
        self.tasks.spawn_local(async move {
            let _ = run(&hands, reload, 4096).await;
        });
    }
}

fn admin(place: &Place) -> String {
    format!("unix/{}", place.state.join("caddy/admin.sock"))
}

/// Where it is written down that somebody asked, and when. Not what: addresses hold secrets.
pub fn asked(place: &Place) -> Utf8PathBuf {
    place.state.join("logs/preview-asked.log")
}

/// On loopback: from outside it is reached through the gateway. Ours first, and for whoever has the
/// dev tools' token; then the port that was exposed, or else the first that answers of those often
/// used, on whichever of the two loopback addresses it listens.
fn caddyfile(place: &Place) -> String {
    let (admin, asked) = (admin(place), asked(place));
    let user = place.state.join("caddy/user.caddy");
    format!(
        "{{\n\
         \tadmin {admin}\n\
         \tauto_https off\n\
         }}\n\
         (ours) {{\n\
         \tforward_auth 127.0.0.1:{DEVTOOLS_PORT} {{\n\
         \t\turi /api/auth/check\n\
         \t}}\n\
         }}\n\
         :{PREVIEW_PORT} {{\n\
         \tbind 127.0.0.1\n\
         \tlog {{\n\
         \t\toutput file {asked} {{\n\
         \t\t\troll_size 1MiB\n\
         \t\t\troll_keep 1\n\
         \t\t}}\n\
         \t\tformat filter {{\n\
         \t\t\twrap json\n\
         \t\t\tfields {{\n\
         \t\t\t\trequest delete\n\
         \t\t\t\tresp_headers delete\n\
         \t\t\t}}\n\
         \t\t}}\n\
         \t}}\n\
         \thandle_path /_nacre/mcp/* {{\n\
         \t\timport ours\n\
         \t\treverse_proxy 127.0.0.1:{DEVTOOLS_PORT}\n\
         \t}}\n\
         \thandle_path /_nacre/vscode/* {{\n\
         \t\timport ours\n\
         \t\treverse_proxy 127.0.0.1:{EDITOR_PORT} {{\n\
         \t\t\theader_up -Authorization\n\
         \t\t}}\n\
         \t}}\n\
         \thandle /_nacre/* {{\n\
         \t\trespond 404\n\
         \t}}\n\
         \timport {user}\n\
         \thandle {{\n\
         \t\treverse_proxy localhost:3000 localhost:5173 localhost:8000 localhost:4321 {{\n\
         \t\t\tlb_policy first\n\
         \t\t\tlb_try_duration 1s\n\
         \t\t\tlb_try_interval 100ms\n\
         \t\t\tfail_duration 2s\n\
         \t\t}}\n\
         \t}}\n\
         }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lets_in_to_the_editor_does_not_reach_it() {
        let file = caddyfile(&Place::standard());
        let editor = file
            .split_once(&format!("reverse_proxy 127.0.0.1:{EDITOR_PORT} {{"))
            .expect("the editor is led to")
            .1;
        assert!(
            editor
                .trim_start()
                .starts_with("header_up -Authorization\n")
        );
    }
}
