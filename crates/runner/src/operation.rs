//! One connection: a request, and what comes of it.

use std::rc::Rc;

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::sync::OwnedSemaphorePermit;
use wire::Frame;
use wire::frame::read_frame;
use wire::guest::{Below, Exec, Hello, PROTOCOL, Reply, Request};

use crate::exec::Leftovers;
use crate::serve::Runner;
use crate::{exec, failure, files};

/// A host that closes early or talks nonsense is left alone.
pub(crate) async fn serve(runner: Rc<Runner>, mut host: UnixStream, permit: OwnedSemaphorePermit) {
    let request = match read_frame(&mut host).await {
        Ok(Some(frame)) => frame.message(),
        _ => return,
    };
    match request {
        Ok(Request::Hello) => answer(&mut host, &Reply::Hello(hello(&runner))).await,
        Ok(Request::Exec(exec)) => command(&runner, host, exec, Leftovers::Live, permit).await,
        Ok(Request::Whole(exec)) => command(&runner, host, exec, Leftovers::Die, permit).await,
        Ok(Request::Read { path, user }) => {
            files::serve(&runner, host, user.as_deref(), files::Work::Read(path)).await;
        }
        Ok(Request::Write { path, user }) => {
            files::serve(&runner, host, user.as_deref(), files::Work::Write(path)).await;
        }
        Ok(Request::Below(Below { root, user, work })) => {
            let work = files::Work::Below(root, work);
            files::serve(&runner, host, user.as_deref(), work).await;
        }
        Err(_) => {}
    }
}

async fn command(
    runner: &Rc<Runner>,
    host: UnixStream,
    exec: Exec,
    leftovers: Leftovers,
    permit: OwnedSemaphorePermit,
) {
    if let Err((mut host, failed)) = exec::run(runner, host, exec, leftovers, permit).await {
        answer(&mut host, &Reply::Failed(failed)).await;
    }
}

/// For a connection that is one too many. What does not fit the socket at once is not sent.
pub(crate) fn turn_away(host: &UnixStream) {
    let failed = failure::exhausted("the sandbox is busy with as many operations as it takes");
    let _ = host.try_write(&Frame::control(&Reply::Failed(failed)).encode());
}

async fn answer(host: &mut UnixStream, reply: &Reply) {
    let _ = host.write_all(&Frame::control(reply).encode()).await;
}

fn hello(runner: &Runner) -> Hello {
    Hello {
        protocol: PROTOCOL,
        sandbox: runner.config.sandbox.clone(),
        generation: runner.config.generation,
        boot: runner.config.boot.clone(),
    }
}
