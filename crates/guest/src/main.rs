//! `nacre-guest`: what runs inside a sandbox for us, as one file, since two would each bring the same
//! libraries along. It is two processes all the same: see decision 0009.

use std::process::ExitCode;

fn main() -> ExitCode {
    // PID 1 calls the other one by its name; whoever starts PID 1 calls it anything.
    let name = std::env::args_os().next();
    if name.is_some_and(|name| name == workplace::program::NAME) {
        workplace::program::main(runner::code::let_go)
    } else {
        runner::main()
    }
}
