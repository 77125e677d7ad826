use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use client::{Client, Piece, PipeInput, PipeOutput};
use model::ByteCount;
use serde_json::json;
use wire::v1::ExecRequest;

use super::tree::{self, Copied};
use super::{of_session, took};
use crate::app::App;
use crate::commands::remote;
use crate::commands::sandbox::copy::landing;
use crate::error::CommandError;

/// What the scripts answer where nothing is.
const MISSING: i32 = 44;
/// Of what a script complains.
const LONGEST_COMPLAINT: usize = 4 << 10;
/// Packs what is there: a directory as what is in it, anything else as itself.
const PACK: &str = r#"
if [ -d "$1" ]; then exec tar -cf - --format=gnu --hard-dereference -C "$1" .; fi
if [ -e "$1" ] || [ -L "$1" ]; then exec tar -cf - --format=gnu --hard-dereference -C "$(dirname -- "$1")" "./$(basename -- "$1")"; fi
exit 44
"#;
/// A directory lands in one that is there, or becomes what was named.
const UNPACK: &str = r#"
to="$1"; if [ -d "$to" ]; then to="$to/$2"; fi
mkdir -p -- "$to" && exec tar -xf - --no-same-owner -C "$to"
"#;
/// A file is not seen before it is whole.
const WRITE: &str = r#"
to="$1"; if [ -d "$to" ]; then to="$to/$2"; fi
mkdir -p -- "$(dirname -- "$to")" && part="$to.nacre-cp-$$" && cat > "$part" && chmod "$3" "$part" && mv -f -- "$part" "$to" && exit 0
rm -f -- "$part"; exit 1
"#;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session cp notes.txt ID:notes.txt          # below the workspace
  nacre session cp ID:/home/user/out.png .
  nacre session cp ./fixtures ID:app/              # a directory, with all that is in it
  nacre session cp ID:app/dist ./dist

