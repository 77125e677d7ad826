use std::time::Duration;

use client::{Client, SessionFilter};
use model::{Clock as _, SystemClock, Timestamp};
use serde_json::json;
use wire::v1::{NewRepo, Session, Status};

use super::{age, find, shortened, standing, took};
use crate::app::App;
use crate::commands::remote;
use crate::commands::sandbox::terminal::Endings;
use crate::error::{CommandError, Kind};
use crate::output::{facts, or_dash, table};

const LONGEST_TITLE: usize = 40;
/// Between two looks.
const EACH: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session ls
  nacre session ls --status paused
  nacre session ls --search login --json | jq -r '.sessions[].id'
  nacre session ls --watch             # again whenever something changes, until Ctrl-C")]
pub(crate) struct Arguments {
    /// Show stopped and archived ones too
    #[arg(long)]
    all: bool,
    /// Only those in this status
    #[arg(long, value_enum)]
    status: Option<Wanted>,
    /// Only those with this in their title
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Show it again whenever it changes
    #[arg(long, short)]
    watch: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Wanted {
    Starting,
    Running,
    Migrating,
    Paused,
    Suspended,
    Stopped,
}

impl From<Wanted> for Status {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Starting => Self::Starting,
            Wanted::Running => Self::Running,
            Wanted::Migrating => Self::Migrating,
            Wanted::Paused => Self::Paused,
            Wanted::Suspended => Self::Suspended,
            Wanted::Stopped => Self::Stopped,
        }
    }
}

pub(super) async fn list(app: &App, arguments: Arguments) -> Result<(), CommandError> {
    let client = remote::connect()?;
    if arguments.watch {
        return watch(app, &client, &arguments).await;
    }
    let progress = app.output.progress("listing sessions");
    let sessions = matching(&client, &arguments).await?;
    drop(progress);
    app.output
        .result(&json!({ "sessions": sessions }), || listed(&sessions))
}

async fn matching(client: &Client, arguments: &Arguments) -> Result<Vec<Session>, CommandError> {
    let filter = SessionFilter {
        status: arguments.status.map(Status::from),
        search: arguments.search.clone(),
        ..SessionFilter::default()
    };
    let mut sessions = client.sessions_to_the_end(filter.clone()).await?;
    if arguments.all {
        let archived = SessionFilter {
            archived: true,
            ..filter
        };
        sessions.extend(client.sessions_to_the_end(archived).await?);
    } else if arguments.status.is_none() {
        sessions.retain(|session| session.status != Status::Stopped);
    }
    Ok(sessions)
}

fn listed(sessions: &[Session]) -> String {
    if sessions.is_empty() {
        return "There are none. Make one: nacre session new --repo URL --prompt TEXT".to_owned();
    }
    let now = SystemClock.now();
    let rows: Vec<_> = sessions.iter().map(|session| row(session, now)).collect();
    table(&["ID", "STATUS", "ACTIVE", "TITLE", "REPOSITORY"], &rows)
}

/// The list again whenever it changed, until Ctrl-C. A server that is away is waited for.
async fn watch(app: &App, client: &Client, arguments: &Arguments) -> Result<(), CommandError> {
    let mut endings = Endings::listen()?;
    let mut last = None;
    loop {
        let sessions = matching(client, arguments);
        let shown = tokio::select! {
            sessions = sessions => match sessions {
                Ok(sessions) => (json!({ "sessions": sessions }), listed(&sessions)),
                Err(error) if error.kind() == Kind::Unavailable && last.is_some() => {
                    let text = error.chain().join(": ");
                    (json!({ "offline": text }), format!("offline: {text}"))
                }
                Err(error) => return Err(error),
            },
            _ = endings.next() => return Ok(()),
        };
        if last.as_ref() != Some(&shown) {
            app.output.again(&shown.0, &shown.1)?;
            last = Some(shown);
        }
        tokio::select! {
            () = tokio::time::sleep(EACH) => {}
            _ = endings.next() => return Ok(()),
        }
    }
}

fn row(session: &Session, now: Timestamp) -> Vec<String> {
    vec![
        session.id.clone(),
        standing(session).to_owned(),
        age(&session.last_active_at, now),
        shortened(&session.title, LONGEST_TITLE),
        or_dash(session.repos.first().map(place).as_ref()),
    ]
}

pub(super) async fn show(app: &App, id: &str) -> Result<(), CommandError> {
    let client = remote::connect()?;
    let session = find(&client, id).await?;
    app.output.result(&session, || shown(&session))
}

pub(super) fn shown(session: &Session) -> String {
    let mut lines = vec![
        ("id", session.id.clone()),
        ("title", session.title.clone()),
        ("status", standing(session).to_owned()),
    ];
    let mut add = |name, value: Option<String>| {
        if let Some(value) = value {
            lines.push((name, value));
        }
    };
    add("error", session.error.clone());
    for repo in &session.repos {
        add("repository", Some(place(repo)));
    }
    add("provider", Some(session.provider.clone()));
    add("model", session.model.clone());
    add("sandbox", session.sandbox_id.clone());
    add("snapshot", session.snapshot_id.clone());
    add("forked from", session.parent_id.clone());
    add(
        "lost",
        session.degraded.as_ref().map(|one| one.lost.clone()),
    );
    add("paused", session.pause_reason.clone());
    add("stopped", session.stop_reason.clone());
    add("preview", session.preview_url.clone());
    add("expires at", session.expires_at.clone());
    add("created at", Some(session.created_at.clone()));
    add("active at", Some(session.last_active_at.clone()));
    add("events", Some(session.last_seq.to_string()));
    for phase in &session.phases {
        let time = phase.took_ms.map_or_else(|| phase.state.clone(), took);
        add("phase", Some(format!("{} ({time})", phase.name)));
    }
    facts(&lines)
}

/// Where a repository is from.
fn place(repo: &NewRepo) -> String {
    let from = repo.url.as_deref().or(repo.path.as_deref());
    let from = from.unwrap_or("a bundle");
    match repo.branch.as_deref().or(repo.r#ref.as_deref()) {
        Some(branch) => format!("{from}#{branch}"),
        None => from.to_owned(),
    }
}
