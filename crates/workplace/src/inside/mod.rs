//! The dev tools for the sandbox's own user, on a unix socket. Who asks is told by the kernel: root
//! and the user may, nobody else.
//!
//! The socket is [`PATH`]: `/run` is a file system in memory that belongs to root, so nobody but
//! root can put something else there, and no snapshot holds it. (That the user can become root
//! changes nothing: then it is the user.)

use std::convert::Infallible;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;

use camino::Utf8Path;
use fs_err as fs;
use tokio::net::{UnixListener, UnixStream};

use crate::devtools::{Door, Tools, welcome};

pub const PATH: &str = "/run/nacre.sock";

/// In the place of what a workplace before us left there, with no moment in between.
pub fn bind(path: &Utf8Path) -> io::Result<UnixListener> {
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, PermissionsExt::from_mode(0o666))?;
    fs::rename(&new, path)?;
    Ok(listener)
}

/// Serves root and the user of this number until it is dropped.
pub async fn serve(listener: UnixListener, tools: Rc<Tools>, user: u32) -> Infallible {
    welcome(tools, async || {
        let (stream, _) = listener.accept().await?;
        let door = door(&stream, user);
        Ok((stream, door))
    })
    .await
}

fn door(stream: &UnixStream, user: u32) -> Door {
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == 0 || peer.uid() == user => Door::Open,
        _ => Door::Closed,
    }
}
