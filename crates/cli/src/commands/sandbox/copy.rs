use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use provider::{FileEvent, FileKind, FileStream, SandboxId};
use serde_json::json;

use super::milliseconds;
use super::pack::{Packed, pack};
use super::unpack::Unpacker;
use crate::app::{App, Engine};
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A path of this machine, or `ID:/PATH` in a sandbox
    #[arg(value_name = "SRC")]
    source: OsString,
    /// A path of this machine, or `ID:/PATH` in a sandbox
    #[arg(value_name = "DST")]
    destination: OsString,
}

/// One end of a copy.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Here(PathBuf),
    Sandbox { sandbox: String, path: Vec<u8> },
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<(), CommandError> {
    let ends = (
        Place::parse(&arguments.source)?,
        Place::parse(&arguments.destination)?,
    );
    let started = Instant::now();
    let Packed { files, bytes } = match ends {
        (Place::Sandbox { sandbox, path }, Place::Here(here)) => {
            let engine = app.engine()?;
            let id = engine.sandbox(&sandbox)?;
            let _progress = app.output.progress("copying");
            out_of_sandbox(&engine, id, &path, &here).await?
        }
        (Place::Here(here), Place::Sandbox { sandbox, path }) => {
            let engine = app.engine()?;
            let id = engine.sandbox(&sandbox)?;
            let _progress = app.output.progress("copying");
            into_sandbox(app, &engine, id, &here, &path).await?
        }
        _ => {
            return Err(CommandError::usage("one side of a copy is in a sandbox, and only one")
                .hint("write that side as ID:/PATH; a path of this machine with a colon in it as ./PATH"));
        }
    };
    let took_ms = milliseconds(started);
    app.output.result(
        &json!({ "files": files, "bytes": bytes, "took_ms": took_ms }),
        || {
            let noun = if files == 1 { "file" } else { "files" };
            format!("{files} {noun}, {}", model::ByteCount::new(bytes))
        },
    )
}

impl Place {
    fn parse(text: &OsStr) -> Result<Self, CommandError> {
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return Err(CommandError::usage("a path is empty"));
        }
        let colon = bytes.iter().position(|byte| *byte == b':');
        let Some(colon) = colon.filter(|_| !matches!(bytes[0], b'/' | b'.')) else {
            return Ok(Self::Here(PathBuf::from(text)));
        };
        let path = &bytes[colon + 1..];
        let sandbox = std::str::from_utf8(&bytes[..colon])
            .ok()
            .filter(|sandbox| !sandbox.is_empty());
        let Some(sandbox) = sandbox.filter(|_| path.starts_with(b"/")) else {
            let shown = text.display();
            return Err(
                CommandError::usage(format!("`{shown}` is not of the form ID:/PATH"))
                    .hint(format!("a file of this machine by that name is ./{shown}")),
            );
        };
        if path
            .split(|byte| *byte == b'/')
            .any(|component| component == b"..")
        {
            return Err(CommandError::usage(format!(
                "`{}` has a `..` in it",
                text.display()
            )));
        }
        Ok(Self::Sandbox {
            sandbox: sandbox.to_owned(),
            path: plain(path),
        })
    }
}

/// Without doubled slashes, dots and a slash at the end.
fn plain(path: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = path
        .split(|byte| *byte == b'/')
        .filter(|part| !matches!(*part, b"" | b"."))
        .collect();
    [b"/".as_slice(), &parts.join(&b'/')].concat()
}

/// A plain path's directory, and its last component: nothing for `/`.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    (&path[..slash.max(1)], &path[slash + 1..])
}

async fn out_of_sandbox(
    engine: &Engine,
    id: SandboxId,
    path: &[u8],
    to: &Path,
) -> Result<Packed, CommandError> {
    let mut stream = engine.provider().read_files(id, path, None).await?;
    let Some(first) = stream.recv().await else {
        let shown = String::from_utf8_lossy(path);
        return Err(CommandError::not_found(format!(
            "{shown} does not exist in the sandbox"
        )));
    };
    let first = first?;
    let is_directory = !matches!(&first, FileEvent::Entry(entry) if entry.path.is_empty() && entry.kind != FileKind::Directory);
    let (directory, name) = landing(to, split(path).1, is_directory)?;
    let mut unpacker = Unpacker::below(&directory, &name)?;
    unpacker.take(first)?;
    while let Some(event) = stream.recv().await {
        unpacker.take(event?)?;
    }
    let (files, bytes) = unpacker.finish()?;
    Ok(Packed { files, bytes })
}