As with cp, what exists is copied into, and what does not is the new name. Symbolic links stay
links; owners become whoever copies.")]
pub(crate) struct Arguments {
    /// A file or directory here, or ID:PATH in a session
    #[arg(value_name = "SRC")]
    from: String,
    /// Where to: a file or directory here, or ID:PATH in a session
    #[arg(value_name = "DST")]
    to: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Way<'a> {
    In {
        file: &'a str,
        session: &'a str,
        path: &'a str,
    },
    Out {
        session: &'a str,
        path: &'a str,
        file: &'a str,
    },
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let way = way(&arguments.from, &arguments.to)?;
    let client = remote::connect()?;
    let begun = std::time::Instant::now();
    let progress = app.output.progress("copying");
    let say = |bytes: u64| progress.say(&format!("copying: {}", ByteCount::new(bytes)));
    let copied = match way {
        Way::In {
            file,
            session,
            path,
        } => send(app, &client, Path::new(file), session, path, say).await?,
        Way::Out {
            session,
            path,
            file,
        } => fetch(app, &client, session, path, Path::new(file), say).await?,
    };
    drop(progress);
    let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (files, bytes) = (copied.files, copied.bytes);
    let told = json!({ "path": arguments.to, "files": files, "bytes": bytes, "took_ms": took_ms });
    app.output.result(&told, || {
        format!("{copied} to {}, in {}", arguments.to, took(took_ms))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Out of a session. What comes from there is believed in nothing.
async fn fetch(
    app: &App,
    client: &Client,
    session: &str,
    path: &str,
    to: &Path,
    say: impl Fn(u64),
) -> Result<Copied, CommandError> {
    let (mut input, mut output) = begin(client, session, PACK, &[path]).await?;
    input.end().await.map_err(of_session)?;
    let name = path.trim_end_matches('/').rsplit('/').next();
    let name = name
        .filter(|name| !matches!(*name, "." | ".."))
        .unwrap_or_default();
    let (name, to, warn) = (name.to_owned(), to.to_owned(), app.output);
    let (pieces, archive) = tree::pieces();
    let unpacking = tokio::task::spawn_blocking(move || {
        tree::unpack(archive, warn, |is_directory| {
            landing(&to, name.as_bytes(), is_directory)
        })
    });
    let mut end = End::default();
    let mut bytes = 0;
    while end.code.is_none() {
        match output.next().await.map_err(of_session)? {
            Some(Piece::Bytes(piece)) => {
                bytes += piece.len() as u64;
                say(bytes);
                // It has failed, and says why below.
                if pieces.send(piece).await.is_err() {
                    break;
                }
            }
            Some(other) => end.hear(other),
            None => break,
        }
    }
    drop(pieces);
    let unpacked = unpacking.await.context("writing the files panicked")?;
    match end.code {
        Some(MISSING) => Err(CommandError::not_found(format!(
            "there is no {path} in the session"
        ))),
        Some(0) => unpacked,
        // What could not be written here ended it there.
        _ if unpacked.is_err() => unpacked,
        _ => Err(end.failed("the session did not send everything")),
    }
}

/// Into a session.
async fn send(
    app: &App,
    client: &Client,
    from: &Path,
    session: &str,
    path: &str,
    say: impl Fn(u64),
) -> Result<Copied, CommandError> {
    // A link that the user names stands for what it leads to; links further down stay links.
    let source = fs_err::canonicalize(from).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => CommandError::not_found(error),
        _ => error.into(),
    })?;
    // `..` has no name of its own.
    let name = from
        .file_name()
        .or(source.file_name())
        .and_then(OsStr::to_str);
    let name = name.context("only names in UTF-8 can be sent")?.to_owned();
    let metadata = fs_err::metadata(&source)?;
    let is_directory = metadata.is_dir();
    if !is_directory && !metadata.is_file() {
        let shown = from.display();
        return Err(CommandError::refused(format!(
            "{shown} is no file and no directory"
        )));
    }
    let (mut input, mut output) = if is_directory {
        begin(client, session, UNPACK, &[path, &name]).await?
    } else {
        let mode = format!("{:o}", metadata.permissions().mode() & 0o777);
        begin(client, session, WRITE, &[path, &name, &mode]).await?
    };
    let (mut pieces, archive) = tree::writer();
    let warn = app.output;
    let packing = tokio::task::spawn_blocking(move || {
        if is_directory {
            tree::pack(&source, archive, warn)
        } else {
            tree::send(&source, archive)
        }
    });
    let sending = async {
        let mut bytes = 0;
        while let Some(piece) = pieces.recv().await {
            bytes += piece.len() as u64;
            say(bytes);
            if input.send(piece).await.is_err() {
                break;
            }
        }
        drop(pieces);
        let packed = packing.await.context("reading the files panicked");
        let packed = packed.map_err(CommandError::from).and_then(|packed| packed);
        // Without an end what was sent is not taken for all there is.
        if packed.is_ok() {
            let _ = input.end().await;
        }
        packed
    };
    let hearing = async {
        let mut end = End::default();
        while end.code.is_none() {
            match output.next().await.map_err(of_session)? {
                Some(piece) => end.hear(piece),
                None => break,
            }
        }
        Ok::<_, CommandError>(end)
    };
    let mut hearing = std::pin::pin!(hearing);
    let (packed, end) = tokio::select! {
        packed = sending => (Some(packed?), hearing.await?),
        end = &mut hearing => (None, end?),
    };
    match (end.code, packed) {
        (Some(0), Some(packed)) => Ok(packed),
        _ => Err(end.failed("the session did not take everything")),
    }
}

/// A script there, with its arguments.
async fn begin(
    client: &Client,
    session: &str,
    script: &str,
    arguments: &[&str],
) -> Result<(PipeInput, PipeOutput), CommandError> {
    let script = ["sh", "-c", script, "cp"];
    let argv = script.iter().chain(arguments);
    let request = ExecRequest {
        argv: argv.map(|argument| (*argument).to_owned()).collect(),
        ..ExecRequest::default()
    };
    client
        .run_command(session, &request)
        .await
        .map_err(of_session)
}

/// How the script ended, and what it complained of.
#[derive(Debug, Default)]
struct End {
    code: Option<i32>,
    said: Vec<u8>,
}

impl End {
    fn hear(&mut self, piece: Piece) {
        match piece {
            Piece::Errors(bytes) => {
                let room = LONGEST_COMPLAINT.saturating_sub(self.said.len());
                self.said.extend_from_slice(&bytes[..room.min(bytes.len())]);
            }
            Piece::Exit { code, .. } => self.code = Some(code),
            Piece::Bytes(_) | Piece::Eof => {}
        }
    }

    fn failed(&self, what: &str) -> CommandError {
        let said = String::from_utf8_lossy(&self.said);
        match said.trim() {
            "" => CommandError::failed(what),
            said => CommandError::failed(said).context(what.to_owned()),
        }
    }
}

/// Exactly one side is in a session.
fn way<'a>(from: &'a str, to: &'a str) -> Result<Way<'a>, CommandError> {
    match (inside(from), inside(to)) {
        (None, Some((session, path))) => Ok(Way::In {
            file: from,
            session,
            path,
        }),
        (Some((session, path)), None) => Ok(Way::Out {
            session,
            path,
            file: to,
        }),
        _ => Err(
            CommandError::usage("one of the two is ID:PATH, in a session")
                .hint("as in `nacre session cp ID:notes.txt .`"),
        ),
    }
}

/// A file here whose name has a colon is written `./a:b`.
fn inside(text: &str) -> Option<(&str, &str)> {
    let (session, path) = text.split_once(':')?;
    (!session.is_empty() && !session.contains('/') && !path.is_empty()).then_some((session, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_side_is_in_a_session() {
        assert_eq!(
            way("a", "ses_1:b").unwrap(),
            Way::In {
                file: "a",
                session: "ses_1",
                path: "b"
            }
        );
        assert_eq!(
            way("ses_1:/b", "./x:y").unwrap(),
            Way::Out {
                session: "ses_1",
                path: "/b",
                file: "./x:y"
            }
        );
        assert!(way("a", "b").is_err() && way("a:b", "c:d").is_err());
    }
}
