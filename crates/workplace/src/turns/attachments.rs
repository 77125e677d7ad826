//! What a prompt brings by reference, fetched: files of the workspace, and uploads of the hub.

use agent::prompt::{MOST_ATTACHMENTS, MOST_DATA, MOST_DATA_IN_ALL, Unfit};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use camino::{Utf8Component, Utf8Path};
use wire::link::{Attachment, Source};

use crate::files::Files;
use crate::link::Handle;
use crate::uploads::Pieces;

/// Of one attachment, before it is base 64.
const MOST_BYTES: u64 = (MOST_DATA / 4 * 3) as u64;
const MOST_BYTES_IN_ALL: u64 = (MOST_DATA_IN_ALL / 4 * 3) as u64;

/// The same attachments, all as data. Nothing is fetched for a prompt that has too many or too much.
pub(super) async fn bring(
    attachments: Vec<Attachment>,
    workspace: &Utf8Path,
    files: &Files,
    link: &Handle,
) -> Result<Vec<Attachment>, String> {
    if attachments.len() > MOST_ATTACHMENTS {
        return Err(Unfit::TooManyAttachments(attachments.len()).to_string());
    }
    let mut room = MOST_BYTES_IN_ALL;
    let mut brought = Vec::new();
    for attachment in attachments {
        let bytes = match &attachment.source {
            Source::Data(_) => {
                brought.push(attachment);
                continue;
            }
            Source::File(path) => file(path, workspace, files, room).await,
            Source::Upload(upload) => self::upload(upload, link, room).await,
        };
        let bytes = bytes.map_err(|why| format!("the attachment {}: {why}", attachment.name))?;
        room = room.saturating_sub(bytes.len() as u64);
        brought.push(Attachment {
            source: Source::Data(STANDARD.encode(bytes)),
            ..attachment
        });
    }
    Ok(brought)
}

/// PID 1's helper opens it, as the user, below the workspace and through no link.
async fn file(
    path: &str,
    workspace: &Utf8Path,
    files: &Files,
    room: u64,
) -> Result<Vec<u8>, String> {
    let inside =
        below(path, workspace).ok_or_else(|| format!("{path:?} is not in the workspace"))?;
    let limit = MOST_BYTES.min(room);
    let part = files
        .read(&inside, 0, limit + 1)
        .await
        .map_err(|error| error.to_string())?;
    fits(part.size.max(part.bytes.len() as u64), room)?;
    Ok(part.bytes)
}

fn below(path: &str, workspace: &Utf8Path) -> Option<String> {
    let path = Utf8Path::new(path);
    // As people and agents call the same place.
    let path = [workspace, Utf8Path::new("/workspace")]
        .iter()
        .find_map(|root| path.strip_prefix(root).ok())
        .unwrap_or(path);
    let is_plain = path
        .components()
        .all(|part| matches!(part, Utf8Component::Normal(_) | Utf8Component::CurDir));
    let is_file = !path.as_str().is_empty() && !path.as_str().contains('\0');
    (is_plain && is_file).then(|| path.to_string())
}

async fn upload(upload: &str, link: &Handle, room: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut pieces = Pieces::of(upload, link);
    loop {
        let piece = pieces.next().await?;
        fits(piece.size, room)?;
        bytes.extend(piece.bytes);
        if piece.is_last {
            return Ok(bytes);
        }
    }
}

fn fits(size: u64, room: u64) -> Result<(), String> {
    if size > MOST_BYTES {
        return Err(format!("it has {size} bytes; {MOST_BYTES} are the limit"));
    }
    if size > room {
        return Err(format!(
            "it has {size} bytes; {MOST_BYTES_IN_ALL} are the limit of all together"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_in_the_workspace_is_named() {
        let workspace = Utf8Path::new("/home/user/workspace");
        for (path, inside) in [
            ("a/b.png", Some("a/b.png")),
            ("./a.png", Some("./a.png")),
            ("/workspace/a.png", Some("a.png")),
            ("/home/user/workspace/a.png", Some("a.png")),
            ("/etc/passwd", None),
            ("../secret", None),
            ("a/../../secret", None),
            ("/home/user/workspace/../.ssh/id", None),
            ("", None),
            ("/workspace", None),
        ] {
            assert_eq!(below(path, workspace).as_deref(), inside, "{path}");
        }
    }
}