/// As `cp` has it: into an existing directory, else to the name given.
pub(crate) fn landing(
    to: &Path,
    base: &[u8],
    is_directory: bool,
) -> Result<(PathBuf, OsString), CommandError> {
    if to.is_dir() {
        return Ok((to.to_owned(), OsStr::from_bytes(base).to_owned()));
    }
    if to.as_os_str().as_bytes().ends_with(b"/") && !is_directory {
        return Err(CommandError::not_found(format!(
            "{} is not a directory",
            to.display()
        )));
    }
    let Some(name) = to.file_name() else {
        return Err(CommandError::not_found(format!(
            "{} is not a directory",
            to.display()
        )));
    };
    let parent = to
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if !parent.is_dir() {
        return Err(CommandError::not_found(format!(
            "there is no directory {}",
            parent.display()
        )));
    }
    Ok((parent.to_owned(), name.to_owned()))
}

async fn into_sandbox(
    app: &App,
    engine: &Engine,
    id: SandboxId,
    from: &Path,
    path: &[u8],
) -> Result<Packed, CommandError> {
    // A link that the user names stands for what it leads to; links further down stay links.
    let source = match fs_err::canonicalize(from) {
        Ok(source) => source,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(CommandError::not_found(error));
        }
        Err(error) => return Err(error.into()),
    };
    // `..` has no name of its own.
    let own_name = from.file_name().or(source.file_name()).unwrap_or_default();
    let (directory, name) = match kind_at(engine, id, path).await? {
        Some(FileKind::Directory) => (path.to_vec(), own_name.as_bytes().to_vec()),
        Some(FileKind::Symlink { .. }) => {
            let shown = String::from_utf8_lossy(path);
            return Err(CommandError::refused(format!(
                "{shown} is a symbolic link in the sandbox"
            ))
            .hint("name the place it leads to"));
        }
        Some(FileKind::File) if source.is_dir() => {
            let shown = String::from_utf8_lossy(path);
            return Err(CommandError::refused(format!(
                "{shown} is a file, and {} is a directory",
                from.display()
            )));
        }
        Some(FileKind::File) | None => {
            let (directory, name) = split(path);
            (directory.to_vec(), name.to_vec())
        }
    };
    let (sender, stream): (_, FileStream) = tokio::sync::mpsc::channel(16);
    let output = app.output;
    let packing = tokio::task::spawn_blocking(move || pack(output, &source, &name, &sender));
    // The packer first: when it fails it says why, and the other side only sees the stream end.
    let (packed, written) = tokio::join!(
        packing,
        engine.provider().write_files(id, &directory, None, stream)
    );
    let packed = packed.context("reading the files panicked")??;
    written?;
    packed.ok_or_else(|| {
        CommandError::failed("the sandbox stopped reading before everything was sent")
    })
}

/// What is at a path in the sandbox. The stream is dropped after its first entry.
async fn kind_at(
    engine: &Engine,
    id: SandboxId,
    path: &[u8],
) -> Result<Option<FileKind>, CommandError> {
    let mut stream = engine.provider().read_files(id, path, None).await?;
    match stream.recv().await.transpose()? {
        None => Ok(None),
        Some(FileEvent::Entry(entry)) if entry.path.is_empty() => Ok(Some(entry.kind)),
        Some(_) => Ok(Some(FileKind::Directory)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox(path: &str) -> Place {
        Place::Sandbox {
            sandbox: "web".to_owned(),
            path: path.into(),
        }
    }

    #[test]
    fn a_colon_makes_a_place_in_a_sandbox_unless_a_path_begins_before_it() {
        let parse = |text: &str| Place::parse(OsStr::new(text)).unwrap();
        assert_eq!(parse("web:/a/b"), sandbox("/a/b"));
        assert_eq!(parse("web:/a//./b/"), sandbox("/a/b"));
        assert_eq!(parse("web:/"), sandbox("/"));
        for here in ["a", "./a:b", "/a:b", "../a:b"] {
            assert_eq!(parse(here), Place::Here(here.into()));
        }
    }

    #[test]
    fn a_place_in_a_sandbox_is_absolute_and_does_not_climb() {
        for bad in ["", "web:", "web:a", ":/a", "web:/a/../b"] {
            assert_eq!(
                Place::parse(OsStr::new(bad)).unwrap_err().exit_code(),
                2,
                "{bad}"
            );
        }
    }

    #[test]
    fn a_path_splits_into_its_directory_and_its_name() {
        assert_eq!(split(b"/a/b"), (b"/a".as_slice(), b"b".as_slice()));
        assert_eq!(split(b"/a"), (b"/".as_slice(), b"a".as_slice()));
        assert_eq!(split(b"/"), (b"/".as_slice(), b"".as_slice()));
    }

    #[test]
    fn a_copy_lands_in_an_existing_directory_or_at_the_name_given() {
        let root = camino_tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path).into_std_path_buf();
        assert_eq!(landing(&at(""), b"f", false).unwrap(), (at(""), "f".into()));
        assert_eq!(
            landing(&at("new"), b"f", false).unwrap(),
            (at(""), "new".into())
        );
        assert_eq!(landing(&at("new/"), b"d", true).unwrap().1, "new");
        for missing in ["new/", "no/such"] {
            assert_eq!(
                landing(&at(missing), b"f", false).unwrap_err().exit_code(),
                3,
                "{missing}"
            );
        }
    }
}
