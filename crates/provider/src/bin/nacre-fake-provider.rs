//! The fake provider as a process: `nacre-fake-provider --state DIR --socket PATH`.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

#[tokio::main]
async fn main() -> io::Result<()> {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let after = |flag: &str| {
        let mut pairs = args.chunks_exact(2);
        pairs
            .find(|pair| pair[0] == flag)
            .map(|pair| PathBuf::from(&pair[1]))
    };
    let (Some(state), Some(socket)) = (after("--state"), after("--socket")) else {
        let usage = "usage: nacre-fake-provider --state DIR --socket PATH";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, usage));
    };
    nacre_provider::fake::serve(&state, &socket).await
}
