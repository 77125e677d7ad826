//! `nacre-scripted-model [PORT]`: a double of a model's provider, on loopback. Prints its address
//! and answers until it is ended. What it can be told is said at `nacre_testkit::model`.

use std::process::ExitCode;

use nacre_testkit::model::ScriptedModel;

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program's own output"
)]
fn main() -> ExitCode {
    let port = std::env::args().nth(1).map_or(Ok(0), |port| port.parse());
    let Ok(port) = port else {
        eprintln!("usage: nacre-scripted-model [PORT]");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let served = runtime.and_then(|runtime| {
        runtime.block_on(async {
            let model = ScriptedModel::listen(port).await?;
            println!("{}", model.address()?);
            model.run().await
        })
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot serve on port {port}: {error}");
            ExitCode::FAILURE
        }
    }
}
