use camino::Utf8PathBuf;
use fs_err::tokio::File;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::of_session;
use crate::app::App;
use crate::commands::remote;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session cp notes.txt ID:notes.txt          # below the workspace
  nacre session cp ID:/workspace/app/out.png .

One file at a time. For a directory: nacre session exec ID -- tar czf out.tgz DIRECTORY")]
pub(crate) struct Arguments {
    /// A file here, or ID:PATH in a session
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

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<(), CommandError> {
    let way = way(&arguments.from, &arguments.to)?;
    let client = remote::connect()?;
    let progress = app.output.progress("copying");
    let (path, bytes) = match way {
        Way::In {
            file,
            session,
            path,
        } => {
            let content = fs_err::tokio::read(file).await?;
            let length = content.len() as u64;
            let written = client.write_file(session, path, content).await;
            written.map_err(of_session)?;
            (path.to_owned(), length)
        }
        Way::Out {
            session,
            path,
            file,
        } => {
            let mut download = client.download(session, path).await.map_err(of_session)?;
            let file = target(file, path)?;
            let mut written = 0;
            let mut to = File::create(&file).await?;
            while let Some(piece) = download.next().await? {
                to.write_all(&piece).await?;
                written += piece.len() as u64;
            }
            to.flush().await?;
            (file.into_string(), written)
        }
    };
    drop(progress);
    let told = json!({ "path": path, "bytes": bytes });
    app.output
        .result(&told, || format!("{bytes} bytes to {path}"))
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

fn target(file: &str, path: &str) -> Result<Utf8PathBuf, CommandError> {
    let file = Utf8PathBuf::from(file);
    if !file.is_dir() {
        return Ok(file);
    }
    // What is in a sandbox names no place here: only the last name counts.
    let name = camino::Utf8Path::new(path).file_name();
    let name = name.ok_or_else(|| CommandError::usage(format!("`{path}` names no file")))?;
    Ok(file.join(name))
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
