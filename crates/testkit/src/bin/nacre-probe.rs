//! The program that the provider contract suite runs inside a sandbox, so that it needs nothing
//! from the image. What it understands is in `provider::probe`.

#![forbid(unsafe_code)]

#[path = "../probe/files.rs"]
mod files;
#[path = "../probe/load.rs"]
mod load;
#[path = "../probe/manifest.rs"]
mod manifest;
#[path = "../probe/processes.rs"]
mod processes;
#[path = "../probe/streams.rs"]
mod streams;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt};
use std::path::Path;
use std::process::ExitCode;

use provider::probe::Command;

/// The exit code for arguments that are not in the vocabulary.
const NOT_UNDERSTOOD: u8 = 64;

fn main() -> ExitCode {
    let args: Vec<Vec<u8>> = std::env::args_os()
        .skip(1)
        .map(OsStringExt::into_vec)
        .collect();
    // Not in the vocabulary: how `tree` asks itself for a process that left its parent.
    if let [verb, depth, file] = args.as_slice()
        && verb == b"daemonise"
    {
        return exit(processes::daemonise(depth, path(file)));
    }
    match Command::parse(&args) {
        Ok(Command::Exit(code)) => std::process::exit(code),
        Ok(command) => exit(run(command)),
        Err(error) => {
            complain(&error);
            ExitCode::from(NOT_UNDERSTOOD)
        }
    }
}

fn run(command: Command) -> io::Result<()> {
    match command {
        Command::Out { bytes, mark } => streams::out(bytes, mark.as_deref().map(path)),
        Command::Err(text) => streams::err(&text),
        Command::Exit(code) => std::process::exit(code),
        Command::Die(signal) => processes::die(signal),
        Command::Cat => streams::cat(),
        Command::Env => streams::env(),
        Command::Pwd => streams::pwd(),
        Command::Id => streams::id(),
        Command::Tty => streams::tty(),
        Command::TtyWatch => streams::tty_watch(),
        Command::Args(args) => streams::args(&args),
        Command::Sleep(time) => {
            std::thread::sleep(time);
            Ok(())
        }
        Command::Tree(file) => processes::tree(path(&file)),
        Command::Beat(file) => processes::beat(path(&file)),
        Command::Counter(file) => processes::counter(path(&file)),
        Command::Listen(port) => streams::listen(port),
        Command::Door(name) => streams::door(&name),
        Command::Alloc(megabytes) => load::alloc(megabytes),
        Command::Forks(count) => load::forks(count),
        Command::Spin(time) => load::spin(time),
        Command::Fill {
            path: to,
            megabytes,
        } => load::fill(path(&to), megabytes),
        Command::Read(from) => streams::read(path(&from)),
        Command::Files(works) => works.into_iter().try_for_each(files::work),
        Command::Manifest(of) => manifest::write(path(&of)),
        Command::Identity => streams::identity(),
    }
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn exit(result: io::Result<()>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    complain(&error);
    ExitCode::FAILURE
}

fn complain(error: &dyn std::error::Error) {
    // Nobody may be listening any more; the exit code says enough.
    let _ = streams::err(format!("{error}\n").as_bytes());
}
