//! What tools inside ask of the server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Id, Upload};
use serde_json::{Value, json};
use sessions::Handle;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use wire::link::{
    ActionsCall, Asked, Call, CreatePr, CreatedPr, ErrorFrame, Failed, ReadUpload,
    RequestEnvVariables, SaveEnvFiles, SaveServiceCommands, SaveSnapshot, SavedSnapshot,
    UploadPiece, Verify,
};

use super::{Outside, WantedPull, evidence, setup};
use crate::actions::Actions;

/// Of an upload, in one answer: a frame stays short.
const PIECE: u64 = 256 << 10;

pub(super) async fn answer(
    outside: &Outside,
    session: Handle,
    asked: Asked,
) -> Result<Value, Failed> {
    match &*asked.kind {
        SaveSnapshot::KIND => save_snapshot(outside, &session, read(&asked)?).await,
        Verify::KIND => evidence::verify(outside, &session, &asked).await,
        SaveServiceCommands::KIND | SaveEnvFiles::KIND => {
            setup::save(outside, &session, &asked).await
        }
        ActionsCall::KIND => actions(outside, &session, &asked).await,
        ReadUpload::KIND => read_upload(outside, &session, read(&asked)?).await,
        CreatePr::KIND => create_pr(outside, &session, read(&asked)?).await,
        RequestEnvVariables::KIND => request_env(&session, &asked).await,
        _ => Err(failed(
            ErrorFrame::UNSUPPORTED,
            "this server does not do that",
        )),
    }
}

async fn actions(outside: &Outside, session: &Handle, asked: &Asked) -> Result<Value, Failed> {
    let actions = Actions {
        store: &outside.store,
        clock: &*outside.clock,
        session,
    };
    let answer = actions.answer(&asked.id, read(asked)?).await;
    written(&answer.map_err(|problem| failed("refused", problem.words()))?)
}

async fn save_snapshot(
    outside: &Outside,
    session: &Handle,
    wanted: SaveSnapshot,
) -> Result<Value, Failed> {
    // What an agent asks for over and over would fill the disk.
    if !outside.pace.may(session.session(), outside.clock.now()) {
        let message = "a snapshot was saved less than a minute ago: wait";
        return Err(failed("refused", message));
    }
    let taken = match wanted.message.filter(|message| !message.trim().is_empty()) {
        Some(message) => session.snapshot_called(&message).await,
        None => session.snapshot().await,
    };
    let taken = taken.map_err(|error| failed("refused", &error.to_string()))?;
    written(&SavedSnapshot {
        snapshot_id: taken.to_string(),
        took_ms: None,
    })
}

/// The branch is on its forge already: what the agent wants pushed it pushes itself.
async fn create_pr(outside: &Outside, session: &Handle, wanted: CreatePr) -> Result<Value, Failed> {
    let wanted = WantedPull {
        repo: wanted.repo,
        branch: Some(wanted.branch),
        base: wanted.base,
        title: wanted.title,
        body: wanted.body,
    };
    let opened = outside.open_pull(session, "agent", wanted).await;
    let opened =
        opened.map_err(|refused| failed(&refused.code.to_lowercase(), &refused.message))?;
    written(&CreatedPr {
        number: opened.number,
        url: opened.url,
        title: opened.title,
        state: opened.state.to_string(),
    })
}

/// People are asked; what they answer comes by another way, and never through here.
async fn request_env(session: &Handle, asked: &Asked) -> Result<Value, Failed> {
    let wanted: RequestEnvVariables = read(asked)?;
    let frame = json!({ "type": "env_request", "id": asked.id, "keys": wanted.keys });
    let told = session.announce(&frame).await;
    told.map_err(|error| failed("refused", &error.to_string()))?;
    Ok(json!({ "status": "asked" }))
}

async fn read_upload(
    outside: &Outside,
    session: &Handle,
    wanted: ReadUpload,
) -> Result<Value, Failed> {
    let missing = || failed("not_found", "there is no such upload, or it is too old");
    let unreadable = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "an upload cannot be read");
        failed("unavailable", "the upload cannot be read: try again")
    };
    let id: Id<Upload> = wanted.upload.parse().map_err(|_| missing())?;
    let record = outside.store.load_session(session.session()).await;
    let record = record.map_err(|error| unreadable(&error))?;
    let found = outside
        .store
        .find_upload(record.organisation, id, outside.clock.now())
        .await;
    let found = found.map_err(|error| unreadable(&error))?;
    let size = found.ok_or_else(missing)?.size;
    let path = outside.uploads.join(id.to_string());
    let piece = async {
        let mut file = fs_err::tokio::File::open(path).await?;
        file.seek(std::io::SeekFrom::Start(wanted.offset)).await?;
        let mut piece = Vec::new();
        let length = wanted.length.min(PIECE);
        file.take(length).read_to_end(&mut piece).await?;
        Ok::<_, std::io::Error>(piece)
    };
    let piece = piece.await.map_err(|error| unreadable(&error))?;
    written(&UploadPiece {
        data: STANDARD.encode(piece),
        size,
    })
}

pub(super) fn read<C: Call>(asked: &Asked) -> Result<C, Failed> {
    serde_json::from_value(asked.payload.clone())
        .map_err(|error| failed("bad_request", &error.to_string()))
}

pub(super) fn written(answer: &impl serde::Serialize) -> Result<Value, Failed> {
    serde_json::to_value(answer).map_err(|error| failed("internal", &error.to_string()))
}

pub(super) fn failed(code: &str, message: &str) -> Failed {
    Failed {
        code: code.to_owned(),
        message: message.chars().take(500).collect(),
    }
}

pub(super) fn unavailable(error: &store::Error) -> Failed {
    tracing::error!(%error, "a tool's wish cannot be looked up or written");
    failed(
        "unavailable",
        "the server's database does not answer: try again",
    )
}
