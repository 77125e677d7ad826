//! What a setup session found out: kept with it, for those that are made from it.

use serde_json::{Value, json};
use sessions::Handle;
use store::sessions::Type;
use wire::link::{Asked, Call as _, Failed, SaveEnvFiles, SaveServiceCommands};

use super::Outside;
use super::answers::{failed, read, unavailable};

const MOST: usize = 64;
const LONGEST_NAME: usize = 200;
const LONGEST_COMMAND: usize = 4000;
const KEYS: usize = 200;

/// In place of what was saved before: the same call again changes nothing.
pub(super) async fn save(
    outside: &Outside,
    session: &Handle,
    asked: &Asked,
) -> Result<Value, Failed> {
    let id = session.session();
    let record = outside.store.load_session(id).await;
    let record = record.map_err(|error| unavailable(&error))?;
    if record.r#type != Type::Setup {
        let message = "only setup sessions save that: make one with `type: setup`";
        return Err(failed("refused", message));
    }
    let (count, list) = if asked.kind == SaveServiceCommands::KIND {
        let SaveServiceCommands { commands } = read(asked)?;
        let is_good = |service: &wire::link::Service| {
            is_line(&service.name, LONGEST_NAME)
                && (1..=LONGEST_COMMAND).contains(&service.command.len())
                && !service.command.contains('\0')
                && service.cwd.iter().all(|cwd| is_line(cwd, LONGEST_NAME))
        };
        may_be(&commands, is_good)?;
        (commands.len(), json!(commands))
    } else {
        let SaveEnvFiles { files } = read(asked)?;
        let is_good = |file: &wire::link::EnvFile| {
            is_line(&file.path, LONGEST_NAME)
                && file
                    .workspace_path
                    .iter()
                    .all(|at| is_line(at, LONGEST_NAME))
                && file.keys.len() <= KEYS
                && file.keys.iter().all(|key| is_line(&key.key, LONGEST_NAME))
        };
        may_be(&files, is_good)?;
        (files.len(), json!(files))
    };
    let (list, now) = (list.to_string(), outside.clock.now());
    let saved = async {
        let mut tx = outside.store.begin().await?;
        if asked.kind == SaveServiceCommands::KIND {
            tx.save_services(id, &list, now).await?;
        } else {
            tx.save_env_files(id, &list, now).await?;
        }
        tx.commit().await
    };
    saved
        .await
        .map_err(|error: store::Error| unavailable(&error))?;
    Ok(json!({ "saved": count }))
}

fn may_be<T>(list: &[T], is_good: impl Fn(&T) -> bool) -> Result<(), Failed> {
    if list.len() <= MOST && list.iter().all(is_good) {
        return Ok(());
    }
    let message = format!("at most {MOST}, with names and paths of 1 to {LONGEST_NAME} bytes");
    Err(failed("bad_request", &message))
}

fn is_line(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len()) && !text.chars().any(char::is_control)
}
